package listen

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"indoubt/ledger/wire/mcpwire"
)

// session is one client's way through the listener.
type session struct {
	id   string // "" for one request of a revision without sessions
	in   *io.PipeWriter
	over chan struct{} // closed when its proxy has ended
	idle *time.Timer

	mu         sync.Mutex
	heard      time.Time            // the client's last request
	credential string               // the newest
	waiting    map[string]*exchange // by the ids of requests
	tokens     map[string]*exchange // by their progress tokens
	refused    map[string]refusal   // by the ids of requests
	listening  *exchange            // the stream for what belongs to no request
	held       [][]byte             // for it, while there is none
}

// exchange is one HTTP request that lines are written to.
type exchange struct {
	credential string
	lines      chan delivery
	gone       chan struct{} // closed when no more is written
	ids        map[string]bool
	tokens     []string
}

// delivery is one line on its way to the client.
type delivery struct {
	line    []byte
	last    bool // nothing more is outstanding
	refusal refusal
	done    chan error
}

// refusal is what the server said in HTTP of a request that it did not take up.
type refusal struct {
	status    int
	challenge []string
}

const mostHeld = 256 // lines for a stream that is not there

var errGone = errors.New("the client is not there any more")

func newSession(id string, in *io.PipeWriter, end func(*session)) *session {
	s := &session{id: id, in: in, heard: time.Now(), over: make(chan struct{}), waiting: map[string]*exchange{}, tokens: map[string]*exchange{}, refused: map[string]refusal{}}
	s.idle = time.AfterFunc(idleFor, func() {
		if _, idle := s.silent(); idle {
			end(s)
		} else {
			s.idle.Reset(idleFor)
		}
	})
	return s
}

// silent is when the client was last heard; idle: it waits for nothing, and listens no more.
func (s *session) silent() (at time.Time, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard, len(s.waiting) == 0 && s.listening == nil
}

// seen takes a request's credential in. It reports false where one is missing.
func (s *session) seen(credential string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
	s.idle.Reset(idleFor)
	if credential == "" && s.credential != "" {
		return false
	}
	s.credential = credential
	return true
}

// headerFor is the credential of the request that a message came with.
func (s *session) headerFor(f mcpwire.Frame) http.Header {
	s.mu.Lock()
	defer s.mu.Unlock()
	credential := s.credential
	if x := s.waiting[mcpwire.IDKey(f.ID)]; x != nil && f.Kind == mcpwire.Request {
		credential = x.credential
	}
	if credential == "" {
		return nil
	}
	return http.Header{"Authorization": {credential}}
}

// refusal notes what the server said of a request, until its answer is written.
func (s *session) refusal(id json.RawMessage, status int, challenge []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key := mcpwire.IDKey(id); s.waiting[key] != nil {
		s.refused[key] = refusal{status, challenge}
	}
}

// expect makes the exchange of requests. It reports false where an id is taken.
func (s *session) expect(asked []mcpwire.Frame, credential string) (*exchange, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &exchange{credential: credential, lines: make(chan delivery), gone: make(chan struct{}), ids: map[string]bool{}}
	for _, f := range asked {
		if key := mcpwire.IDKey(f.ID); s.waiting[key] != nil || x.ids[key] {
			return nil, false
		} else {
			x.ids[key] = true
		}
		if token := mcpwire.Members(f.Params["_meta"])["progressToken"]; token != nil {
			x.tokens = append(x.tokens, string(token))
		}
	}
	if s.credential == "" {
		s.credential = credential
	}
	for key := range x.ids {
		s.waiting[key] = x
	}
	for _, token := range x.tokens {
		s.tokens[token] = x
	}
	return x, true
}

// leave is the end of an exchange: what is still to come for it is not delivered.
func (s *session) leave(x *exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(x.gone)
	for key := range x.ids {
		delete(s.waiting, key)
		delete(s.refused, key)
	}
	for _, token := range x.tokens {
		delete(s.tokens, token)
	}
	if s.listening == x {
		s.listening = nil
	}
}

// Write carries one line of the proxy to the client. An error means that the client did
// not get it, so that its answer counts as undelivered. What is no message, as a server's
// log on its standard output or a line that it did not end, has no place in HTTP.
func (s *session) Write(line []byte) (int, error) {
	line = mcpwire.OneLine(line)
	f := mcpwire.Parse(line)
	if f.Kind == mcpwire.Other {
		return len(line), nil
	}
	x, d := s.route(f, line)
	if x == nil {
		return len(line), nil // it is held
	}
	if x == nowhere {
		return 0, errGone
	}
	select {
	case x.lines <- d:
		return len(line), <-d.done
	case <-x.gone:
		return 0, errGone
	}
}

var nowhere = &exchange{}

// route finds the exchange that a line belongs to: an answer to its request, progress to
// what asked for it, the rest to the stream of its own, else to any request under way.
func (s *session) route(f mcpwire.Frame, line []byte) (*exchange, delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := delivery{line: line, done: make(chan error, 1)}
	answers := f.Elements
	if f.Kind == mcpwire.Response {
		answers = []mcpwire.Frame{f}
	}
	var to *exchange
	for _, e := range answers {
		key := mcpwire.IDKey(e.ID)
		if x := s.waiting[key]; x != nil && e.Kind == mcpwire.Response {
			to, d.refusal = x, s.refused[key]
			delete(s.waiting, key)
			delete(x.ids, key)
		}
	}
	switch {
	case to != nil:
		d.last = len(to.ids) == 0
		return to, d
	case f.Kind == mcpwire.Response:
		return nowhere, d
	}
	if x := s.tokens[string(f.Params["progressToken"])]; x != nil && f.Method == "notifications/progress" {
		return x, d
	}
	if s.listening != nil {
		return s.listening, d
	}
	for _, x := range s.waiting {
		return x, d
	}
	if len(s.held) < mostHeld {
		s.held = append(s.held, append([]byte(nil), line...))
	}
	return nil, d
}

// carry writes what comes for a request until it is answered: one answer as JSON, and
// anything more as an event stream. It reports whether it has been, by the server and not
// by a refusal in HTTP.
func (s *session) carry(w http.ResponseWriter, r *http.Request, x *exchange, o *oauth) (answered bool) {
	streams := false
	for {
		select {
		case d := <-x.lines:
			switch {
			case d.refusal.status != 0 && !streams:
				for _, c := range d.refusal.challenge {
					w.Header().Add("Www-Authenticate", o.challenge(r, c))
				}
				w.Header().Del(sessionHeader)
				d.done <- written(w, "application/json", d.refusal.status, d.line)
				return false
			case d.last && !streams:
				err := written(w, "application/json", http.StatusOK, d.line)
				d.done <- err
				return err == nil
			}
			err := event(w, !streams, d.line)
			d.done <- err
			if streams = true; d.last {
				return err == nil
			}
		case <-r.Context().Done():
			return false
		case <-s.over:
			if !streams {
				refuse(w, http.StatusBadGateway, "the MCP server is gone")
			}
			return false
		}
	}
}

// stream is the client's GET: what belongs to no request. A newer one takes its place.
func (s *session) stream(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
		refuse(w, http.StatusNotAcceptable, "GET opens an event stream")
		return
	}
	x := &exchange{lines: make(chan delivery), gone: make(chan struct{})}
	s.mu.Lock()
	held := s.held
	s.listening, s.held = x, nil
	s.mu.Unlock()
	defer s.leave(x)
	_ = event(w, true, nil) // what goes wrong goes wrong again
	for len(held) > 0 && event(w, false, held[0]) == nil {
		held = held[1:]
	}
	if len(held) > 0 { // the next stream gets them
		s.mu.Lock()
		s.held = append(held, s.held...)
		s.mu.Unlock()
		return
	}
	for {
		select {
		case d := <-x.lines:
			err := event(w, false, d.line)
			if d.done <- err; err != nil {
				return
			}
		case <-r.Context().Done():
			return
		case <-s.over:
			return
		}
	}
}

func written(w http.ResponseWriter, kind string, status int, line []byte) error {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeWithin))
	w.Header().Set("Content-Type", kind)
	if line != nil {
		w.Header().Set("Content-Length", strconv.Itoa(len(line))) // it is whole before its connection ends
	}
	w.WriteHeader(status)
	if _, err := w.Write(line); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// event writes one message of an event stream, and before the first one its head.
func event(w http.ResponseWriter, first bool, line []byte) error {
	if first {
		w.Header().Set("Cache-Control", "no-store")
		if err := written(w, "text/event-stream", http.StatusOK, nil); err != nil || line == nil {
			return err
		}
	}
	conn := http.NewResponseController(w)
	_ = conn.SetWriteDeadline(time.Now().Add(writeWithin))
	if _, err := w.Write([]byte("event: message\ndata: " + string(line) + "\n")); err != nil {
		return err
	}
	return conn.Flush()
}
