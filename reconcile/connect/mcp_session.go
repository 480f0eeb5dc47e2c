package connect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"indoubt/ledger/wire/mcpwire"
	"indoubt/policy/transport"
)

const (
	defaultIdle  = time.Minute
	startTimeout = 30 * time.Second // of a server, however briefly a caller waits for it
	probeTimeout = 3 * time.Second  // for the answer to the newest revision's first message
	maxTools     = 10_000
	listFor      = time.Minute // a list of tools is read again after this; not every server reports that it changed

	// olderRevision is for a server that is silent, or ends, when something comes
	// before initialize.
	olderRevision = "2025-11-25"
)

// mcpServer is one server and the session with it.
type mcpServer struct {
	digest [32]byte
	idle   time.Duration
	define transport.MCPRequest // how it is reached

	listFor time.Duration

	mu    sync.Mutex
	cur   *mcpSession // nil where there is none
	older bool        // it wants olderRevision
	shut  bool
}

// mcpSession is one process, or one session over HTTP. Once broken it takes no
// more calls, and ends with the last one.
type mcpSession struct {
	server *mcpServer
	cancel context.CancelFunc // of the start
	ready  chan struct{}      // closed when it can be used, or err says why not
	gone   chan struct{}      // closed when it has ended

	// Set before ready is closed.
	conn   *mcpConn
	client *mcp.ClientSession
	err    error

	// Under the server's mutex.
	users          int
	broken, ending bool
	expiry         *time.Timer

	listing sync.Mutex
	tools   map[string]bool // whether each only reads
	listed  time.Time
}

// acquire gives the session, and starts it where there is none. A second one
// begins only when the first has ended.
func (v *mcpServer) acquire(ctx context.Context) (*mcpSession, error) {
	for {
		v.mu.Lock()
		if v.shut {
			v.mu.Unlock()
			return nil, mcpwire.ErrClosed
		}
		if v.cur == nil {
			v.start()
		}
		s := v.cur
		broken := s.broken
		if !broken {
			s.users++
			if s.expiry != nil {
				s.expiry.Stop()
			}
		}
		v.mu.Unlock()
		next := s.ready
		if broken {
			next = s.gone
		}
		select {
		case <-next:
		case <-ctx.Done():
			if !broken {
				s.release()
			}
			return nil, fmt.Errorf("the MCP server has not started: %w", ctx.Err())
		}
		switch {
		case broken:
		case s.err != nil:
			s.release()
			return nil, s.err
		case s.conn.ended() != nil:
			s.fail()
			s.release()
		default:
			return s, nil
		}
	}
}

// start starts a session. The server's mutex is held.
func (v *mcpServer) start() {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	s := &mcpSession{server: v, cancel: cancel, ready: make(chan struct{}), gone: make(chan struct{})}
	v.cur = s
	older := v.older
	go func() {
		defer cancel()
		older, err := s.open(ctx, older)
		v.mu.Lock()
		defer v.mu.Unlock()
		v.older, s.err = older, err
		if s.broken = s.broken || err != nil; s.broken && s.users == 0 {
			s.end()
		}
		close(s.ready)
	}()
}

// open connects, in an older revision where the newest one gets no answer.
func (s *mcpSession) open(ctx context.Context, older bool) (bool, error) {
	if older {
		err := s.connect(ctx, olderRevision)
		return err == nil, err // where it fails, the next one begins anew
	}
	probe, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	err := s.connect(probe, "")
	if err == nil || s.conn == nil || ctx.Err() != nil {
		return false, err
	}
	if err := s.connect(ctx, olderRevision); err != nil {
		return false, err
	}
	return true, nil
}

// connect makes one connection and shakes hands. The conn it leaves is closed
// where that failed, nil where nothing was started.
func (s *mcpSession) connect(ctx context.Context, revision string) error {
	t := &mcpTransport{define: s.server.define, changed: s.forgetTools}
	client := mcp.NewClient(&mcp.Implementation{Name: "indoubt", Version: "1"}, &mcp.ClientOptions{
		Capabilities:   &mcp.ClientCapabilities{},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true}, // it would call again by itself
	})
	session, err := client.Connect(ctx, t, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	s.conn, s.client = t.conn, session
	if err != nil && t.conn != nil {
		_ = t.conn.Close()
		return t.conn.explain(err)
	}
	return err
}

// release gives the session back.
func (s *mcpSession) release() {
	v := s.server
	v.mu.Lock()
	defer v.mu.Unlock()
	s.users--
	switch {
	case s.users > 0:
	case s.broken:
		s.end()
	default:
		s.expiry = time.AfterFunc(v.idle, s.expire)
	}
}

func (s *mcpSession) expire() {
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.users == 0 {
		s.end()
	}
}

// fail takes the session out of use: what went wrong may go wrong again.
func (s *mcpSession) fail() {
	s.server.mu.Lock()
	s.broken = true
	s.server.mu.Unlock()
}

// end closes the session. The server's mutex is held.
func (s *mcpSession) end() {
	s.broken = true
	if s.ending {
		return
	}
	s.ending = true
	go func() {
		s.cancel()
		<-s.ready
		if s.conn != nil {
			_ = s.conn.Close()
		}
		s.server.mu.Lock()
		s.server.cur = nil
		s.server.mu.Unlock()
		close(s.gone)
	}()
}

// retire lets no more calls in, and ends the session: now, or with its last
// call.
func (v *mcpServer) retire(now bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.shut = true
	if v.cur == nil {
		return
	}
	v.cur.broken = true
	if now || v.cur.users == 0 {
		v.cur.end()
	}
}

// wait returns when the session has ended.
func (v *mcpServer) wait() {
	v.mu.Lock()
	s := v.cur
	v.mu.Unlock()
	if s != nil {
		<-s.gone
	}
}

// mustOnlyRead refuses a tool that the server does not declare read-only.
func (s *mcpSession) mustOnlyRead(ctx context.Context, tool string) error {
	s.listing.Lock()
	defer s.listing.Unlock()
	if now := time.Now(); s.tools == nil || now.Sub(s.listed) > s.server.listFor {
		tools := map[string]bool{}
		for t, err := range s.client.Tools(ctx, nil) {
			switch {
			case err != nil:
				s.fail()
				return s.conn.explain(fmt.Errorf("the MCP server does not list its tools: %w", err))
			case len(tools) == maxTools:
				return errors.New("the MCP server lists too many tools")
			}
			reads, twice := tools[t.Name]
			tools[t.Name] = t.Annotations != nil && t.Annotations.ReadOnlyHint && (reads || !twice)
		}
		s.tools, s.listed = tools, now
	}
	reads, known := s.tools[tool]
	switch {
	case !known:
		return &Mistaken{fmt.Errorf("the MCP server has no tool %q", tool)}
	case !reads:
		return &Mistaken{fmt.Errorf("the tool %q is not declared read-only; the policy can vouch for it", tool)}
	}
	return nil
}

func (s *mcpSession) forgetTools() {
	s.listing.Lock()
	s.tools = nil
	s.listing.Unlock()
}
