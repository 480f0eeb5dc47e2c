package mcpproxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/record"
	"indoubt/ledger/wire/mcpwire"
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
	Outcome string `json:"outcome"` // one of outcomeOf
	record.Facts
	Receipts []string `json:"receipts,omitempty"`
	Why      string   `json:"why,omitempty"`
	Advice   string   `json:"advice"`
}

// outcomeOf are the outcomes by the codes of the other proxy.
var outcomeOf = map[string]string{
	"in_doubt": "unknown", "in_progress": "pending", "finished": "done", "refused": "refused", "held": "held", "key_reused": "key_reused",
}

// about fills in what every answer about an operation says.
func (c *call) about(o ledger.Operation, code, advice string) told {
	return told{Outcome: outcomeOf[code], Facts: c.p.facts(code, o.ID), Receipts: o.Receipts, Advice: advice}
}

func (p *Proxy) facts(code, operationID string) record.Facts {
	return record.FactsOf(code, operationID, map[string]any{"tool": p.status, "arguments": map[string]string{"operation": operationID}})
}

// held answers a call that is not sent on.
func (c *call) held(res ledger.BeginResult) []byte {
	o := res.Operation
	switch res.Answer {
	case ledger.AnswerInDoubt:
		if res.Told {
			return c.like(o)
		}
		return c.unknown(o, res.Why)
	case ledger.AnswerInProgress:
		return c.waiting(o, "it has not ended yet")
	case ledger.AnswerHeld:
		t := c.about(o, "held", record.Held(res)+": this call has not failed. Go on with what does not depend on it, and repeat it then.")
		t.Why = res.Why
		return c.tell(t, true)
	case ledger.AnswerKeyReused:
		t := c.about(o, "key_reused", "Nothing was sent, because this idempotency key belongs to a call with other arguments: "+
			"use a new key for this one.")
		return c.tell(t, true)
	}
	t := c.about(o, "refused", fmt.Sprintf("Nothing was sent (%s): do not repeat this call, go on with what does not depend on it, and ask a person, who alone can allow it.", res.Why))
	t.Why = res.Why
	return c.tell(t, true)
}

// unknown is the answer about an operation in doubt.
func (c *call) unknown(o ledger.Operation, why string) []byte {
	said := why
	if said == "" {
		said, why = doubtWords(o.ErrorClass), string(o.ErrorClass)
	}
	t := c.about(o, "in_doubt", fmt.Sprintf("It is not known whether this call took effect (%s): do not repeat it, go on with what does not depend on it, "+
		"and ask the tool %s with operation %q again in a minute; if it stays unknown, a person decides.", said, c.p.status, o.ID))
	t.Why = why
	return c.tell(t, true)
}

// like is the answer about a call of the same tool that is in doubt, given once.
func (c *call) like(o ledger.Operation) []byte {
	t := c.about(o, "in_doubt", fmt.Sprintf("Nothing was sent, because another call of this tool may have taken effect (%s), "+
		"and this may be the same in other words. "+
		"Ask the tool %s with operation %q; if you mean another one, repeat this call, and it is sent.",
		doubtWords(o.ErrorClass), c.p.status, o.ID))
	t.Why = string(o.ErrorClass)
	return c.tell(t, true)
}

func doubtWords(class ledger.ErrorClass) string {
	switch class {
	case ledger.ClassDeadline, ledger.ClassTimeout:
		return "no answer came in time"
	case ledger.ClassEOF, ledger.ClassReset:
		return "the connection ended before an answer came"
	case ledger.ClassKilled:
		return "what waited for the answer ended first"
	case ledger.ClassToolError:
		return "the tool answered with an error that does not say so"
	}
	return "no answer settles it"
}

// waiting is the answer about an attempt in flight that is not waited for.
func (c *call) waiting(o ledger.Operation, why string) []byte {
	t := c.about(o, "in_progress", fmt.Sprintf("An identical call is under way (%s), and nothing was sent now: do not repeat it, go on with what does not depend on it, "+
		"and ask the tool %s with operation %q again in a minute.", why, c.p.status, o.ID))
	t.Why = why
	return c.tell(t, true)
}

// done is the answer about a commit whose own answer is not kept as it was.
func (c *call) done(o ledger.Operation) []byte {
	found := ""
	if len(o.Receipts) > 0 {
		found = " (" + strings.Join(o.Receipts, ", ") + ")"
	}
	return c.tell(c.about(o, "finished", fmt.Sprintf("This call has taken effect already%s, and was not sent again: take it as done, and read what it made where you need it, "+
		"because the server's own answer is not kept.", found)), false)
}

// outcome answers a call that was sent, or was to be, and got no line from the
// server that could be passed on.
func (c *call) outcome(o ledger.Operation, r reply) []byte {
	why := r.why
	if why == "" && r.answer.Err != nil {
		why = r.answer.Err.Error()
	}
	switch {
	case o.State == ledger.Failed && !r.answer.Sent:
		return c.failure(codeInternal, "never_sent", o.ID, "not sent: "+why)
	case o.State == ledger.Failed:
		return c.failure(codeInternal, "failed", o.ID, "it did not take effect: "+why)
	case o.State == ledger.Committed:
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

func (c *toolCall) toolResult(said any, sentence string, isError, structured bool) []byte {
	text := ledger.EncodeJSON(said)
	content := []map[string]string{{"type": "text", "text": sentence}, {"type": "text", "text": string(text)}}
	result := fmt.Appendf(nil, `{"content":%s,"isError":%t,"_meta":{%q:%s}`, ledger.EncodeJSON(content), isError, metaOutcome, text)
	if structured {
		result = fmt.Appendf(result, `,"structuredContent":%s`, text)
	}
	if c.stateless() {
		result = append(result, `,"resultType":"complete"`...)
	}
	return resultLine(c.frame.ID, append(result, '}'))
}

// stateless reports whether the call is of revision 2026-07-28 or later: those say
// theirs with every request.
func (c *toolCall) stateless() bool {
	meta, _ := mcpwire.Members(c.meta)
	return meta["io.modelcontextprotocol/protocolVersion"] != nil
}

func (c *call) failure(number int, code, operationID, why string) []byte {
	return failureLine(c.frame.ID, number, coded{code, c.p.facts(code, operationID)}, "indoubt: "+why)
}

func resultLine(id json.RawMessage, result []byte) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", id, bytes.ReplaceAll(result, []byte("\n"), []byte(" ")))
}

// coded is what a JSON-RPC error of the proxy's says to programs, in its data.
type coded struct {
	Code string `json:"code"`
	record.Facts
}

// codedAs is of an error about no operation.
func codedAs(code string) coded { return coded{code, record.FactsOf(code, "", nil)} }

func failureLine(id json.RawMessage, number int, data coded, message string) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s,"data":%s}}`, id, number, ledger.EncodeJSON(message), ledger.EncodeJSON(data))
}

func redacted(result json.RawMessage) bool { return bytes.Contains(result, []byte("[redacted")) }

// unrecorded answers a call that may not be sent (I1).
func (c *call) unrecorded(err error) {
	c.p.o.Log("not sent: " + err.Error())
	c.end(c.failure(codeInternal, "not_recorded", "", "not sent, because it could not be recorded: "+record.ToCaller(err)))
}
