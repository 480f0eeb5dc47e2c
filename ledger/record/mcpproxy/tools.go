package mcpproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"indoubt/ledger/wire/mcpwire"
)

// tools is what is known of the server's tools.
type tools struct {
	mu       sync.Mutex
	readOnly map[string]bool // by name: it says that it only reads
	// schema tells by name whether it has ever declared an output schema. It outlives
	// the list: the client may go by an older one.
	schema   map[string]bool
	lists    int           // how often the list is said to have changed
	asking   chan struct{} // closed when the question under way is answered
	notUntil time.Time     // before that it is not worth asking again
}

const (
	askAgain = 30 * time.Second
	maxPages = 100
)

// learn takes a page of a list of tools in, unless the list has changed since. One
// that was listed as a write stays one until then.
func (t *tools) learn(page []json.RawMessage, list int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if list != t.lists {
		return
	}
	if t.readOnly == nil {
		t.readOnly = map[string]bool{}
	}
	if t.schema == nil {
		t.schema = map[string]bool{}
	}
	for _, tool := range page {
		m, ok := once(tool)
		name := textOf(m["name"])
		if name == "" {
			continue
		}
		t.schema[name] = t.schema[name] || !absent(m["outputSchema"])
		before, known := t.readOnly[name]
		t.readOnly[name] = ok && saysReadOnly(m["annotations"]) && (before || !known)
	}
}

func saysReadOnly(annotations json.RawMessage) bool {
	m, ok := once(annotations)
	return ok && string(m["readOnlyHint"]) == "true"
}

// forget is for a list that has changed.
func (t *tools) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readOnly, t.notUntil = nil, time.Time{}
	t.lists++
}

// list is which list it is that is told now.
func (t *tools) list() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lists
}

func (t *tools) mayAskAgain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notUntil = time.Time{}
}

func (t *tools) known(name string) (readOnly, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	readOnly, known = t.readOnly[name]
	return readOnly, known
}

// declares reports whether a tool has an output schema, as far as the server has
// told of it.
func (t *tools) declares(name string) (schema, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	schema, known = t.schema[name]
	return schema, known
}

// reads reports whether the server says that a tool only reads, asking it where
// nothing is known, and again where the list changes under the question. No answer
// in time is no: unannotated is a write.
func (p *Proxy) reads(ctx context.Context, name string, meta json.RawMessage) bool {
	timer := time.NewTimer(p.o.AskPatience)
	defer timer.Stop()
	for {
		readOnly, known := p.tools.known(name)
		if known || p.conn == nil {
			return readOnly
		}
		asking := p.asking(meta)
		if asking == nil {
			return false
		}
		select {
		case <-asking:
			continue
		case <-timer.C:
		case <-ctx.Done():
		}
		readOnly, _ = p.tools.known(name) // a page may have come
		return readOnly
	}
}

// asking asks the server for its tools, unless that is under way. It is nil where that
// is not worth it, and else closed when the list is there or will not come.
func (p *Proxy) asking(meta json.RawMessage) <-chan struct{} {
	t := &p.tools
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asking != nil {
		return t.asking
	}
	if time.Now().Before(t.notUntil) {
		return nil
	}
	asking := make(chan struct{})
	t.asking, t.notUntil = asking, time.Now().Add(askAgain)
	go func() {
		p.listTools(meta)
		t.mu.Lock()
		t.asking = nil
		t.mu.Unlock()
		close(asking)
	}()
	return asking
}

// listTools asks the server for its tools, page by page.
func (p *Proxy) listTools(meta json.RawMessage) {
	current := p.tools.list()
	cursor := json.RawMessage(nil)
	for page := 0; page < maxPages; page++ {
		params := map[string]json.RawMessage{}
		if cursor != nil {
			params["cursor"] = cursor
		}
		// A slow answer is still worth having: later calls look at what is known.
		f, err := p.ask("tools/list", params, meta, 4*p.o.AskPatience)
		if err != nil || f.Members["error"] != nil {
			return
		}
		list, next, ok := toolsPage(f.Members["result"])
		if !ok {
			return
		}
		p.tools.learn(list, current)
		if next == nil || bytes.Equal(next, cursor) {
			return
		}
		cursor = next
	}
}

// toolsPage reads a tools/list result. next is the cursor, nil on the last page.
func toolsPage(result json.RawMessage) (list []json.RawMessage, next json.RawMessage, ok bool) {
	m, once := once(result)
	if !once || json.Unmarshal(m["tools"], &list) != nil || list == nil {
		return nil, nil, false
	}
	if next = m["nextCursor"]; absent(next) {
		next = nil
	}
	return list, next, true
}

// listed takes in a tools/list answer on its way to the client, and adds our own
// tool to the last page, unless the server has one of that name. asked is which list
// was asked for: the answer may be older than the news of a change.
func (p *Proxy) listed(line []byte, f mcpwire.Frame, asked int) []byte {
	list, next, ok := toolsPage(f.Members["result"])
	if !ok || f.Duplicate {
		return line
	}
	p.tools.learn(list, asked)
	if _, taken := p.tools.known(p.status); taken || next != nil {
		return line
	}
	if out, ok := mcpwire.Append(line, statusDefinition(p.status), "result", "tools"); ok {
		return out
	}
	return line
}

// ask sends a request of the proxy's own and returns the response, which goes no
// further. meta is the _meta of the client's call that made it necessary.
func (p *Proxy) ask(method string, params map[string]json.RawMessage, meta json.RawMessage, patience time.Duration) (mcpwire.Frame, error) {
	if kept := requestMeta(meta); kept != nil {
		params["_meta"] = kept
	}
	text, err := json.Marshal(params)
	if err != nil {
		return mcpwire.Frame{}, err
	}
	answer := make(chan mcpwire.Frame, 1)
	p.mu.Lock()
	p.asked++
	id := fmt.Sprintf("%s%d", p.prefix, p.asked)
	p.own[id] = answer
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.own, id)
		p.mu.Unlock()
	}()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	line := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%q,"method":%q,"params":%s}`+"\n", id, method, text)
	if _, err := p.conn.Send(ctx, line); err != nil {
		return mcpwire.Frame{}, err
	}
	select {
	case f, ok := <-answer:
		if !ok {
			return f, ErrServerGone
		}
		return f, nil
	case <-ctx.Done():
		return mcpwire.Frame{}, ctx.Err()
	case <-p.gone:
		return mcpwire.Frame{}, ErrServerGone
	}
}

// answered takes the answer to a question of our own; a late one is only swallowed.
func (p *Proxy) answered(f mcpwire.Frame) bool {
	id := textOf(f.ID)
	if !strings.HasPrefix(id, p.prefix) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if answer := p.own[id]; answer != nil {
		select {
		case answer <- f:
		default:
		}
	}
	return true
}

// requestMeta is what revision 2026-07-28 wants in every request: the client's
// own words about itself, without what belongs to one call.
func requestMeta(meta json.RawMessage) json.RawMessage {
	m, ok := once(meta)
	if !ok {
		return nil
	}
	kept := map[string]json.RawMessage{}
	for name, value := range m {
		if strings.HasPrefix(name, "io.modelcontextprotocol/") {
			kept[name] = value
		}
	}
	if len(kept) == 0 {
		return nil
	}
	text, err := json.Marshal(kept)
	if err != nil {
		return nil
	}
	return text
}

// once reads an object's members, and reports whether none occurs twice. A map
// instead of a struct: names count as they are written.
func once(raw json.RawMessage) (map[string]json.RawMessage, bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	members, clean := map[string]json.RawMessage{}, true
	for dec.More() {
		name, err := dec.Token()
		var value json.RawMessage
		if err != nil || dec.Decode(&value) != nil {
			return nil, false
		}
		if _, twice := members[name.(string)]; twice {
			clean = false
		}
		members[name.(string)] = value
	}
	return members, clean
}
