//go:build soak

package sqlite_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/sqlite"
)

// perform runs an example on a new ledger, just as it stands in the contract.
func perform(t *testing.T, program, source string) (string, *sqlite.Store) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	s := need.Get(sqlite.Create(context.Background(), path, sqlite.Options{}))(t)
	t.Cleanup(func() { s.Close() })
	cmd := exec.Command(program)
	cmd.Stdin = strings.NewReader(source)
	cmd.Env = append(os.Environ(), "INDOUBT_LEDGER="+path)
	out, err := cmd.CombinedOutput()
	need.Must(t, err == nil, "%v\n%s", err, out)
	return string(out), s
}

func TestContractInPython(t *testing.T) {
	need.Program(t, "python3")
	out, s := perform(t, "python3", example(t, "python", 0))
	if want := example(t, "output", 0); out != want {
		t.Fatalf("it printed\n%swant\n%s", out, want)
	}
	ctx := context.Background()
	for _, want := range []struct {
		kind, key string
		state     ledger.State
		begin     ledger.BeginAnswer // what the same key is told now
	}{
		{"x.post", "v2.3 is out", ledger.Committed, ledger.AnswerFinished},
		{"mail.send", "welcome ana", ledger.Uncertain, ledger.AnswerInDoubt},
		{"card.charge", "INV-1187", ledger.Failed, ledger.AnswerBegun}, // it was refused, which is a proof
	} {
		rec := need.Get(s.Read(ctx, ledger.Locator{Kind: want.kind, Key: want.key}))(t)
		if o := rec.Operation; o.State != want.state || len(rec.Attempts) != 1 || !o.TokenSent || o.Source.Pipeline != "nightly" {
			t.Fatalf("%s is %s after %d attempts", want.kind, o.State, len(rec.Attempts))
		}
		res, err := ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(),
			Kind: want.kind, Key: want.key, Sender: "pipeline", Deadline: time.Minute, Actor: ledger.Actor{Name: "nightly", Machine: true}})
		need.Must(t, err == nil && res.Answer == want.begin,
			"%s: begin was told %s (%v), want %s", want.kind, res.Answer, err, want.begin)
	}
	// What came after its deadline can still be said, by naming the attempt.
	doubt := need.Get(s.Read(ctx, ledger.Locator{Kind: "mail.send", Key: "welcome ana"}))(t)
	applied, err := ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: doubt.Operation.ID + ".1",
		Outcome: ledger.OutcomeCommitted, Receipt: "m-9", Actor: ledger.Actor{Name: "nightly", Machine: true}})
	need.Must(t, err == nil && applied.After.State == ledger.Committed,
		"the late answer: %s, %v", applied.After.State, err)
}

func TestContractInTheShell(t *testing.T) {
	need.Program(t, "sh", "sqlite3")
	out, s := perform(t, "sh", example(t, "sh", 1))
	if want := example(t, "output", 1); out != want {
		t.Fatalf("it printed %q, want %q", out, want)
	}
	rec, err := s.Read(context.Background(), ledger.Locator{Kind: "deploy", Key: "web 4.18.3"})
	need.Must(t, err == nil && rec.Operation.State == ledger.Committed && rec.Operation.Target == "web",
		"%+v, %v", rec.Operation, err)
}
