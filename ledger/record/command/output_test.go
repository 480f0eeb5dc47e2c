//go:build unix

package command

import (
	"bytes"
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
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

// full is where nothing more can be written.
type full struct{ why error }

func (f full) Write([]byte) (int, error) { return 0, f.why }

// TestOutputThatCannotBeWritten is said, unless its reader wants no more.
func TestOutputThatCannotBeWritten(t *testing.T) {
	r, _ := real(t, record.KindRule{})
	for why, said := range map[error]error{syscall.ENOSPC: syscall.ENOSPC, syscall.EPIPE: nil} {
		res := need.Get(Run(t.Context(), r, Request{Request: record.Request{Kind: "post", Key: why.Error()}, Argv: sh("echo x"), Stdout: full{why}}))(t)
		need.Equal(t, res.Operation.State, ledger.Committed)
		need.Equal(t, res.Unwritten, said)
	}
}
