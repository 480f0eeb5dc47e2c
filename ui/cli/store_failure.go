package cli

import (
	"cmp"
	"errors"
	"fmt"

	"indoubt/ledger"
)

// storeFailure says why a ledger cannot be used, or what it refused, in the words of
// its store.
func storeFailure(err error, f *failure) bool {
	var store ledger.Troubled
	if !errors.As(err, &store) {
		return false
	}
	t := store.Trouble(short)
	f.Code, f.Message, f.Hint = t.Code, t.Message, t.Do
	if f.Code == "no_ledger" {
		f.Hint = cmp.Or(t.Do, firstSteps)
	}
	return true
}

// isMissing reports whether there is no ledger at all.
func isMissing(err error) bool {
	f := failure{}
	return storeFailure(err, &f) && f.exit() == exitNotFound
}

// explainID names the id that was not found as it was written.
func explainID(id string, err error) error {
	if errors.Is(err, ledger.ErrNotFound) {
		return &failure{Code: "not_found", Message: fmt.Sprintf("there is no operation %q", id),
			Hint: "see `indoubt list`, or check --ledger / INDOUBT_LEDGER", cause: err}
	}
	return err
}
