package mcpproxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/record/mcpproxy"
	"indoubt/ledger/wire/mcpwire"
)

// TestLostAnswersOverHTTP: whatever the transport calls rejected was sent.
func TestLostAnswersOverHTTP(t *testing.T) {
	for _, c := range []struct {
		lost    mcpwire.Lost
		state   ledger.State
		outcome string
	}{
		{mcpwire.Lost{Sent: true, Status: 503, Err: errors.New("HTTP 503")}, ledger.Uncertain, "unknown"},
		{mcpwire.Lost{Sent: true, Status: 404, Err: errors.New("HTTP 404")}, ledger.Uncertain, "unknown"},
		{mcpwire.Lost{Sent: true, Status: 401, Err: errors.New("HTTP 401")}, ledger.Uncertain, "unknown"}, // a gateway's, for all we know
		{mcpwire.Lost{Sent: true, Status: 401, Refused: true, Err: errors.New("it wants a credential")}, ledger.Failed, ""},
		{mcpwire.Lost{Sent: true, Status: 404, Refused: true, Err: errors.New("it has ended the session")}, ledger.Failed, ""},
		{mcpwire.Lost{Sent: true, Err: io.ErrUnexpectedEOF}, ledger.Uncertain, "unknown"},
		{mcpwire.Lost{Err: errors.New("connection refused")}, ledger.Failed, ""},
	} {
		t.Run(fmt.Sprint(c.lost.Err), func(t *testing.T) {
			w := newWorld(t)
			o := w.options()
			o.Connect = func(context.Context) (mcpwire.Conn, error) {
				return newFake(func(f *fake, line []byte) { f.lose(c.lost, line) }), nil
			}
			cl := w.clientWith(o)
			a := cl.ask("1", "put", `{}`)
			a.wantOutcome(t, c.outcome)
			need.That(t, c.outcome != "" || a.Error != nil && strings.Contains(a.Error.Message, c.lost.Err.Error()), "answer: %s", a.line)
			w.wantState(w.only(), c.state)
			cl.say(`{"jsonrpc":"2.0","id":"r","method":"resources/list"}`)
			if a := cl.answered(`"r"`); a.Error == nil {
				t.Errorf("answer: %s", a.line)
			}
		})
	}
}

// tooDeep is nested deeper than is looked at.
var tooDeep = strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001)

// TestI2_AnAnswerThatCanBeReadInTwoWays: what is no tool's result, and one whose parts
// occur twice, settle nothing, and pass as they came.
func TestI2_AnAnswerThatCanBeReadInTwoWays(t *testing.T) {
	for _, result := range []string{`null`, `"failed"`, `[]`, `{"content":[],"isError":true,"isError":false}`, `{"content":` + tooDeep + `}`} {
		w := newWorld(t)
		o := w.options()
		o.Connect = func(context.Context) (mcpwire.Conn, error) {
			return newFake(func(f *fake, line []byte) {
				f.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, mcpwire.Parse(line).ID, result)
			}), nil
		}
		c := w.clientWith(o)
		c.call("1", "put", `{}`)
		if line := c.hear(); !strings.Contains(line, result) {
			t.Errorf("%s does not pass: %s", result, line)
		}
		w.wantState(w.only(), ledger.Uncertain)
		need.OK(t, c.leave())
	}
}

// TestTheIdOfACallThatWasNotSentIsFree: it has had its answer, and no other comes.
func TestTheIdOfACallThatWasNotSentIsFree(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.Connect = func(ctx context.Context) (mcpwire.Conn, error) {
		return mcpwire.Dial(ctx, "http://127.0.0.1:1", nil) // a port that no other test is given
	}
	c := w.clientWith(o)
	for range 2 {
		if a := c.ask("1", "put", `{}`); a.Error == nil || !strings.Contains(a.Error.Message, "connection refused") {
			t.Errorf("answer: %s", a.line)
		}
	}
	w.wantState(w.only(), ledger.Failed)
	need.OK(t, c.leave())
}

// TestAServerDeadAtStartIsNamed: whichever is quicker, the server that ends or the
// client that speaks, the client hears how it ended, and the proxy fails with that.
func TestAServerDeadAtStartIsNamed(t *testing.T) {
	for _, script := range []string{"exit 3", "sleep 0.02; exit 3", "read -r line; exit 3"} {
		for range 5 {
			w := newWorld(t)
			w.argv = []string{"/bin/sh", "-c", script}
			var mu sync.Mutex
			var logged []string
			o := w.options()
			o.Log = func(line string) {
				mu.Lock()
				defer mu.Unlock()
				logged = append(logged, line)
			}
			c := w.clientWith(o)
			c.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`)
			if a := c.answered("0"); a.Error == nil || !strings.Contains(a.Error.Message, "exit status 3") {
				t.Errorf("%s: initialize is answered with %s", script, a.line)
			}
			c.in.Close()
			if err := c.wait(); !errors.Is(err, mcpproxy.ErrServerGone) || !strings.Contains(err.Error(), "exit status 3") {
				t.Errorf("%s: it ends with %v", script, err)
			}
			mu.Lock()
			need.That(t, len(logged) == 0, "%s: it says besides %q", script, logged)
			mu.Unlock()
		}
	}
}

// fake is a connection whose server is a function.
type fake struct {
	take  func(*fake, []byte)
	lines chan any
	once  sync.Once
	done  chan struct{}
}

func newFake(take func(*fake, []byte)) *fake {
	return &fake{take: take, lines: make(chan any, 1024), done: make(chan struct{})}
}

func (f *fake) Send(_ context.Context, line []byte) (bool, error) {
	f.take(f, line)
	return true, nil
}

func (f *fake) Recv() ([]byte, error) {
	select {
	case v := <-f.lines:
		if lost, ok := v.(*mcpwire.Lost); ok {
			return nil, lost
		}
		return v.([]byte), nil
	case <-f.done:
		return nil, io.EOF
	}
}

func (f *fake) Close() error {
	f.once.Do(func() { close(f.done) })
	return nil
}

func (f *fake) lose(lost mcpwire.Lost, line []byte) {
	if frame := mcpwire.Parse(line); frame.Kind == mcpwire.Request {
		lost.ID = frame.ID
		f.lines <- &lost
	}
}

// TestManyClientsOneEffectPerKey: 200 clients, 50 calls, one ledger.
func TestManyClientsOneEffectPerKey(t *testing.T) {
	w := newWorld(t)
	w.rule.Deadline, w.rule.Repeat = time.Minute, "replay"
	const clients, calls = 200, 50
	var mu sync.Mutex
	effects := map[string]int{}
	o := w.options()
	var all sync.WaitGroup
	for i := range clients {
		all.Add(1)
		go func() {
			defer all.Done()
			o := o
			in, say := io.Pipe()
			hear, out := io.Pipe()
			o.In, o.Out = in, out
			o.Connect = func(context.Context) (mcpwire.Conn, error) {
				return newFake(func(f *fake, line []byte) {
					frame := mcpwire.Parse(line)
					if frame.Method == "tools/call" {
						mu.Lock()
						effects[string(frame.Params["arguments"])]++
						mu.Unlock()
					}
					f.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"did put"}],"tools":[]}}`, frame.ID)
				}), nil
			}
			ended := make(chan error, 1)
			go func() { ended <- mcpproxy.New(o).Run(context.Background()); out.Close() }()
			c := &client{TB: t, in: say}
			c.listen(hear)
			fmt.Fprintf(say, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"put","arguments":{"n":%d}}}`+"\n", i, i%calls)
			if line, open := <-c.lines; !open || !strings.Contains(line, "did put") {
				t.Errorf("client %d: %s", i, line)
			}
			say.Close()
			if err := <-ended; err != nil {
				t.Errorf("client %d: %v", i, err)
			}
		}()
	}
	all.Wait()
	need.That(t, len(effects) == calls, "%d calls had an effect, want %d", len(effects), calls)
	for call, n := range effects {
		need.That(t, n == 1, "%s had %d effects", call, n)
	}
	need.Equal(t, len(w.operations()), calls)
}
