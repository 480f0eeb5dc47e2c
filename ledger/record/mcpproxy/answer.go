package mcpproxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"indoubt/ledger"
)

// metaOutcome is where in _meta the proxy's own answers say what became of a call.
const metaOutcome = "indoubt/outcome"

// The JSON-RPC errors the proxy answers with itself.
const (
	codeParse    = -32700
	codeInvalid  = -32600
	codeParams   = -32602
	codeInternal = -32603
)

// told is what an answer that the proxy gives itself says to programs: in _meta,
// and as structured content where that contradicts no output schema.
type told struct {
	Outcome   string   `json:"outcome"` // unknown, pending, done, refused, key_reused
	Operation string   `json:"operation,omitempty"`
	Key       string   `json:"key,omitempty"`
	Since     string   `json:"since,omitempty"`
	Until     string   `json:"until,omitempty"`
	Receipts  []string `json:"receipts,omitempty"`
	Why       string   `json:"why,omitempty"`
	Advice    string   `json:"advice"`
}

// about fills in what every answer about an operation says.
func about(o ledger.Operation, outcome, advice string) told {
	return told{Outcome: outcome, Operation: o.ID, Key: o.Key, Receipts: o.Receipts, Advice: advice}
}

// held answers a call that is not sent on.
func (c *call) held(res ledger.BeginResult) []byte {
	o := res.Operation
	switch res.Answer {
	case ledger.AnswerInDoubt:
		return c.unknown(o, res.Why)
	case ledger.AnswerInProgress:
		return c.waiting(o, "it has not ended yet")
	case ledger.AnswerKeyReused:
		t := about(o, "key_reused", "Nothing was sent. This idempotency key belongs to a call with other arguments; use a new key for a new wish.")
		return c.tell(t, true)
	}
	t := about(o, "refused", fmt.Sprintf("Nothing was sent: %s. Do not repeat the call; a person decides.", res.Why))
	t.Why = res.Why
	return c.tell(t, true)
}

// unknown is the answer about an operation in doubt.
func (c *call) unknown(o ledger.Operation, why string) []byte {
	t := about(o, "unknown", fmt.Sprintf("It is not known whether this call took effect: it was sent once, and no answer settles it. "+
		"Do not repeat it. Ask the tool %s with operation %q how it stands; if it stays unknown, a person decides.", statusTool, o.ID))
	since := o.DoubtedAt
	if since.IsZero() {
		since = o.DeadlineAt
	}
	t.Since, t.Why = stamp(since), why
	if why == "" {
		t.Why = string(o.ErrorClass)
	}
	return c.tell(t, true)
}

// waiting is the answer about an attempt in flight that is not waited for.
func (c *call) waiting(o ledger.Operation, why string) []byte {
	t := about(o, "pending", fmt.Sprintf("An identical call is under way: %s. Nothing was sent now. Do not repeat it; ask the tool %s with operation %q how it stands.", why, statusTool, o.ID))
	t.Since, t.Until, t.Why = stamp(o.StartedAt), stamp(o.DeadlineAt), why
	return c.tell(t, true)
}

// done is the answer about a commit whose own answer is not kept as it was.
func (c *call) done(o ledger.Operation) []byte {
	t := about(o, "done", "This call has taken effect already, and was not sent again. The server's answer to it is not kept.")
	t.Since = stamp(o.SettledAt)
	return c.tell(t, false)
}

// outcome answers a call that was sent, or was to be, and got no line from the
// server that could be passed on.
func (c *call) outcome(o ledger.Operation, r reply) []byte {
	why := r.why
	if why == "" && r.answer.Err != nil {
		why = r.answer.Err.Error()
	}
	switch o.State {
	case ledger.Failed:
		return c.failure(codeInternal, "it did not take effect: "+why)
	case ledger.Committed:
		return c.done(o)
	}
	return c.unknown(o, why)
}

// tell makes a tool result of what the proxy says: a sentence for models, and the
// same for programs. A client refuses structured content that does not fit the
// tool's output schema, and a result without any unless it is an error: so an
// answer about a tool with a schema is an error of text, whatever the outcome.
func (c *call) tell(t told, isError bool) []byte {
	schema, known := c.p.tools.declares(c.tool)
	return c.toolResult(t, t.Advice, isError || schema, known && !schema)
}

func (c *call) toolResult(said any, sentence string, isError, structured bool) []byte {
	text := encode(said)
	content := []map[string]string{{"type": "text", "text": sentence}, {"type": "text", "text": string(text)}}
	result := fmt.Appendf(nil, `{"content":%s,"isError":%t,"_meta":{%q:%s}`, encode(content), isError, metaOutcome, text)
	if structured {
		result = fmt.Appendf(result, `,"structuredContent":%s`, text)
	}
	if c.stateless() {
		result = append(result, `,"resultType":"complete"`...)
	}
	return resultLine(c.frame.ID, append(result, '}'))
}

// stateless tells whether the call is of revision 2026-07-28 or later: those say
// theirs with every request.
func (c *call) stateless() bool {
	meta, _ := once(c.meta)
	return meta["io.modelcontextprotocol/protocolVersion"] != nil
}

func (c *call) failure(code int, why string) []byte {
	return failureLine(c.frame.ID, code, "indoubt: "+why)
}

func resultLine(id json.RawMessage, result []byte) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, bytes.ReplaceAll(result, []byte("\n"), []byte(" ")))
}

func failureLine(id json.RawMessage, code int, message string) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, encode(message))
}

func encode(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return []byte("null")
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// redacted tells whether parts of a stored result were replaced.
func redacted(result json.RawMessage) bool { return bytes.Contains(result, []byte("[redacted")) }

// The tool that the proxy adds to the server's.
const (
	statusTool       = "indoubt_status"
	statusDefinition = `{"name":"indoubt_status","title":"Calls in doubt","description":"Tells whether an earlier tool call took effect. With an operation id: the state of that call. Without: every call to this server of which it is not known whether it took effect.","inputSchema":{"type":"object","properties":{"operation":{"type":"string","description":"The operation id that an answer named"}},"additionalProperties":false},"annotations":{"title":"Calls in doubt","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}`
	mostListed       = 50
	mostPages        = 5
)

// standing is one operation as indoubt_status tells it.
type standing struct {
	Operation string   `json:"operation"`
	Tool      string   `json:"kind"`
	Title     string   `json:"title,omitempty"`
	Key       string   `json:"key"`
	State     string   `json:"state"`
	Outcome   string   `json:"outcome"` // committed, failed, unknown, pending, abandoned
	Since     string   `json:"since,omitempty"`
	Error     string   `json:"error_class,omitempty"`
	Receipts  []string `json:"receipts,omitempty"`
	Conflict  string   `json:"conflict,omitempty"`
	Advice    string   `json:"advice"`
}

func standingOf(o ledger.Operation, now time.Time) standing {
	s := standing{Operation: o.ID, Tool: o.Kind, Title: o.Title, Key: o.Key, State: string(o.StateAt(now)), Since: stamp(o.UpdatedAt),
		Receipts: o.Receipts, Conflict: string(o.Conflict)}
	s.Outcome = s.State
	switch ledger.State(s.State) {
	case ledger.Uncertain:
		s.Outcome, s.Error = "unknown", string(o.ErrorClass)
		s.Advice = "It is not known whether it took effect. Do not repeat it; a person decides."
	case ledger.Pending:
		s.Advice = "It is under way. Do not repeat it; ask again later."
	case ledger.Committed:
		s.Advice = "It took effect. Do not repeat it."
	case ledger.Failed:
		s.Advice = "It did not take effect."
	default:
		s.Advice = "A person gave it up. Do not repeat it."
	}
	return s
}

// status answers indoubt_status.
func (c *call) status() []byte {
	ctx, cancel := context.WithTimeout(c.p.ctx, 10*time.Second)
	defer cancel()
	m, _ := once(c.arguments)
	if raw := m["operation"]; !absent(raw) {
		rec, err := c.p.o.Store.Read(ctx, ledger.Locator{ID: textOf(raw)})
		if err != nil || rec.Operation.Scope != c.p.o.Scope {
			return c.toolResult(map[string]any{"operations": []standing{}}, "No call to this server has that operation id.", true, true)
		}
		s := standingOf(rec.Operation, rec.Now)
		return c.toolResult(map[string]any{"operations": []standing{s}}, s.Advice, false, true)
	}
	list, more, err := c.p.inDoubt(ctx)
	switch {
	case err != nil:
		return c.failure(codeInternal, "the ledger cannot be read: "+err.Error())
	case len(list) == 0:
		return c.toolResult(map[string]any{"operations": list}, "No call to this server is in doubt.", false, true)
	}
	sentence := fmt.Sprintf("%d calls to this server may or may not have taken effect. Do not repeat them; a person decides.", len(list))
	return c.toolResult(map[string]any{"operations": list, "more": more}, sentence, false, true)
}

// inDoubt are the operations of this scope that are in doubt, newest first.
func (p *Proxy) inDoubt(ctx context.Context) (list []standing, more bool, err error) {
	list = []standing{}
	q := ledger.Query{Tab: ledger.TabAll, Order: ledger.OrderNewest, Limit: 100, Now: time.Now(), Filter: ledger.Filter{
		Text: "state:uncertain", Terms: []ledger.Term{{Field: "state", Value: string(ledger.Uncertain)}, {Field: "kind", Value: "mcp." + p.o.Server + ".*"}}}}
	for range mostPages {
		page, err := p.o.Store.Page(ctx, q)
		if err != nil {
			return nil, false, err
		}
		for _, row := range page.Rows {
			rec, err := p.o.Store.Read(ctx, ledger.Locator{ID: row.ID})
			if err != nil || rec.Operation.Scope != p.o.Scope {
				continue
			}
			if len(list) == mostListed {
				return list, true, nil
			}
			list = append(list, standingOf(rec.Operation, rec.Now))
		}
		if q.After = page.Next; q.After == "" {
			return list, false, nil
		}
	}
	return list, true, nil
}
