package command

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"indoubt/ledger/outcome"
)

const (
	outputWait = 2 * time.Second // for output pipes that outlive the command, at most
	mostInPipe = 1 << 20         // bytes that a command may leave in a pipe as it ends
)

// output gives the command its ends of the pipes for what it says. started closes them
// here, once the command has its own or could not be started.
func (c *child) output() (started func(), err error) {
	c.out = tee{to: c.Stdout, max: outcome.MaxResult}
	c.err = tee{to: c.Stderr, max: maxStderr}
	out, err := c.out.pass()
	if err != nil {
		return nil, err
	}
	errOut, err := c.err.pass()
	if err != nil {
		out.Close()
		return nil, err
	}
	c.cmd.Stdout, c.cmd.Stderr = out, errOut
	return func() { out.Close(); errOut.Close() }, nil
}

// drained is closed when all that the ended command has said is passed on. Its pipes may
// stay open, because something that it has started has them too: that is not waited for.
func (c *child) drained() <-chan struct{} {
	wait := outputWait
	if c.beat != nil {
		wait = min(wait, c.until.Length()/5)
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		var both sync.WaitGroup
		both.Go(func() { c.out.drain(wait) })
		both.Go(func() { c.err.drain(wait) })
		both.Wait()
	}()
	return drained
}

// tee passes output on as it comes and keeps the end of it. When the reader
// has gone it goes on keeping: the command must not die of it.
type tee struct {
	to   io.Writer
	max  int
	from *os.File      // what the command says
	done chan struct{} // closed when all of it was passed on
	busy atomic.Bool   // the reader has not taken it yet

	mu    sync.Mutex
	tail  []byte
	total int64
	gone  error // why the reader takes no more
}

// pass begins to pass on what is written to the pipe that it returns.
func (t *tee) pass() (in *os.File, err error) {
	if t.from, in, err = os.Pipe(); err != nil {
		return nil, err
	}
	t.done = make(chan struct{})
	go func() {
		defer close(t.done)
		defer t.from.Close()
		_, _ = io.Copy(t, struct{ io.Reader }{t.from})
	}()
	return in, nil
}

// drain returns when all was passed on, however slow the reader is, or when the pipe was
// open and empty for so long.
func (t *tee) drain(wait time.Duration) {
	step, before := max(wait/20, time.Millisecond), t.came()
	for waited := time.Duration(0); waited < wait && t.came()-before <= mostInPipe; {
		select {
		case <-t.done:
			return
		case <-time.After(step):
			if !t.busy.Load() {
				waited += step
			}
		}
	}
	if t.from.SetReadDeadline(time.Unix(1, 0)) != nil {
		t.from.Close()
	}
	<-t.done
}

func (t *tee) came() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.total
}

func (t *tee) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.total += int64(len(p))
	t.tail = append(t.tail, p...)
	if len(t.tail) > 2*t.max {
		t.tail = append(t.tail[:0:0], t.tail[len(t.tail)-t.max:]...)
	}
	t.mu.Unlock()
	if t.to != nil && t.gone == nil {
		t.busy.Store(true)
		_, t.gone = t.to.Write(p)
		t.busy.Store(false)
	}
	return len(p), nil
}

// unwritten is why not all was passed on, where that is not the reader's own doing: it is
// there, and has not got everything.
func (t *tee) unwritten() error {
	select {
	case <-t.done:
		if !errors.Is(t.gone, syscall.EPIPE) {
			return t.gone
		}
	default: // it was not waited for
	}
	return nil
}

// kept is the end of the output, and whether that is not all of it.
func (t *tee) kept() ([]byte, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tail, all := t.tail, false
	if len(tail) > t.max {
		tail = tail[len(tail)-t.max:]
	}
	select {
	case <-t.done:
		all = t.total == int64(len(tail))
	default: // it was not waited for
	}
	return append([]byte(nil), tail...), !all
}
