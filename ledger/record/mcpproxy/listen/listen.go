// Package listen serves MCP over streamable HTTP: the lines of each client's session, which
// a proxy takes as from standard input, are carried in requests and event streams.
//
// The client's Authorization goes on to the server with the request it came with, and is
// kept nowhere. What the server says of logging in comes back (oauth.go).
//
// It imports mcpproxy, mcpwire and httpproxy's check of host names.
package listen

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"indoubt/ledger/record/httpproxy"
	"indoubt/ledger/record/mcpproxy"
	"indoubt/ledger/wire/mcpwire"
)

// Options are what a listener stands before.
type Options struct {
	// Run serves one session, as mcpproxy.Proxy.Run does, until in ends.
	Run   func(ctx context.Context, in io.Reader, out io.Writer, way Way) error
	Log   func(string)
	URL   *url.URL // of the server whose login goes through; nil for none
	Hosts []string // names by which clients may call it, beside this machine's
}

// Way is what a session has of its client for the server: the credential of a message,
// and where a refusal of one is told, as mcpwire.HTTPOptions has them.
type Way struct {
	Header  func(mcpwire.Frame) http.Header
	Refused func(id json.RawMessage, status int, challenge []string)
}

const (
	sessionHeader = "Mcp-Session-Id"
	versionHeader = "Mcp-Protocol-Version"
	stateless     = "2026-07-28" // the first revision without sessions
	mostSessions  = 256
	spareSessions = 16        // that may still be ending
	idleFor       = time.Hour // a session that says nothing for so long is over
	writeWithin   = 30 * time.Second
	bodyWithin    = time.Minute
)

// Listener is an http.Handler.
type Listener struct {
	o     Options
	path  string
	oauth *oauth
	ctx   context.Context
	all   sync.WaitGroup // proxies that run

	mu       sync.Mutex
	sessions map[string]*session
	running  int  // with those of one request
	closing  bool // none begins any more
}

// New makes a listener. Its sessions end with ctx.
func New(ctx context.Context, o Options) *Listener {
	l := &Listener{o: o, ctx: ctx, path: "/mcp", sessions: map[string]*session{}}
	if o.URL != nil {
		l.path, l.oauth = o.URL.EscapedPath(), newOAuth(o.URL)
		if l.path == "" {
			l.path = "/"
		}
	}
	return l
}

// Path is the endpoint: the server's own, /mcp for a command.
func (l *Listener) Path() string { return l.path }

// readWithin is how long the last answers may take to end.
const readWithin = 5 * time.Second

// Serve answers on at until ctx ends; what is in flight then has the grace of its proxy.
func (l *Listener) Serve(ctx context.Context, at net.Listener) error {
	server := &http.Server{Handler: l, ReadHeaderTimeout: 15 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 256 << 10, ErrorLog: log.New(io.Discard, "", 0)}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(at) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
		at.Close()
	}
	l.mu.Lock()
	l.closing = true
	for _, s := range l.sessions {
		s.in.Close()
	}
	l.mu.Unlock()
	l.all.Wait()
	late, cut := context.WithTimeout(context.Background(), readWithin)
	defer cut()
	_ = server.Shutdown(late) // else the ends of streams are cut off
	server.Close()
	return err
}

func (l *Listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !httpproxy.OwnHost(r.Host, l.o.Hosts...):
		refuse(w, http.StatusMisdirectedRequest, "this listener does not go by that name: --allow-host allows one")
	case !ownOrigin(r):
		refuse(w, http.StatusForbidden, "web pages of other origins are not served")
	case l.oauth != nil && l.oauth.serves(r.URL.Path):
		l.oauth.ServeHTTP(w, r)
	case r.URL.Path != l.path && r.URL.Path != "/":
		refuse(w, http.StatusNotFound, "MCP is served at "+l.path)
	case r.Method == http.MethodPost:
		l.post(w, r)
	case r.Method == http.MethodGet:
		if s := l.session(w, r); s != nil {
			s.stream(w, r)
		}
	case r.Method == http.MethodDelete:
		if s := l.session(w, r); s != nil {
			l.end(s)
			w.WriteHeader(http.StatusNoContent)
		}
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		refuse(w, http.StatusMethodNotAllowed, "MCP takes GET, POST and DELETE")
	}
}

// ownOrigin reports whether a request comes from no web page, or from one of this
// listener's own address.
func ownOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// refuse answers a request that is not passed on, as JSON-RPC has it.
func refuse(w http.ResponseWriter, status int, why string) {
	text, err := json.Marshal("indoubt: " + why)
	if err != nil {
		text = []byte(`"indoubt"`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":` + string(text) + "}}\n"))
}

// post takes one message.
func (l *Listener) post(w http.ResponseWriter, r *http.Request) {
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(bodyWithin))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mcpwire.MaxLine-1))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		refuse(w, http.StatusRequestEntityTooLarge, "nothing was recorded or sent: "+mcpwire.ErrLineTooLong.Error())
		return
	case err != nil:
		refuse(w, http.StatusBadRequest, "the message could not be read, so nothing was recorded or sent")
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	line := mcpwire.OneLine(body)
	f := mcpwire.Parse(bytes.TrimSuffix(line, []byte("\n")))
	if why := unfit(line, f); why != "" {
		refuse(w, http.StatusBadRequest, why)
		return
	}
	s, fresh := l.of(w, r, f)
	if s == nil {
		return
	}
	if s.id == "" { // of a revision without sessions: it ends with its request
		defer s.in.Close()
	}
	asked := requests(f)
	if len(asked) == 0 {
		if _, err := s.in.Write(line); err != nil {
			refuse(w, http.StatusNotFound, "the session has ended")
			return
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	x, ok := s.expect(asked, r.Header.Get("Authorization"))
	if !ok {
		refuse(w, http.StatusBadRequest, "a request with this id is still outstanding")
		return
	}
	defer s.leave(x)
	if fresh && s.id != "" {
		w.Header().Set(sessionHeader, s.id)
	}
	go func() { _, _ = s.in.Write(line) }() // what comes meanwhile must be taken
	if answered := s.carry(w, r, x, l.oauth); !answered && fresh {
		s.in.Close() // no client knows of it
	}
}

// unfit says why a message is not taken: what could be read as another one, and what
// could not be answered.
func unfit(line []byte, f mcpwire.Frame) string {
	if _, why := mcpproxy.Suspect(line, f); why != "" {
		return why
	}
	if f.Kind == mcpwire.Other {
		return mcpproxy.NotAMessage
	}
	for _, e := range requests(f) {
		if !mcpproxy.PlainID(e.ID) {
			return "a request needs a number or a text as its id"
		}
	}
	return ""
}

func requests(f mcpwire.Frame) []mcpwire.Frame {
	var asked []mcpwire.Frame
	for _, e := range append([]mcpwire.Frame{f}, f.Elements...) {
		if e.Kind == mcpwire.Request {
			asked = append(asked, e)
		}
	}
	return asked
}

// of is the session that a message belongs to; fresh: it begins with it.
func (l *Listener) of(w http.ResponseWriter, r *http.Request, f mcpwire.Frame) (s *session, fresh bool) {
	switch {
	case r.Header.Get(sessionHeader) != "":
		return l.session(w, r), false
	case f.Method == "initialize" && f.Kind == mcpwire.Request:
		return l.begin(w, rand.Text()), true
	case r.Header.Get(versionHeader) >= stateless && l.o.URL != nil:
		return l.begin(w, ""), true
	}
	refuse(w, http.StatusBadRequest, "there is no session: begin with initialize, and send "+sessionHeader)
	return nil, false
}

// session is the one that a request names. One that began with a credential takes
// nothing without one.
func (l *Listener) session(w http.ResponseWriter, r *http.Request) *session {
	l.mu.Lock()
	s := l.sessions[r.Header.Get(sessionHeader)]
	l.mu.Unlock()
	if s == nil {
		refuse(w, http.StatusNotFound, "there is no such session: begin with initialize")
		return nil
	}
	if !s.seen(r.Header.Get("Authorization")) {
		w.Header().Set("Www-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "the session began with a credential, and this request has none")
		return nil
	}
	return s
}

// begin starts a session. Where too many are open, the one that has been silent the
// longest makes room: many clients leave without a word.
func (l *Listener) begin(w http.ResponseWriter, id string) *session {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running >= mostSessions {
		l.makeRoom()
	}
	if l.closing || l.running >= mostSessions+spareSessions {
		refuse(w, http.StatusServiceUnavailable, "no session can begin now: try again later")
		return nil
	}
	read, write := io.Pipe()
	s := newSession(id, write, l.end)
	if id != "" {
		l.sessions[id] = s
	}
	l.running++
	l.all.Add(1)
	go func() {
		defer l.all.Done()
		if err := l.o.Run(l.ctx, read, s, Way{s.headerFor, s.refusal}); err != nil && l.ctx.Err() == nil && l.o.Log != nil && !errors.Is(err, mcpproxy.ErrServerGone) {
			l.o.Log(err.Error())
		}
		read.Close()
		s.idle.Stop()
		l.mu.Lock()
		delete(l.sessions, id)
		l.running--
		l.mu.Unlock()
		close(s.over)
	}()
	return s
}

// makeRoom ends the session that has been silent the longest and waits for nothing.
func (l *Listener) makeRoom() {
	var oldest *session
	var since time.Time
	for _, s := range l.sessions {
		if at, idle := s.silent(); idle && (oldest == nil || at.Before(since)) {
			oldest, since = s, at
		}
	}
	if oldest != nil {
		delete(l.sessions, oldest.id)
		oldest.in.Close()
	}
}

// end is the end of a session for its client: it takes nothing more, while what is under
// way in it goes on.
func (l *Listener) end(s *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sessions, s.id)
	s.in.Close()
}
