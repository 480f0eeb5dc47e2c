package mcpproxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/hostclock"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/wire/mcpwire"
)

// inABubble runs a test in which deadlines that are waited for come at once.
func inABubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if _, already := besides.LoadOrStore(t, true); !already {
		t.Parallel()
	}
	synctest.Test(t, func(t *testing.T) {
		besides.Store(t, true)
		test(t)
	})
}

// inMemory is a ledger that keeps the time of the test.
func inMemory() ledger.Store { return ledgertest.NewMemory(time.Now, hostclock.With(time.Now)) }

// piped is the scripted server in this process.
type piped struct {
	in      *io.PipeWriter
	out     *io.PipeReader
	lines   *bufio.Reader
	server  *scripted
	stopped chan struct{}
}

func (w *world) piped() *piped {
	theirIn, in := io.Pipe()
	out, theirOut := io.Pipe()
	p := &piped{in: in, out: out, lines: bufio.NewReader(out), stopped: make(chan struct{})}
	p.server = newScripted(theirIn, theirOut, w.journal, w.effects, w.mode)
	p.server.die = func() {
		theirIn.Close()
		_ = theirOut.CloseWithError(fmt.Errorf("%w: exit status 3", mcpwire.ErrEnded))
		runtime.Goexit()
	}
	go func() {
		defer close(p.stopped)
		p.server.run()
		theirOut.Close()
	}()
	return p
}

func (p *piped) Send(ctx context.Context, line []byte) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	n, err := io.WriteString(p.in, strings.TrimSuffix(string(line), "\n")+"\n")
	if err != nil {
		err = fmt.Errorf("%w: %w", mcpwire.ErrEnded, err)
	}
	return n > 0, err
}

func (p *piped) Recv() ([]byte, error) { return p.lines.ReadBytes('\n') }

func (p *piped) Close() error {
	p.in.Close()
	p.out.Close()
	p.server.end()
	<-p.stopped
	return nil
}

// TestI10_WhatAProxyLeavesBehind: a proxy whose ledger hears nothing more of it leaves its
// call pending, and in doubt after its deadline. The same call waits for that.
func TestI10_WhatAProxyLeavesBehind(t *testing.T) {
	inABubble(t, func(t *testing.T) {
		w := newWorld(t)
		w.rule.Deadline = 4 * time.Second
		cut := &broken{Store: w.store}
		lost := *w
		lost.store = cut
		o := lost.options()
		o.Grace = time.Second
		first := lost.clientWith(o)
		first.call("1", "silent", `{"a":1}`)
		w.eventually("the call is with the server", func() bool { return len(effectsIn(t, w.effects)) == 1 })
		cut.set(ledger.ErrGone)
		first.stop()
		w.wantState(w.only(), ledger.Pending)
		w.client().ask("1", "silent", `{"a":1}`).wantOutcome(t, "unknown")
		w.wantState(w.only(), ledger.Uncertain)
		w.wantEffects(1)
		_ = first.wait()
		cut.set(nil)
		need.Equal(t, o.Recorder.Drain(t.Context()), 0)
	})
}
