package reconcile

import (
	"context"
	"net"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
)

// inABubble runs a test in which what is waited for comes at once: its other side is
// reached through pipes in memory.
func inABubble(t *testing.T, text string, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pipes := &pipes{come: make(chan net.Conn), closed: make(chan struct{})}
		w := &world{TB: t, ctx: context.Background(), path: filepath.Join(t.TempDir(), "ledger.db"), dial: pipes.dial}
		w.make(text, func(s *httptest.Server) { s.Listener = pipes })
		test(t, w)
		w.ends()
		w.side.Close()
		synctest.Wait()
	})
}

// pipes are connections in memory.
type pipes struct {
	come   chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.come <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.come:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
