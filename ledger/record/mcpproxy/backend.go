package mcpproxy

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"indoubt/ledger/wire/mcpwire"
)

// backend is one of the servers. All but Named is under Front.mu.
type backend struct {
	Named
	at       int
	life     int         // how often it was started
	started  time.Time   // the last time
	lines    chan []byte // for its proxy; nil where that takes none
	runs     bool        // its proxy
	ready    bool        // it has answered initialize
	slow     bool        // it is not waited for
	held     [][]byte    // for it, until it is ready
	why      string      // it is not there
	notUntil time.Time   // before that it is not worth starting again
	said     map[string]json.RawMessage
	asked    map[string]asked         // what is asked of it and of others
	kept     map[string]mcpwire.Frame // its newest answer to each list
}

type asked struct {
	frame mcpwire.Frame
	at    time.Time
}

// start runs a server's proxy.
func (s *Front) start(b *backend) {
	lines := make(chan []byte, 2*queueLength)
	b.life, b.lines, b.runs, b.ready, b.why = b.life+1, lines, true, false, ""
	b.started = time.Now()
	clear(b.asked)
	in, write := io.Pipe()
	o := b.Options
	o.In, o.Out = in, lineFunc(func(line []byte) error { return s.came(b, mcpwire.Parse(line)) })
	go func() {
		for line := range lines {
			_, _ = write.Write(line) // to a proxy that has ended it goes nowhere; what it asked is answered then
		}
		write.Close()
	}()
	s.running.Add(1)
	go func() {
		defer s.running.Done()
		err := New(o).Run(s.ctx)
		in.Close()
		s.ended(b, err)
	}()
	if s.hello.Raw != nil {
		b.give(s.hello.Raw)
	}
}

type lineFunc func([]byte) error

func (f lineFunc) Write(line []byte) (int, error) { return len(line), f(line) }

// give hands its proxy a line. It reports false where that takes none.
func (b *backend) give(line []byte) bool {
	select {
	case b.lines <- line:
		return true
	default: // also where there is no channel
		return false
	}
}

// hangUp ends the proxy's input; what is under way there goes on.
func (b *backend) hangUp() {
	if b.lines != nil {
		close(b.lines)
		b.lines = nil
	}
}

// deliver hands a line on, once the server is ready for it.
func (s *Front) deliver(b *backend, line []byte) bool {
	switch {
	case b.ready || s.hello.Raw == nil:
		return b.give(line)
	case b.lines == nil || len(b.held) >= queueLength:
		return false
	}
	b.held = append(b.held, line)
	return true
}

// wake starts a server again that has ended.
func (s *Front) wake(b *backend) {
	if !b.runs && !s.closing && s.ctx.Err() == nil && !time.Now().Before(b.notUntil) {
		b.slow = true
		s.start(b)
	}
}

// ended takes in that a server's proxy has ended. What that has left open has not been
// sent: it goes to the server as it is started again, once, and else is answered.
func (s *Front) ended(b *backend, err error) {
	var answers [][]byte
	var many []*ticket
	s.mu.Lock()
	b.hangUp()
	if b.notUntil = b.started.Add(s.Patience / 2); b.ready {
		b.notUntil = time.Time{} // it is no loop: one call of the client's makes one start
	}
	b.runs, b.ready, b.held = false, false, nil
	if err != nil && b.why == "" {
		b.why = err.Error()
	}
	why, quiet := b.away(), s.closing || s.ctx.Err() != nil
	for key, t := range s.open {
		switch {
		case t.waits[b]:
			if delete(t.waits, b); len(t.waits) == 0 {
				many = append(many, t)
			}
		case t.to != b:
		case !quiet && !t.cancelled && s.handAgain(b, t):
		default:
			delete(s.open, key)
			if !t.cancelled {
				answers = append(answers, failureLine(t.frame.ID, codeInternal, why))
			}
		}
	}
	s.mu.Unlock()
	if quiet {
		return
	}
	if err != nil {
		s.log(b.Name + ": " + err.Error())
	}
	for _, line := range answers {
		s.reply(line)
	}
	for _, t := range many {
		s.answer(t)
	}
}

// handAgain gives a server that is started again what the one before it has left, once.
func (s *Front) handAgain(b *backend, t *ticket) bool {
	if t.again {
		return false
	}
	t.again = true
	s.wake(b)
	return s.deliver(b, t.line)
}

// away says of a call that its server is not there.
func (b *backend) away() string {
	why := b.why
	switch {
	case b.lines != nil:
		why = "it does not take what is sent to it"
	case why == "":
		why = "it has ended"
	}
	return fmt.Sprintf("indoubt: not sent: the MCP server %s is not there (%s). A later call of it starts it again", b.Name, why)
}
