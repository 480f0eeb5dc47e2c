package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/store"
)

// A process keeps a removed file open and goes on writing to it without an
// error, where nobody would ever see it: nothing may be sent on such a record.
// What was in flight is written down there still, because the file may come back,
// and nobody is told that it is recorded.
func TestI1_AGoneLedgerAllowsNoSend(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(t *testing.T, path string){
		"removed": func(t *testing.T, path string) { need.OK(t, os.Remove(path)) },
		"moved":   func(t *testing.T, path string) { need.OK(t, os.Rename(path, path+".old")) },
		"replaced": func(t *testing.T, path string) {
			need.OK(t, os.WriteFile(path+".backup", need.Get(os.ReadFile(path))(t), 0o600))
			need.OK(t, os.Rename(path+".backup", path))
		},
		"its directory moved": func(t *testing.T, path string) { need.OK(t, os.Rename(filepath.Dir(path), filepath.Dir(path)+".old")) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "here", "ledger.db")
			s := need.Get(Create(ctx, path, Options{}))(t)
			defer s.Close()
			flying := begin(t, s)
			leave(t, s.path)

			if _, err := ledger.Begin(ctx, s, request()); !errors.Is(err, ledger.ErrGone) {
				t.Errorf("begun: %v", err)
			}
			if _, err := s.Info(ctx); !errors.Is(err, ledger.ErrGone) {
				t.Errorf("whoever looks is not told: %v", err)
			}
			if _, err := s.Expire(ctx, 1); !errors.Is(err, ledger.ErrGone) {
				t.Errorf("an engine is not told: %v", err)
			}
			_, err := ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: flying.Attempt.ID,
				Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Status: -1, Actor: billing})
			need.That(t, errors.Is(err, ledger.ErrGone), "what was in flight is acknowledged: %v", err)
			there := ledger.Operation{ID: flying.Operation.ID} // no connection is opened to a file that is gone
			need.OK(t, one(&tx{w: s.writer}, `SELECT state, version FROM op`, &there.State, &there.Version))
			need.Must(t, there.State == ledger.Uncertain, "what was in flight is %s", there.State)
			for sender, attempt := range map[string]string{"pipeline": "", "http": ledger.NewID()} {
				_, err = ledger.Allow(ctx, s, ledger.AllowRequest{ChangeID: ledger.NewID(), AllowID: ledger.NewID(), AttemptID: attempt,
					OperationID: there.ID, Version: there.Version, Basis: ledger.BasisRiskAccepted, Sender: sender, Reason: "it must go",
					Actor: ann, ExpiresAt: s.now().Add(1e12), Deadline: 1e10})
				need.That(t, errors.Is(err, ledger.ErrGone), "allowed to the sender %s: %v", sender, err)
			}
		})
	}
}

// A file that became read-only under a writer is told in plain words, by the
// change that met it too.
func TestI1_AFileThatBecameReadOnly(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	err := database{s.handle}.Update(ctx, func(tx store.Tx) error { // SQLite takes the lock of such a file, and says no to the first write
		if _, err := tx.Exec(`PRAGMA query_only = 1`); err != nil {
			return err
		}
		return store.SetMeta(tx, "a", "b")
	})
	need.That(t, errors.Is(err, ledger.ErrReadOnly), "written: %v", err)
	need.OK(t, s.writer.exec(`PRAGMA query_only = 0`))
	begin(t, s)
}
