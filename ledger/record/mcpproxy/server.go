package mcpproxy

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"indoubt/ledger"
	"indoubt/ledger/wire/mcpwire"
)

// reply is what came back for a recorded call: the server's line, or why none
// will come.
type reply struct {
	line   []byte
	answer ledger.Answer
	why    string // in words, where the answer's error does not say it all
}

func (p *Proxy) receive() {
	for {
		line, err := p.conn.Recv()
		var lost *mcpwire.Lost
		switch {
		case errors.As(err, &lost):
			p.lost(lost)
		case err != nil:
			p.left(err)
			return
		default:
			p.came(line, mcpwire.Parse(line))
		}
	}
}

func (p *Proxy) came(line []byte, f mcpwire.Frame) {
	switch f.Kind {
	case mcpwire.Response:
		p.cameBack(line, f)
		return
	case mcpwire.Notification:
		if f.Method == "notifications/tools/list_changed" {
			p.tools.forget()
		}
	case mcpwire.Other:
		if f.TooDeep == mcpwire.Response {
			f.Duplicate = true // for all that is known
			p.cameBack(line, f)
			return
		}
	case mcpwire.Batch:
		for _, e := range f.Elements {
			p.came(e.Raw, e)
		}
		return
	}
	p.reply(line)
}

// cameBack passes a response on, or takes it as a recorded call's.
func (p *Proxy) cameBack(line []byte, f mcpwire.Frame) {
	fl := p.landed(f.ID)
	switch {
	case fl == nil:
	case fl.call != nil && fl.call.recorded():
		fl.call.hear(reply{line: line, answer: fl.call.answerOf(f)})
		return
	case fl.call != nil && !isClosed(fl.call.ready):
		p.o.Log("the server answered a call that it had not been sent: " + string(f.ID))
		return
	case fl.call != nil: // a call that only reads
		p.unboard(fl.call)
	case fl.method == "tools/list":
		line = p.listed(line, f, fl.list)
	}
	p.reply(line)
}

// lost is told of a request whose answer will not come.
func (p *Proxy) lost(l *mcpwire.Lost) {
	fl := p.landed(l.ID)
	if fl == nil {
		return
	}
	if fl.call != nil && fl.call.recorded() {
		fl.call.hear(reply{answer: lostAnswer(l), why: p.lostWhy(l)})
		return
	}
	if fl.call != nil {
		p.unboard(fl.call)
	}
	p.reply(failureLine(fl.id, codeInternal, codedAs("unreachable"), "no answer from the MCP server: "+p.lostWhy(l)))
}

// lostWhy says why, and what to do about it where that is known.
func (p *Proxy) lostWhy(l *mcpwire.Lost) string {
	why := "no answer came"
	switch {
	case errors.Is(l.Err, io.EOF), errors.Is(l.Err, io.ErrUnexpectedEOF):
		why = doubtWords(ledger.ClassEOF)
	case l.Err != nil:
		why = l.Err.Error()
	}
	switch {
	case l.Refused && l.Status == http.StatusUnauthorized:
		why += "; indoubt mcp sends what --header-env gives it, and logs in nowhere by itself"
		p.o.Log(why)
	case l.Refused:
		why += "; the next call is made in a new one"
		p.o.Log(why)
	}
	return why
}

// lostAnswer is what the transport says of a call. Whatever it calls rejected
// was sent, and may have had its effect.
func lostAnswer(l *mcpwire.Lost) ledger.Answer {
	a := ledger.Answer{Via: "mcp", Sent: l.Sent, Status: l.Status, Body: l.Body, Err: l.Err}
	a.Err = cmp.Or(a.Err, errors.New("no answer came"))
	switch {
	case !l.Sent:
	case l.Refused:
		a.Err = nil // the status says it
	case l.Status >= 500:
		a.Class = ledger.Class5xx
	case l.Status == 429:
		a.Class = ledger.ClassThrottled
	case l.Status == 0:
		a.Class = ledger.ClassReset
	}
	return a
}

// answerOf is a response as it is judged. What could be read in two ways is no
// answer. A call that answers a question is not known by its tool: the tool has
// run before.
func (c *call) answerOf(f mcpwire.Frame) ledger.Answer {
	a := ledger.Answer{Via: "mcp", Sent: true}
	result, failure := f.Members["result"], f.Members["error"]
	if f.Duplicate || f.Lookalike || (result != nil) == (failure != nil) {
		a.Err, a.Class = errors.New("the response can be read in two ways"), ledger.ClassToolError
		return a
	}
	if failure == nil {
		a.RPC = &ledger.RPCAnswer{Result: result, Members: f.Result}
	} else {
		a.RPC = &ledger.RPCAnswer{Error: true}
	}
	if !c.resumes() {
		a.RPC.Tool = c.tool
	}
	if m, clean := mcpwire.Members(failure); clean {
		var code int
		if json.Unmarshal(m["code"], &code) == nil {
			a.RPC.Code = code
		}
		a.RPC.Message = mcpwire.Text(m["message"])
	}
	return a
}
