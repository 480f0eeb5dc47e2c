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

// sendDeadline stands between one write and every connection made for it. It counts
// whether a byte of the request has left, refuses bytes after the deadline, and
// once sealed refuses all: a transport's writer goroutine may wake after the
// call has returned, and what was reported as never sent must stay so.
type sendDeadline struct {
	deadline time.Time

	mu      sync.Mutex
	armed   bool // connections are set up; what is written from now on is the request
	sealed  bool
	writing int // writes that have begun and not come back
	sent    bool
}

// arm ends the set-up of the connection (proxy and TLS handshakes).
func (g *sendDeadline) arm() {
	g.mu.Lock()
	g.armed = true
	g.mu.Unlock()
}

// seal lets nothing more through and reports whether any byte may have left.
func (g *sendDeadline) seal() (sent bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sealed = true
	return g.sent || g.writing > 0
}

func (g *sendDeadline) enter() (counted bool, err error) {
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

func (g *sendDeadline) leave(n int) {
	g.mu.Lock()
	g.writing--
	g.sent = g.sent || n > 0
	g.mu.Unlock()
}

// deadlineConn is a connection whose writes pass the send deadline. It hides ReadFrom of
// the connection beneath, which would write around it.
type deadlineConn struct {
	net.Conn
	sendDeadline *sendDeadline
}

func (c deadlineConn) Write(p []byte) (int, error) {
	counted, err := c.sendDeadline.enter()
	if err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if counted {
		c.sendDeadline.leave(n)
	}
	return n, err
}
