package ledgertest

import (
	"context"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// Caller is what a recorder keeps in the store of a header that says who asks. Where the
// store has no key yet, it is nobody's.
func Caller(t testing.TB, store ledger.Store, value string) string {
	t.Helper()
	keeper, keeps := store.(interface {
		DigestKey(context.Context) ([]byte, error)
	})
	need.Must(t, keeps, "the ledger has no key")
	key, err := keeper.DigestKey(context.Background())
	if err != nil {
		return "nobody"
	}
	return ledger.KeyedDigest(key, value)[:ledger.CallerLength]
}
