package mcpproxy

import (
	"bytes"
	"encoding/json"
	"sync"

	"indoubt/ledger/record"
	"indoubt/ledger/wire/mcpwire"
)

// tools is what the server has told its client of its tools. One that it told nothing of counts
// as a write.
type tools struct {
	mu       sync.Mutex
	readOnly map[string]bool // by name: it says that it only reads
	// schema tells by name whether it has ever declared an output schema. It outlives
	// the list: the client may go by an older one.
	schema map[string]bool
	lists  int // how often the list is said to have changed
}

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
		m, ok := mcpwire.Members(tool)
		name := mcpwire.Text(m["name"])
		if name == "" {
			continue
		}
		t.schema[name] = t.schema[name] || !mcpwire.Absent(m["outputSchema"])
		before, known := t.readOnly[name]
		t.readOnly[name] = ok && saysReadOnly(m["annotations"]) && (before || !known)
	}
}

func saysReadOnly(annotations json.RawMessage) bool {
	m, ok := mcpwire.Members(annotations)
	return ok && string(m["readOnlyHint"]) == "true"
}

// forget is for a list that has changed.
func (t *tools) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readOnly = nil
	t.lists++
}

// list is which list it is that is told now.
func (t *tools) list() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lists
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

// toolsPage reads a tools/list result. next is the cursor, nil on the last page.
func toolsPage(result json.RawMessage) (list []json.RawMessage, next json.RawMessage, ok bool) {
	m, clean := mcpwire.Members(result)
	if !clean || json.Unmarshal(m["tools"], &list) != nil || list == nil {
		return nil, nil, false
	}
	if next = m["nextCursor"]; mcpwire.Absent(next) {
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

// withToken puts the correlation token into a call's arguments where the policy
// says, and leaves every other byte of the line. It reports false, with the line
// as it was, where the policy names no place or the arguments have none: such a
// call goes without a token.
func withToken(line []byte, arguments json.RawMessage, rule record.KindRule, token string) ([]byte, bool) {
	at, ok := rule.TokenPlace("")
	if !ok {
		return line, false
	}
	if mcpwire.Absent(arguments) {
		arguments = json.RawMessage("{}")
	}
	placed, ok := at.JSON(arguments, token)
	if !ok {
		return line, false
	}
	if bytes.Equal(placed, arguments) {
		return line, true // it is there already
	}
	out, ok := mcpwire.Set(line, placed, "params", "arguments")
	if !ok {
		return line, false
	}
	return out, true
}
