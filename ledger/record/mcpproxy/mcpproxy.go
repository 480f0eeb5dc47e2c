// Package mcpproxy stands between an MCP client and a server, records every
// tools/call that may write before its line is forwarded, and answers repeated
// calls from the record.
//
// Lines pass as they are, in both directions and in order; a parsed copy is
// looked at. Only tools/call is acted on, and only a call that carries a
// correlation token is rewritten, at the token's place. What a server could read
// as a call although it is not clearly one is answered with an error and goes no
// further.
//
// It imports ledger, ledger/record and ledger/wire/mcpwire.
package mcpproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/record"
	"indoubt/ledger/wire/mcpwire"
)

// Options are what a proxy stands between, and what it records with.
type Options struct {
	Recorder *record.Recorder
	// Connect starts or reaches the server. After an error every call is recorded
	// as never sent.
	Connect func(context.Context) (mcpwire.Conn, error)
	In      io.Reader // the client's lines
	Out     io.Writer // lines for the client, and nothing else

	Server   string        // names the kinds: mcp.<Server>.<tool>
	Scope    string        // the same key in another scope is another one
	Deadline time.Duration // of a call; 0: the kind's
	Log      func(string)  // one line about what cannot be said to the client; may be nil

	// InputPatience is how long an attempt stays in flight that was answered with a
	// question; Grace how long outstanding calls may take after the context has ended.
	// Zero: 15 min, 1.5 s.
	InputPatience, Grace time.Duration
	// HoldPatience is how long a call may wait for what an identical one did: shorter
	// than clients wait. Zero: 45 s.
	HoldPatience time.Duration
}

// Bounds of what a server may ask for.
const (
	queueLength = 256  // client lines read ahead of the server
	keptCalls   = 1024 // answered calls whose second answer would be noticed
	waitersStay = 5 * time.Second
	lastLines   = 2 * time.Second // for what a server that has ended said before
)

// ErrServerGone says that the server left before its client did.
var ErrServerGone = errors.New("the MCP server is gone")

// lifetime ends what is under way when the proxy ends.
type lifetime struct {
	ctx     context.Context // of everything that is given up then
	cancel  context.CancelFunc
	leaving context.Context // ends when callers that only wait are given up
	leave   context.CancelFunc
}

// Proxy is one client's way to one server.
type Proxy struct {
	o       Options
	session string // of this proxy's life
	status  string // what the tool is called that tells how calls stand

	conn     mcpwire.Conn
	startErr error
	gone     chan struct{} // closed when no more comes from the server
	goneErr  error         // why; set before gone is closed
	leaves   sync.Once     // closes gone
	dead     atomic.Bool   // a line found that the server has ended: gone is about to be closed

	out   lineWriter
	queue chan *slot
	tools tools

	mu      sync.Mutex
	flights map[string]*flight // client requests by id
	client  string             // who it is, by its own word
	ended   []string           // ids of answered calls still in flights, oldest first
	closing bool               // no new calls are taken

	lifetime

	calls      sync.WaitGroup // calls that are outstanding, as goroutines
	recording  sync.WaitGroup // late answers being recorded
	deliveries deliveries
}

// New makes a proxy. Run runs it.
func New(o Options) *Proxy {
	if o.Log == nil {
		o.Log = func(string) {}
	}
	for _, d := range []struct {
		value *time.Duration
		usual time.Duration
	}{{&o.InputPatience, 15 * time.Minute}, {&o.Grace, 1500 * time.Millisecond}, {&o.HoldPatience, 45 * time.Second}} {
		if *d.value <= 0 {
			*d.value = d.usual
		}
	}
	return &Proxy{
		o: o, session: ledger.NewID(), status: statusName(o.Server),
		gone: make(chan struct{}), out: lineWriter{to: o.Out}, queue: make(chan *slot, queueLength),
		flights: map[string]*flight{},
	}
}

// Run relays until the client leaves or ctx ends. Where the server is gone before that, every
// request is told so and nothing is sent; the status tool goes on answering. The
// server is kept until every recorded call has its answer or its deadline, after
// the end of ctx for Options.Grace at most; then the rest is recorded as in
// doubt. The error says why a server could not be started, or that it left first
// (ErrServerGone).
func (p *Proxy) Run(ctx context.Context) error {
	p.ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	defer p.cancel()
	p.leaving, p.leave = context.WithCancel(p.ctx)
	received := make(chan struct{})
	p.conn, p.startErr = p.o.Connect(p.ctx)
	if p.startErr != nil {
		close(received)
	} else {
		go func() {
			defer close(received)
			p.receive()
		}()
	}
	forwarded := make(chan struct{})
	go p.read()
	go p.forward(forwarded)

	select {
	case <-forwarded: // the client has left, and all it said is on its way
	case <-ctx.Done():
	case <-p.gone:
		p.unanswered()
		select {
		case <-forwarded:
		case <-ctx.Done():
		}
	}
	p.outstanding(ctx)
	if p.dead.Load() {
		<-p.gone
	}
	first := isClosed(p.gone) // it went before it was asked to
	p.cancel()
	if p.conn != nil {
		_ = p.conn.Close()
		<-received
	}
	<-forwarded
	p.calls.Wait()
	p.recording.Wait()
	if first {
		p.unanswered()
	}
	p.deliveries.all.Wait()
	if first && ctx.Err() == nil {
		return p.whyGone()
	}
	return p.startErr
}

// left notes that no more comes from the server.
func (p *Proxy) left(err error) {
	p.leaves.Do(func() {
		p.goneErr = err
		close(p.gone)
	})
}

// tellEnded takes in that a line could not be sent because the server has ended.
// What it said before is still read, unless something that it left behind keeps
// its output open.
func (p *Proxy) tellEnded(err error) {
	if errors.Is(err, mcpwire.ErrEnded) && !p.dead.Swap(true) {
		time.AfterFunc(lastLines, func() { p.left(err) })
	}
}

// whyGone is ErrServerGone with its cause. It is called after gone is closed.
func (p *Proxy) whyGone() error { return fmt.Errorf("%w: %w", ErrServerGone, p.goneErr) }

// outstanding waits for the calls that have been sent.
func (p *Proxy) outstanding(ctx context.Context) {
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	done := make(chan struct{})
	go func() {
		p.calls.Wait()
		close(done)
	}()
	// A call that only waits for another caller's attempt holds nothing up for long.
	patience := time.AfterFunc(waitersStay, p.leave)
	defer patience.Stop()
	if isClosed(p.gone) {
		p.leave()
	}
	select {
	case <-done:
		return
	case <-p.gone:
		p.leave()
		<-done // they all end by that
		return
	case <-ctx.Done():
	}
	p.leave()
	select {
	case <-done:
	case <-time.After(p.o.Grace):
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// lineWriter writes whole lines.
type lineWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lineWriter) write(line []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(line); n == 0 || line[n-1] != '\n' {
		line = append(line[:n:n], '\n')
	}
	_, err := w.to.Write(line)
	return err
}

// deliveries are the notes that an answer has reached the client. They are
// written beside the calls, but before the next identical call begins.
type deliveries struct {
	mu   sync.Mutex
	last map[string]chan struct{} // by what was called
	all  sync.WaitGroup
}

// expect announces a delivery, so that an identical call that comes right after
// the answer waits for the note. The caller calls done in the end.
func (d *deliveries) expect(what string) (done func()) {
	d.all.Add(1)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last == nil {
		d.last = map[string]chan struct{}{}
	}
	before, mine := d.last[what], make(chan struct{})
	d.last[what] = mine
	return func() {
		if before != nil {
			<-before
		}
		d.mu.Lock()
		if d.last[what] == mine {
			delete(d.last, what)
		}
		d.mu.Unlock()
		close(mine)
		d.all.Done()
	}
}

// flushed returns when the notes about what is called have been written.
func (d *deliveries) flushed(ctx context.Context, what string) {
	d.mu.Lock()
	last := d.last[what]
	d.mu.Unlock()
	if last == nil {
		return
	}
	select {
	case <-last:
	case <-ctx.Done():
	}
}
