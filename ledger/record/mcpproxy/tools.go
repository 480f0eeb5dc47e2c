package mcpproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
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

const (
	maxStatusName = 48 // characters: clients put the server's name before a tool's, and some take 64
	mostListed    = 50
	askAgainIn    = time.Minute // where nothing says when more will be known
)

// notInNames is what the name of the tool cannot hold.
var notInNames = lazyregexp.New(`[^A-Za-z0-9_-]+`)

// statusName is what the tool is called that the proxy adds to a server's. Two
// servers of one agent have it under two names.
func statusName(server string) string {
	name := "indoubt_status_" + strings.ReplaceAll(strings.Trim(notInNames.ReplaceAllString(server, "_"), "_-"), "-", "_")
	return name[:min(len(name), maxStatusName)]
}

func statusDefinition(name string) []byte {
	return fmt.Appendf(nil, `{"name":%q,"title":"Calls in doubt","description":"Tells whether an earlier tool call took effect. With an operation id: the state of that call. Without: every call, of any server recorded here, that is under way or of which it is not known whether it took effect.","inputSchema":{"type":"object","properties":{"operation":{"type":"string","description":"The operation id that an answer named"}},"additionalProperties":false},"annotations":{"title":"Calls in doubt","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}`, name)
}

type standing struct {
	Operation string   `json:"operation"`
	Kind      string   `json:"kind"`
	Title     string   `json:"title,omitempty"`
	Session   string   `json:"session,omitempty"` // whose, by the client's own word
	Outcome   string   `json:"outcome"`           // committed, failed, unknown, pending, abandoned
	Since     string   `json:"since,omitempty"`
	Error     string   `json:"error_class,omitempty"`
	Receipts  []string `json:"receipts,omitempty"`
	Conflict  string   `json:"conflict,omitempty"`
	AskAgain  string   `json:"ask_again,omitempty"` // when more may be known
	Advice    string   `json:"advice"`
}

// moreKnownAt is when more may be known of an operation, and whether by a check.
func moreKnownAt(rec ledger.Record) (at time.Time, checked bool) {
	at = rec.Now.Add(askAgainIn)
	switch o := rec.Operation; rec.State() {
	case ledger.Uncertain:
		if due := rec.Pricing.ReadAt; due.After(rec.Now) && due.Before(ledger.Never) {
			return due, true
		}
	case ledger.Pending:
		if o.DeadlineAt.Before(at) {
			at = o.DeadlineAt
		}
	}
	return at, false
}

// standingOf says what happened, what may be done meanwhile, and when to ask again.
func standingOf(rec ledger.Record) standing {
	o := rec.Operation
	s := standing{Operation: o.ID, Kind: o.Kind, Title: o.Title, Session: o.Session, Outcome: string(o.StateAt(rec.Now)), Since: stamp(o.UpdatedAt),
		Receipts: o.Receipts, Conflict: string(o.Conflict)}
	again, checked := moreKnownAt(rec)
	switch ledger.State(s.Outcome) {
	case ledger.Uncertain:
		settles := "a check or a person settles it"
		if checked {
			settles = "a check is due then"
		}
		s.Outcome, s.Error, s.AskAgain = "unknown", string(o.ErrorClass), stamp(again)
		s.Advice = fmt.Sprintf("It was sent, and it is not known whether it took effect. Do not repeat it, neither here nor in another way; go on with what does not depend on it. "+
			"Ask again after %s: %s.", s.AskAgain, settles)
	case ledger.Pending:
		s.AskAgain = stamp(again)
		s.Advice = fmt.Sprintf("It is under way since %s, and it is not known yet whether it took effect. Do not repeat it; go on with what does not depend on it. Ask again after %s.",
			stamp(o.StartedAt), s.AskAgain)
	case ledger.Committed:
		s.Advice = "It took effect. Do not repeat it."
	case ledger.Failed:
		s.Advice = "It did not take effect. It may be called again if it is still wanted."
	default:
		s.Advice = "A person gave it up. Do not repeat it."
	}
	return s
}

func (c *call) standings() []byte {
	ctx, cancel := context.WithTimeout(c.p.ctx, 10*time.Second)
	defer cancel()
	m, _ := mcpwire.Members(c.arguments)
	if raw := m["operation"]; !mcpwire.Absent(raw) {
		rec, err := c.p.o.Recorder.Store().Read(ctx, ledger.Locator{ID: mcpwire.Text(raw)})
		if err != nil || !strings.HasPrefix(rec.Operation.Kind, kindPrefix) {
			return c.toolResult(map[string]any{"operations": []standing{}}, "No tool call with that operation id is recorded in this ledger.", true, true)
		}
		s := standingOf(rec)
		return c.toolResult(map[string]any{"operations": []standing{s}}, s.Advice, false, true)
	}
	list, more, err := openCalls(ctx, c.p.o.Recorder.Store())
	if err != nil {
		c.p.o.Log("the ledger cannot be read: " + err.Error())
		return c.failure(codeInternal, "unreachable", "", record.ToCaller(err))
	}
	return c.toolResult(map[string]any{"operations": list, "more": more}, summary(list, more), false, true)
}

func summary(list []standing, more bool) string {
	if len(list) == 0 {
		return "No tool call recorded in this ledger is under way or in doubt."
	}
	pending, least, again := 0, "", "" // of one form, so that the first in time is the least text
	for _, s := range list {
		if s.Outcome == string(ledger.Pending) {
			pending++
		}
		if again == "" || s.AskAgain < again {
			again = s.AskAgain
		}
	}
	if more {
		least = "at least "
	}
	return fmt.Sprintf("Of the tool calls of all servers recorded in this ledger, %d are under way, and of %s%d more it is not known whether they took effect. "+
		"Do not repeat any of them, neither here nor in another way; go on with what does not depend on them. Ask again after %s.", pending, least, len(list)-pending, again)
}

// openCalls are the tool calls in the ledger that are under way or in doubt, newest first.
func openCalls(ctx context.Context, store ledger.Store) (list []standing, more bool, err error) {
	open, err := ledger.ParseFilter("state:pending,uncertain kind:" + kindPrefix + "*")
	if err != nil {
		return nil, false, err
	}
	page, err := store.Page(ctx, ledger.Query{Tab: ledger.TabAll, Filter: open, Order: ledger.OrderNewest, Limit: mostListed, Now: time.Now()})
	list = []standing{}
	for _, row := range page.Rows {
		rec, err := store.Read(ctx, ledger.Locator{ID: row.ID})
		if err != nil {
			return nil, false, err
		}
		if s := standingOf(rec); s.AskAgain != "" { // else it was settled meanwhile
			list = append(list, s)
		}
	}
	return list, page.Next != "", err
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
