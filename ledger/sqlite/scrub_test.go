package sqlite

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

// After a redaction no byte of the text is in the files of the ledger.
func TestRedactedTextIsInNoFile(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	long := strings.Repeat("jane", 5000) // on pages of its own
	ledgertest.Redacted(t, s, s.now(), long)
	holds := func() (found []string) {
		for _, side := range []string{"", "-wal", "-shm"} {
			if text, err := os.ReadFile(s.path + side); err == nil && bytes.Contains(text, []byte("jane-of-gone")) {
				found = append(found, "ledger"+side)
			}
		}
		return found
	}
	need.Must(t, len(holds()) != 0, "the text is in none of them before")
	if left := need.Get(s.Scrub(ctx))(t); left != "copies and backups of the ledger" {
		t.Error(left)
	}
	if found := holds(); len(found) > 0 {
		t.Errorf("the text is in %s", found)
	}
	// Someone had the statistics made, which have samples of what is looked for.
	need.Get(rawDB(t, s.path).Exec(`ANALYZE`))(t)
	rec := need.Get(s.Read(ctx, ledger.Locator{ID: "kept"}))(t)
	need.Get(ledger.Decide(ctx, s, ledger.Decision{ChangeID: "once more", ID: "kept", Version: rec.Operation.Version, Verb: ledger.VerbRedact, Reason: "request 8", Actor: ann}))(t)
	need.Get(s.Scrub(ctx))(t)
	for _, side := range []string{"", "-wal"} {
		text, _ := os.ReadFile(s.path + side)
		need.That(t, !bytes.Contains(text, []byte("jane-of-kept")), "a sample is in ledger%s", side)
	}
	if d := need.Get(s.Deviations(ctx))(t); len(d) != 0 {
		t.Errorf("%+v", d)
	}
}
