//go:build soak && unix

package command

import (
	"bytes"
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
)

// slow takes nothing until it is told to, as a pager does.
type slow struct {
	bytes.Buffer
	takes <-chan struct{}
}

func (s *slow) Write(p []byte) (int, error) {
	<-s.takes
	return s.Buffer.Write(p)
}

// TestI3_ASlowReaderGetsAllOfTheOutput: a command that has ended is not done before its
// output is passed on. Until then its attempt is alive, past its deadline too.
func TestI3_ASlowReaderGetsAllOfTheOutput(t *testing.T) {
	r, store := real(t, record.KindRule{})
	takes := make(chan struct{})
	out := &slow{takes: takes}
	go func() {
		defer close(takes)
		time.Sleep(3 * time.Second)
		rec, err := store.Read(context.Background(), ledger.Locator{Kind: "post", Key: "k"})
		if err != nil || rec.State() != ledger.Pending {
			t.Errorf("while its output waits: %s, %v", rec.State(), err)
		}
	}()
	const length = 90_000 // more than is read at once, and less than that and what a pipe holds
	res := need.Get(Run(t.Context(), r, Request{Request: record.Request{Kind: "post", Key: "k", Deadline: time.Second},
		Argv: sh(`head -c 90000 /dev/zero`), Stdout: out}))(t)
	need.Equal(t, out.Len(), length, "bytes")
	need.Equal(t, res.Operation.State, ledger.Committed)
}

// TestAReaderThatTakesNothingIsLeft by who asks the run to end; what the command did is
// recorded, and its output is not kept as a whole one.
func TestAReaderThatTakesNothingIsLeft(t *testing.T) {
	r, _ := real(t, record.KindRule{})
	takes := make(chan struct{})
	defer close(takes)
	signals := make(chan os.Signal, 1)
	time.AfterFunc(2*time.Second, func() { signals <- syscall.SIGTERM })
	res := need.Get(Run(t.Context(), r, Request{Request: record.Request{Kind: "post", Key: "k"}, Argv: sh(`head -c 40000 /dev/zero`),
		Stdout: &slow{takes: takes}, Signals: signals}))(t)
	need.Equal(t, res.Operation.State, ledger.Committed)
	if again := told(ledger.BeginResult{Answer: ledger.AnswerFinished, Operation: res.Operation}); !again.Part {
		t.Error("a part of the output counts as all of it")
	}
}

// TestALeftChildHoldsUpNoOutcome: what the command leaves behind may keep its output open.
func TestALeftChildHoldsUpNoOutcome(t *testing.T) {
	r := record.New(ledgertest.NewBreakable(nil), nil, record.Options{})
	began := time.Now()
	res, err := Run(t.Context(), r, Request{Request: record.Request{Kind: "post", Key: "k2", Deadline: 2 * time.Second}, Argv: sh("echo a; sleep 30 &")})
	if err != nil || res.ExitCode != 0 || time.Since(began) > 25*time.Second || string(res.Operation.Result) != `"a\n"` {
		t.Errorf("%d %s %v after %s", res.ExitCode, res.Operation.Result, err, time.Since(began))
	}
}
