package mcpproxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"indoubt/ledger/wire/mcpwire"
)

// slot is one client line on its way to the server.
type slot struct {
	line  []byte
	frame mcpwire.Frame
	call  *call // nil for a line that passes
}

// flight is a client request whose answer is to come.
type flight struct {
	id     json.RawMessage
	method string
	call   *call // a recorded call, or one that is not decided on yet
	list   int   // which list of tools is asked for
}

func (p *Proxy) read() {
	defer close(p.queue)
	lines := bufio.NewReaderSize(p.o.In, 64<<10)
	for {
		line, err := readLine(lines)
		switch {
		case errors.Is(err, mcpwire.ErrLineTooLong):
			p.refuse(mcpwire.Frame{}, codeParse, err.Error())
			continue
		case len(line) > 0:
			p.take(line)
		}
		if err != nil {
			return
		}
		if p.ctx.Err() != nil {
			return
		}
	}
}

// readLine reads one line with its newline. One that is too long is skipped.
func readLine(r *bufio.Reader) ([]byte, error) {
	var long []byte
	tooLong := false
	for {
		part, err := r.ReadSlice('\n')
		if len(long)+len(part) > mcpwire.MaxLine {
			tooLong, long = true, long[:0]
		}
		if !tooLong {
			long = append(long, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case tooLong && (err == nil || errors.Is(err, io.EOF)):
			return nil, mcpwire.ErrLineTooLong
		}
		return long, err
	}
}

func (p *Proxy) take(line []byte) {
	f := mcpwire.Parse(line)
	if code, why := suspect(line, f); why != "" {
		p.refuse(f, code, why)
		return
	}
	s := &slot{line: line, frame: f}
	switch {
	case f.Kind == mcpwire.Response:
		// An answer to the server never waits behind a call: the server may need
		// it to answer that call, or us.
		if p.conn != nil {
			p.send(line)
		}
		return
	case f.Kind == mcpwire.Request:
		if f.Method == "initialize" {
			p.introduced(f.Params["clientInfo"])
		}
		var ok bool
		if s.call, ok = p.board(f); !ok {
			p.refuse(f, codeInvalid, "a request with this id is still outstanding")
			return
		}
		if s.call != nil && !p.startCall(s.call) {
			return
		}
	case f.Method == "notifications/cancelled":
		if p.cancelled(f) {
			return
		}
	}
	select {
	case p.queue <- s:
	case <-p.ctx.Done():
	}
}

func (p *Proxy) introduced(info json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.client = clientName(info)
}

// client is who calls, by its own word: the call's, from revision 2026-07-28 on, else
// the connection's.
func (c *call) client() string {
	meta, _ := mcpwire.Members(c.meta)
	if name := clientName(meta["io.modelcontextprotocol/clientInfo"]); name != "" {
		return name
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return c.p.client
}

const maxClient = 80 // characters of a client's name, and of its version

// clientName is a client's name and version as name/version, on one line.
func clientName(info json.RawMessage) string {
	m, _ := mcpwire.Members(info)
	plain := func(raw json.RawMessage) string {
		words := strings.FieldsFunc(mcpwire.Text(raw), func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
		text := []rune(strings.Join(words, " "))
		return string(text[:min(len(text), maxClient)])
	}
	name, version := plain(m["name"]), plain(m["version"])
	if name == "" || version == "" {
		return name
	}
	return name + "/" + version
}

// suspect tells why a client line must not reach the server: because one could
// read a call in it that is not recorded, or another one than is.
func suspect(line []byte, f mcpwire.Frame) (code int, why string) {
	body := bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
	switch {
	case len(bytes.TrimSpace(body)) == 0:
		return 0, ""
	case !utf8.Valid(body):
		return codeParse, "the message is not UTF-8"
	case bytes.IndexByte(body, '\r') >= 0:
		return codeParse, "the message has a carriage return in it, which some servers read as the end of a line"
	case f.TooDeep != mcpwire.Other:
		return codeInvalid, "the message is nested deeper than 10,000 levels"
	case f.Kind == mcpwire.Other && f.Members == nil:
		return codeParse, "this is not a JSON-RPC message"
	case f.Kind == mcpwire.Batch:
		return codeInvalid, "it is a batch, of which a call could not be told apart; send each message by itself"
	case !f.ToolCall():
		return 0, ""
	case f.Duplicate:
		return codeInvalid, "a member of this tools/call occurs twice, so that it could be read as two different calls"
	case f.Lookalike:
		return codeInvalid, "a member of this tools/call differs from another one only in case, so that it could be read as two different calls"
	case f.Kind != mcpwire.Request || !plainID(f.ID):
		return codeInvalid, "a tools/call needs a number or a text as its id"
	case f.Params == nil || f.Name() == "":
		return codeParams, "a tools/call needs params with the name of a tool"
	}
	return 0, ""
}

// plainID reports whether an id is a number or a text, as JSON-RPC wants it.
func plainID(id json.RawMessage) bool {
	return len(id) > 0 && (id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9')
}

// board notes a request whose answer is to be recognised. It reports false for
// an id whose answer could be taken for that of an outstanding call.
func (p *Proxy) board(f mcpwire.Frame) (*call, bool) {
	fl := &flight{id: f.ID, method: f.Method, list: p.tools.list()}
	if f.Method == "tools/call" {
		fl.call = p.newCall(f)
	}
	key := mcpwire.IDKey(f.ID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.flights[key]; other != nil && !other.ended() && (other.call != nil || fl.call != nil) {
		return nil, false
	}
	p.flights[key] = fl
	return fl.call, true
}

func (fl *flight) ended() bool { return fl.call != nil && fl.call.ended }

// landed takes the flight that a response belongs to off the board. A recorded
// call stays on it, so that a second answer is noticed.
func (p *Proxy) landed(id json.RawMessage) *flight {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := mcpwire.IDKey(id)
	fl := p.flights[key]
	if fl != nil && fl.call == nil {
		delete(p.flights, key)
	}
	return fl
}

// unboard forgets a request that was answered here.
func (p *Proxy) unboard(c *call) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := mcpwire.IDKey(c.frame.ID)
	if fl := p.flights[key]; fl != nil && fl.call == c {
		delete(p.flights, key)
	}
}

// forward sends the client's lines in the order they came. A call holds up what
// is behind it until it is recorded, or stands aside.
func (p *Proxy) forward(done chan<- struct{}) {
	defer close(done)
	for {
		var s *slot
		var more bool
		select {
		case s, more = <-p.queue:
		case <-p.ctx.Done():
		}
		if !more {
			return
		}
		if s.call != nil {
			select {
			case <-s.call.ready:
			case <-p.ctx.Done():
				return
			}
			if s.call.inTurn {
				s.call.transmit()
			}
			continue
		}
		p.passOn(s.frame, s.line)
	}
}

// passOn sends a line that is not recorded, or answers it where it cannot.
func (p *Proxy) passOn(f mcpwire.Frame, line []byte) {
	err := p.startErr
	if p.conn != nil {
		err = p.send(line)
	}
	if err != nil {
		p.unreachable(f, err)
	}
}

// send passes one line that is not recorded on.
func (p *Proxy) send(line []byte) error {
	_, err := p.conn.Send(p.ctx, line)
	p.tellEnded(err)
	return err
}

// unreachable answers what cannot be passed on. What the end of the connection has
// made impossible is answered when it is known how that came (unanswered).
func (p *Proxy) unreachable(f mcpwire.Frame, err error) {
	if isClosed(p.gone) {
		err = p.whyGone()
	} else if p.conn != nil && (errors.Is(err, mcpwire.ErrEnded) || p.ctx.Err() != nil) {
		return
	}
	if f.Kind == mcpwire.Request && p.landed(f.ID) != nil {
		p.reply(failureLine(f.ID, codeInternal, codedAs("unreachable"), "not sent: the MCP server cannot be reached: "+err.Error()))
	}
}

// unanswered answers the requests to which the server that is gone has given no answer.
// Calls that are recorded are answered by themselves, and so is, before the end, what is not
// decided yet.
func (p *Proxy) unanswered() {
	p.mu.Lock()
	var left []json.RawMessage
	for key, fl := range p.flights {
		if c := fl.call; c == nil || !c.write && !c.cancelled && (p.closing || isClosed(c.ready) && c.inTurn) {
			left = append(left, fl.id)
			delete(p.flights, key)
		}
	}
	p.mu.Unlock()
	for _, id := range left {
		p.reply(failureLine(id, codeInternal, codedAs("unreachable"), "indoubt: no answer: "+p.whyGone().Error()))
	}
}

func (p *Proxy) refuse(f mcpwire.Frame, code int, why string) {
	p.o.Log("not passed on: " + why)
	for _, e := range f.Elements {
		p.refuse(e, code, why)
	}
	if f.Kind != mcpwire.Request && f.Kind != mcpwire.Other { // no other is answered
		return
	}
	id := f.ID
	if !plainID(id) {
		id = nil
	}
	p.reply(failureLine(id, code, codedAs("not_passed"), "indoubt did not pass this on: "+why))
}

func (p *Proxy) reply(line []byte) bool {
	return p.out.write(line) == nil
}
