package transmit

import (
	"errors"
	"net"
	"sync"
	"time"
)

var (
	// ErrPastDeadline refuses a byte after the sender's own deadline (I3).
	ErrPastDeadline = errors.New("the deadline had passed before the request was written")
	// errSealed refuses a byte after the answer "not sent" was given.
	errSealed = errors.New("the request was given up before it was written")
)

// gate stands between one write and every connection made for it. It counts
// whether a byte of the request has left, refuses bytes after the deadline, and
// once sealed refuses all: a transport's writer goroutine may wake after the
// call has returned, and what was reported as never sent must stay so.
type gate struct {
	deadline time.Time

	mu      sync.Mutex
	armed   bool // connections are set up; what is written from now on is the request
	sealed  bool
	writing int // writes that have begun and not come back
	sent    bool
}

// arm ends the set-up of the connection (proxy and TLS handshakes).
func (g *gate) arm() {
	g.mu.Lock()
	g.armed = true
	g.mu.Unlock()
}

// seal lets nothing more through and reports whether any byte may have left.
func (g *gate) seal() (sent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sealed = true
	return g.sent || g.writing > 0
}

func (g *gate) enter() (counted bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.sealed:
		return false, errSealed
	case !g.armed:
		return false, nil
	case Past(g.deadline):
		return false, ErrPastDeadline
	}
	g.writing++
	return true, nil
}

func (g *gate) leave(n int) {
	g.mu.Lock()
	g.writing--
	g.sent = g.sent || n > 0
	g.mu.Unlock()
}

// gatedConn is a connection whose writes pass the gate. It hides ReadFrom of
// the connection beneath, which would write around it.
type gatedConn struct {
	net.Conn
	gate *gate
}

func (c gatedConn) Write(p []byte) (int, error) {
	counted, err := c.gate.enter()
	if err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if counted {
		c.gate.leave(n)
	}
	return n, err
}
