package mcpproxy

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"indoubt/ledger/wire/mcpwire"
)

// lists are the requests whose answer is one list of all servers' lists.
var lists = map[string]struct {
	member, capability string
	named              bool // its items are known by their names
}{
	"tools/list":               {"tools", "tools", true},
	"prompts/list":             {"prompts", "prompts", true},
	"resources/list":           {"resources", "resources", false},
	"resources/templates/list": {"resourceTemplates", "resources", false},
	"tasks/list":               {"tasks", "tasks", false},
}

// request gives a request of the client's to the servers that it is for, or answers it.
func (s *Front) request(f mcpwire.Frame) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.open[mcpwire.IDKey(f.ID)]; t != nil && !t.cancelled {
		return refusal(f, codeInvalid, "a request with this id is still outstanding")
	}
	if _, is := lists[f.Method]; is {
		return s.list(f)
	}
	switch f.Method {
	case "ping":
		return resultLine(f.ID, []byte("{}"))
	case "initialize", "server/discover":
		return s.greet(f)
	case "tools/call":
		if f.Name() == statusTool {
			return s.status(f)
		}
		return s.byName(f, f.Name(), "params", "name")
	case "prompts/get":
		return s.byName(f, f.Name(), "params", "name")
	case "resources/read", "resources/subscribe", "resources/unsubscribe":
		return s.byURI(f, f.Params["uri"])
	case "completion/complete":
		ref := mcpwire.Members(f.Params["ref"])
		if name := textOf(ref["name"]); name != "" {
			return s.byName(f, name, "params", "ref", "name")
		}
		return s.byURI(f, ref["uri"])
	case "logging/setLevel":
		return s.all(f, "logging")
	case "tasks/get", "tasks/result", "tasks/cancel", "tasks/update":
		if b := s.tasks[textOf(f.Params["taskId"])]; b != nil {
			return s.route(b, f, f.Raw)
		}
		return failureLine(f.ID, codeParams, "indoubt: no task of this id is known to be of one of these servers alone")
	}
	return failureLine(f.ID, codeUnknown, "indoubt: "+f.Method+" is not served where several servers stand behind one")
}

const codeUnknown = -32601 // a method

// route gives a request to one server.
func (s *Front) route(b *backend, f mcpwire.Frame, line []byte) []byte {
	s.wake(b)
	if !s.deliver(b, line) {
		return failureLine(f.ID, codeInternal, b.away())
	}
	s.open[mcpwire.IDKey(f.ID)] = &ticket{frame: f, to: b, line: line}
	return nil
}

// status gives a call of the tool that tells how calls stand to the first proxy that
// takes it: each knows of all.
func (s *Front) status(f mcpwire.Frame) []byte {
	for _, b := range s.backends {
		if b.give(f.Raw) {
			s.open[mcpwire.IDKey(f.ID)] = &ticket{frame: f, to: b, line: f.Raw}
			return nil
		}
	}
	return s.route(s.backends[0], f, f.Raw)
}

// whose is the server of the longest name that stands before that of a tool or prompt.
func (s *Front) whose(name string) (to *backend) {
	for _, b := range s.backends {
		if strings.HasPrefix(name, b.Name+between) && (to == nil || len(b.Name) > len(to.Name)) {
			to = b
		}
	}
	return to
}

// byName gives a request to the server whose name stands before that of its tool or
// prompt, which is at path.
func (s *Front) byName(f mcpwire.Frame, name string, path ...string) []byte {
	to := s.whose(name)
	if to == nil {
		names := make([]string, len(s.backends))
		for i, b := range s.backends {
			names[i] = b.Name + between
		}
		return failureLine(f.ID, codeParams, fmt.Sprintf("indoubt: not sent: %q is not known here; the names begin with %s", name, strings.Join(names, ", ")))
	}
	line, ok := mcpwire.Set(f.Raw, encode(strings.TrimPrefix(name, to.Name+between)), path...)
	if !ok {
		return refusal(f, codeInvalid, "it can be read in two ways")
	}
	return s.route(to, f, line)
}

// byURI gives a request to the server that alone has listed the resource, else to all.
func (s *Front) byURI(f mcpwire.Frame, uri json.RawMessage) []byte {
	if b := s.uris[textOf(uri)]; b != nil {
		return s.route(b, f, f.Raw)
	}
	return s.all(f, "resources")
}

// all asks every server that has the capability.
func (s *Front) all(f mcpwire.Frame, capability string) []byte {
	lines := map[*backend][]byte{}
	for _, b := range s.backends {
		if can(b, capability) {
			lines[b] = f.Raw
		}
	}
	return s.ask(f, lines, s.deliver)
}

// greet asks all servers who they are.
func (s *Front) greet(f mcpwire.Frame) []byte {
	if f.Method == "initialize" {
		if s.hello.Raw != nil {
			return refusal(f, codeInvalid, "the session has begun already")
		}
		s.hello = f
	}
	lines := map[*backend][]byte{}
	for _, b := range s.backends {
		lines[b] = f.Raw
	}
	return s.ask(f, lines, (*backend).give)
}

// list asks for a page of all servers' lists. Its cursor holds theirs.
func (s *Front) list(f mcpwire.Frame) []byte {
	cursors, whole := map[string]string{}, absent(f.Params["cursor"])
	if !whole {
		text, err := base64.RawURLEncoding.DecodeString(textOf(f.Params["cursor"]))
		if err != nil || json.Unmarshal(text, &cursors) != nil {
			return failureLine(f.ID, codeParams, "indoubt: this cursor is of another list")
		}
	}
	lines := map[*backend][]byte{}
	for _, b := range s.backends {
		line, ok := f.Raw, true
		if cursor, more := cursors[b.Name]; more {
			line, ok = mcpwire.Set(f.Raw, encode(cursor), "params", "cursor")
		} else if !whole {
			continue
		}
		s.wake(b)
		if ok && can(b, lists[f.Method].capability) {
			lines[b] = line
		}
	}
	return s.ask(f, lines, s.deliver)
}

// can reports whether a server has a capability, as far as it has told of them.
func can(b *backend, capability string) bool {
	return b.said == nil || mcpwire.Members(b.said["capabilities"])[capability] != nil
}

// ask gives servers their lines, and waits for the answers of those that are not known
// to be slow.
func (s *Front) ask(f mcpwire.Frame, lines map[*backend][]byte, give func(*backend, []byte) bool) []byte {
	t := &ticket{frame: f, waits: map[*backend]bool{}, answers: map[*backend]mcpwire.Frame{}}
	key := mcpwire.IDKey(f.ID)
	for b, line := range lines {
		if give(b, line) {
			b.asked[key] = asked{f, time.Now()}
			if !b.slow {
				t.waits[b] = true
			}
		}
	}
	s.open[key] = t
	if len(t.waits) == 0 {
		return s.made(t)
	}
	t.patience = time.AfterFunc(s.Patience, func() { s.answer(t) })
	return nil
}

// answer gives the client what is made of many answers.
func (s *Front) answer(t *ticket) {
	s.mu.Lock()
	line := s.made(t)
	s.mu.Unlock()
	if line != nil {
		s.reply(line)
	}
}

// made is one answer of many, once.
func (s *Front) made(t *ticket) []byte {
	key := mcpwire.IDKey(t.frame.ID)
	if s.open[key] != t {
		return nil
	}
	delete(s.open, key)
	if t.patience != nil {
		t.patience.Stop()
	}
	for b := range t.waits {
		b.slow = true
	}
	switch {
	case t.cancelled:
		return nil
	case t.frame.Method == "initialize" || t.frame.Method == "server/discover":
		return s.greeting(t)
	case lists[t.frame.Method].member != "":
		return s.listed(t)
	}
	return s.firstGood(t)
}

// firstGood is the first result in the order of the servers, else the first error.
func (s *Front) firstGood(t *ticket) []byte {
	var failure []byte
	for _, b := range s.backends {
		f, came := t.answers[b]
		switch {
		case came && f.Members["result"] != nil:
			return f.Raw
		case came && failure == nil:
			failure = f.Raw
		}
	}
	if failure == nil {
		failure = failureLine(t.frame.ID, codeParams, "indoubt: no server that is there answers this")
	}
	return failure
}

// greeting is what the servers say of themselves, as one. The revision is the newest that
// one of them speaks: it is the client's own where it can be.
func (s *Front) greeting(t *ticket) []byte {
	capabilities := json.RawMessage(`{"tools":{"listChanged":true}}`) // a server may come late
	var base map[string]json.RawMessage
	var instructions, missing []string
	for _, b := range s.backends {
		f := t.answers[b]
		result := mcpwire.Members(f.Members["result"])
		switch {
		case result == nil && !t.waits[b]:
			missing = append(missing, b.Name+": "+cmp.Or(b.why, textOf(mcpwire.Members(f.Members["error"])["message"]), "it is not there"))
			continue
		case result == nil:
			s.log(b.Name + ": it is slow to start")
			continue
		}
		if base == nil || textOf(result["protocolVersion"]) > textOf(base["protocolVersion"]) {
			base = maps.Clone(result)
		}
		capabilities = union(capabilities, result["capabilities"])
		if said := textOf(result["instructions"]); said != "" {
			instructions = append(instructions, fmt.Sprintf("Of the tools that begin with %s%s: %s", b.Name, between, said))
		}
	}
	if len(missing) == len(s.backends) {
		return failureLine(t.frame.ID, codeInternal, "indoubt: no MCP server is there: "+strings.Join(missing, "; "))
	}
	if base == nil {
		base = map[string]json.RawMessage{"protocolVersion": t.frame.Params["protocolVersion"]}
	}
	base["capabilities"] = capabilities
	base["serverInfo"] = encode(map[string]string{"name": "indoubt", "version": s.version})
	delete(base, "instructions")
	if len(instructions) > 0 {
		base["instructions"] = encode(strings.Join(instructions, "\n\n"))
	}
	return resultLine(t.frame.ID, encode(base))
}

// union is what either of two objects has.
func union(a, b json.RawMessage) json.RawMessage {
	one, other := mcpwire.Members(a), mcpwire.Members(b)
	if one == nil || other == nil {
		if string(b) == "true" || a == nil {
			return b
		}
		return a
	}
	for name, value := range other {
		one[name] = union(one[name], value)
	}
	return encode(one)
}

// listed is one page of all servers' pages. Of a server that has not answered it has what
// that one said last.
func (s *Front) listed(t *ticket) []byte {
	l := lists[t.frame.Method]
	var base map[string]json.RawMessage
	items, next := []json.RawMessage{}, map[string]string{}
	for _, b := range s.backends {
		f := t.answers[b]
		if failure := mcpwire.Members(f.Members["error"]); failure != nil {
			s.log(fmt.Sprintf("%s: %s: %s", b.Name, t.frame.Method, textOf(failure["message"])))
		}
		if f.Members["result"] == nil {
			f = b.kept[listKey(t.frame)]
		}
		result, clean := once(f.Members["result"])
		var page []json.RawMessage
		if !clean || json.Unmarshal(result[l.member], &page) != nil {
			continue
		}
		if base == nil {
			base = result
		}
		if cursor := textOf(result["nextCursor"]); cursor != "" {
			next[b.Name] = cursor
		}
		for _, item := range page {
			if item = s.item(b, item, l.named); item != nil {
				items = append(items, item)
			}
		}
	}
	if base == nil {
		base = map[string]json.RawMessage{}
	}
	delete(base, "nextCursor")
	if len(next) > 0 {
		base["nextCursor"] = encode(base64.RawURLEncoding.EncodeToString(encode(next)))
	} else if t.frame.Method == "tools/list" {
		items = append(items, statusDefinition(statusTool))
	}
	base[l.member] = encode(items)
	return resultLine(t.frame.ID, encode(base))
}

// item is one of a list's, as the client is to know it; nil for none.
func (s *Front) item(b *backend, item json.RawMessage, named bool) json.RawMessage {
	m := mcpwire.Members(item)
	if !named {
		s.learn(s.uris, textOf(m["uri"]), b)
		s.learn(s.tasks, textOf(m["taskId"]), b)
		return item
	}
	name := textOf(m["name"])
	if name == "" || bytes.Equal(item, statusDefinition(statusTool)) { // it is there once for all
		return nil
	}
	name = b.Name + between + name
	if s.whose(name) != b { // the name is another server's
		s.log(fmt.Sprintf("%s: %s is left out, because by its name it is another server's: rename one of them", b.Name, name))
		return nil
	}
	item, ok := mcpwire.Set(item, encode(name), "name")
	if !ok {
		return nil
	}
	return slices.Clip(item)
}
