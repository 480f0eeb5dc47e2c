package mcpproxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"indoubt/ledger/wire/mcpwire"
)

// Named is one of several servers behind a front: its tools and prompts are NAME__TOOL
// to the client. Its kinds and its scope are those it has behind a proxy by itself.
type Named struct {
	Name string
	Options
}

// Front is one client's way to several servers. Each has a proxy of its own, which
// knows of no other: the front gives each of the client's lines to the proxy that it is
// for, and makes one answer of many where all are asked. A server that is slow, or has
// ended, holds up only what is for it, and is started again by the next call of it.
type Front struct {
	in      io.Reader
	out     lineWriter
	log     func(string)
	version string
	// Patience is how long an answer that is made of many waits for the last of them. Half
	// of it passes at least between two starts of a server that takes up no session.
	Patience time.Duration

	ctx     context.Context
	running sync.WaitGroup

	mu       sync.Mutex
	backends []*backend
	hello    mcpwire.Frame // the client's initialize
	greeted  []byte        // its notifications/initialized
	open     map[string]*ticket
	tasks    map[string]*backend // that a server has told of; nil: two have the same
	uris     map[string]*backend // that a server has listed
	closing  bool
}

// ticket is a request of the client's that is to be answered.
type ticket struct {
	frame     mcpwire.Frame
	to        *backend // nil: several
	line      []byte   // as that gets it
	again     bool     // it has been given it twice
	cancelled bool
	waits     map[*backend]bool
	answers   map[*backend]mcpwire.Frame
	patience  *time.Timer
}

const (
	between    = "__" // the name of a server and that of its tool
	statusTool = "indoubt_status"

	keptLists = 64    // answers to lists, of each server
	keptURIs  = 10000 // and tasks
)

// NewFront makes a front. in has the client's lines, out gets those for it.
func NewFront(in io.Reader, out io.Writer, version string, log func(string), servers []Named) *Front {
	s := &Front{in: in, out: lineWriter{to: out}, version: version, log: log, Patience: 10 * time.Second,
		open: map[string]*ticket{}, tasks: map[string]*backend{}, uris: map[string]*backend{}}
	if s.log == nil {
		s.log = func(string) {}
	}
	for i, n := range servers {
		n.Status, n.leaveUnsent = statusTool, true
		n.Log = func(line string) { s.log(n.Name + ": " + line) }
		s.backends = append(s.backends, &backend{Named: n, at: i, asked: map[string]asked{}, kept: map[string]mcpwire.Frame{}})
	}
	return s
}

// Run relays until the client leaves or ctx ends, and then until what is under way has
// its answer, as Proxy.Run does.
func (s *Front) Run(ctx context.Context) {
	s.ctx = ctx
	s.mu.Lock()
	for _, b := range s.backends {
		s.start(b)
	}
	s.mu.Unlock()
	left := make(chan struct{})
	go func() {
		defer close(left)
		s.read()
	}()
	select {
	case <-left:
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.closing = true
	for _, b := range s.backends {
		if b.ready || s.hello.Raw == nil { // else what is held for it comes first
			b.hangUp()
		}
	}
	s.mu.Unlock()
	late := time.AfterFunc(s.Patience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, b := range s.backends {
			b.hangUp()
		}
	})
	defer late.Stop()
	s.running.Wait()
}

func (s *Front) reply(line []byte) { _ = s.out.write(line) }

// read takes the client's lines until it leaves.
func (s *Front) read() {
	lines := bufio.NewReaderSize(s.in, 64<<10)
	for {
		line, err := readLine(lines)
		switch {
		case errors.Is(err, mcpwire.ErrLineTooLong):
			s.reply(refusal(mcpwire.Frame{}, codeParse, err.Error()))
			continue
		case len(line) > 0:
			s.take(line, mcpwire.Parse(line))
		}
		if err != nil || s.ctx.Err() != nil {
			return
		}
	}
}

// take gives one line of the client's to the servers that it is for.
func (s *Front) take(line []byte, f mcpwire.Frame) {
	if line[len(line)-1] != '\n' {
		line = append(line[:len(line):len(line)], '\n')
	}
	code, why := Suspect(line, f)
	switch {
	case why != "":
	case f.Kind == mcpwire.Batch:
		code, why = codeInvalid, "a batch is not taken where several servers stand behind one"
	case f.Kind == mcpwire.Other && f.Members != nil:
		code, why = codeInvalid, NotAMessage
	}
	if why != "" {
		s.log("not passed on: " + why)
		if answer := refusal(f, code, why); answer != nil {
			s.reply(answer)
		}
		return
	}
	f.Raw = line
	switch f.Kind {
	case mcpwire.Request:
		if answer := s.request(f); answer != nil {
			s.reply(answer)
		}
	case mcpwire.Notification:
		s.notice(f)
	case mcpwire.Response:
		s.mu.Lock()
		defer s.mu.Unlock()
		if b, id := s.unmarked(f.ID); b != nil {
			if back, ok := mcpwire.Set(line, id, "id"); ok {
				b.give(back)
			}
		}
	}
}

// notice passes a notification of the client's on: to the server of what it is about,
// else to all.
func (s *Front) notice(f mcpwire.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch f.Method {
	case "notifications/initialized":
		s.greeted = f.Raw
		for _, b := range s.backends {
			if b.ready {
				b.give(f.Raw)
			}
		}
		return
	case "notifications/cancelled":
		if t := s.open[mcpwire.IDKey(f.Params["requestId"])]; t != nil {
			t.cancelled = true
			if t.to != nil {
				s.deliver(t.to, f.Raw)
				return
			}
		}
	case "notifications/progress":
		if b, token := s.unmarked(f.Params["progressToken"]); b != nil {
			if line, ok := mcpwire.Set(f.Raw, token, "params", "progressToken"); ok {
				b.give(line)
			}
		}
		return
	}
	for _, b := range s.backends {
		if b.ready || s.hello.Raw == nil {
			b.give(f.Raw)
		}
	}
}

// marked is a server's id for the client: those of two servers are told apart by it.
func (b *backend) marked(id json.RawMessage) []byte {
	return encode(fmt.Sprintf("indoubt:%d:%d:%s", b.at, b.life, id))
}

// unmarked is the server that an id or token was marked for, and its own word. The client
// may have made that up: it is JSON of one line, or a line in it would be a message.
func (s *Front) unmarked(id json.RawMessage) (*backend, json.RawMessage) {
	var at, life int
	text := textOf(id)
	if n, err := fmt.Sscanf(text, "indoubt:%d:%d:", &at, &life); n != 2 || err != nil || at < 0 || at >= len(s.backends) {
		return nil, nil
	}
	b, own := s.backends[at], strings.SplitN(text, ":", 4)
	if b.life != life || len(own) != 4 { // another process asked
		return nil, nil
	}
	var word bytes.Buffer
	if err := json.Compact(&word, []byte(own[3])); err != nil {
		return nil, nil
	}
	return b, word.Bytes()
}

// came passes one line of a server's on. An error means that the client did not get it.
func (s *Front) came(b *backend, f mcpwire.Frame) error {
	line, ok := f.Raw, true
	switch {
	case f.Kind == mcpwire.Batch:
		var all error
		for _, e := range f.Elements {
			all = errors.Join(all, s.came(b, e))
		}
		return all
	case f.Kind == mcpwire.Response, f.TooDeep == mcpwire.Response:
		return s.cameBack(b, f)
	case f.Kind == mcpwire.Other:
		s.log(b.Name + ": it said something that is not a message")
		return nil
	case f.Kind == mcpwire.Request:
		line, ok = mcpwire.Set(line, b.marked(f.ID), "id")
		if token := mcpwire.Members(f.Params["_meta"])["progressToken"]; ok && token != nil {
			line, ok = mcpwire.Set(line, b.marked(token), "params", "_meta", "progressToken")
		}
	case f.Method == "notifications/cancelled":
		line, ok = mcpwire.Set(line, b.marked(f.Params["requestId"]), "params", "requestId")
	case strings.HasPrefix(f.Method, "notifications/tasks"):
		s.mu.Lock()
		s.learn(s.tasks, textOf(f.Params["taskId"]), b)
		s.mu.Unlock()
	}
	if !ok {
		s.log(b.Name + ": it said something that can be read in two ways")
		return nil
	}
	return s.out.write(line)
}

// cameBack passes an answer on, or keeps it until the others have come.
func (s *Front) cameBack(b *backend, f mcpwire.Frame) error {
	key := mcpwire.IDKey(f.ID)
	s.mu.Lock()
	if s.hello.Raw != nil && !b.ready && key == mcpwire.IDKey(s.hello.ID) {
		news := s.shook(b, f)
		defer func() {
			for _, line := range news {
				s.reply(line)
			}
		}()
	}
	renewed := false
	if q, ok := b.asked[key]; ok {
		delete(b.asked, key)
		b.slow = time.Since(q.at) >= s.Patience
		renewed = b.keep(q.frame, f)
	}
	t := s.open[key]
	switch {
	case t == nil: // the others have been answered for
		s.mu.Unlock()
		if renewed {
			s.reply(changedLine("tools"))
		}
		return nil
	case t.to == b:
		delete(s.open, key)
		result := mcpwire.Members(f.Members["result"])
		s.learn(s.tasks, textOf(mcpwire.Members(result["task"])["taskId"]), b)
		s.learn(s.tasks, textOf(result["taskId"]), b)
		s.mu.Unlock()
		return s.out.write(f.Raw)
	case t.to != nil:
		s.mu.Unlock()
		return nil
	}
	t.answers[b] = f
	delete(t.waits, b)
	whole := len(t.waits) == 0
	s.mu.Unlock()
	if whole {
		s.answer(t)
	}
	return nil
}

// keep notes a server's answer to a list, for when it is slow or gone. It reports
// whether it tells of other tools than the one before.
func (b *backend) keep(asked, f mcpwire.Frame) bool {
	key := listKey(asked)
	if lists[asked.Method].member == "" || f.Members["result"] == nil {
		return false
	}
	before, known := b.kept[key]
	if known || len(b.kept) < keptLists {
		b.kept[key] = f
	}
	return asked.Method == "tools/list" && !bytes.Equal(before.Members["result"], f.Members["result"])
}

func listKey(asked mcpwire.Frame) string { return asked.Method + " " + string(asked.Params["cursor"]) }

// shook takes a server's answer to initialize in, and hands it what has come for it
// since. It gives what the client is told of a server that it did not know of.
func (s *Front) shook(b *backend, f mcpwire.Frame) (news [][]byte) {
	result := mcpwire.Members(f.Members["result"])
	if result == nil {
		b.why = "it does not take up a session"
		if said := textOf(mcpwire.Members(f.Members["error"])["message"]); said != "" {
			b.why = said
		}
		b.hangUp() // its proxy ends, and what is held is answered then
		return nil
	}
	b.ready, b.said = true, result
	if s.greeted != nil {
		b.give(s.greeted)
		for _, what := range []string{"tools", "prompts", "resources"} {
			if can(b, what) {
				news = append(news, changedLine(what))
			}
		}
	}
	for _, line := range b.held {
		b.give(line)
	}
	b.held = nil
	if s.closing {
		b.hangUp()
	}
	return news
}

func changedLine(what string) []byte {
	return []byte(`{"jsonrpc":"2.0","method":"notifications/` + what + `/list_changed"}` + "\n")
}

// learn notes whose a task or a resource is.
func (s *Front) learn(of map[string]*backend, name string, b *backend) {
	if name == "" {
		return
	}
	if whose, known := of[name]; known && whose != b {
		b = nil
	}
	for old := range of {
		if len(of) < keptURIs {
			break
		}
		delete(of, old)
	}
	of[name] = b
}
