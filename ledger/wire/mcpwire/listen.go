package mcpwire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"indoubt/ledger/wire/transmit"
)

const (
	listenFirst = time.Second // before coming back to a stream that ended
	listenMost  = 30 * time.Second
	resumeLeast = 100 * time.Millisecond
	resumeTries = 4 // to reach a server again that is to go on with a stream
)

// listenOnce opens the stream on which a server of the revisions before
// 2026-07-28 says what belongs to no request.
func (c *overHTTP) listenOnce() {
	if _, version := c.dialect.current(); !listens(version) {
		return
	}
	c.mu.Lock()
	already := c.listening
	c.listening = true
	c.mu.Unlock()
	if !already && c.enter() {
		go c.keepListening()
	}
}

// keepListening comes back to the stream when it ends, until the server says
// that it has none or the connection is closed.
func (c *overHTTP) keepListening() {
	defer c.busy.Done()
	defer func() { c.mu.Lock(); defer c.mu.Unlock(); c.listening = false }()
	last, wait := "", listenFirst
	for {
		heard, pause, ok := c.hear(&last)
		if !ok {
			return
		}
		if heard {
			wait = listenFirst
		}
		if pause <= 0 {
			pause = wait
			wait = min(2*wait, listenMost)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-c.ctx.Done():
			timer.Stop()
			return
		}
	}
}

// openStream asks for what the server says after the event of that id; nil where it
// cannot be asked.
func (c *overHTTP) openStream(ctx context.Context, last string) *transmit.Reply {
	req, err := c.request(ctx, http.MethodGet, Frame{})
	if err != nil {
		return nil
	}
	if last != "" {
		req.Header.Set(headerLast, last)
	}
	reply, _ := c.sender.Open(req, transmit.Limits{Timeout: transmit.NoTimeout, MaxBody: 1})
	return reply
}

// hear listens once. ok is false where it makes no sense to come back.
func (c *overHTTP) hear(last *string) (heard bool, pause time.Duration, ok bool) {
	reply := c.openStream(c.ctx, *last)
	if reply == nil {
		return false, 0, c.ctx.Err() == nil
	}
	defer reply.Answer()
	if reply.StatusCode/100 != 2 || media(reply.Header) != "text/event-stream" {
		return false, 0, reply.StatusCode/100 == 5 || reply.StatusCode == http.StatusTooManyRequests
	}
	for stream := newEvents(reply); ; {
		v, err := stream.next()
		*last = stream.id
		if err != nil {
			return heard, stream.wait, true
		}
		heard = true
		if v.name == "" || v.name == "message" {
			c.emit(received{line: oneLine(v.data)})
		}
	}
}

// remember keeps how the client began its session.
func (c *overHTTP) remember(f Frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case f.Kind == Request && f.Method == "initialize":
		c.hello, c.greeted = bytes.Clone(f.Raw), nil
	case f.Kind == Notification && f.Method == "notifications/initialized":
		c.greeted = bytes.Clone(f.Raw)
	}
}

// toolsChanged is what a server says whose tools may be others than before.
const toolsChanged = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n"

// renew begins a session in place of one that the server has ended, as the client began
// that one: it cannot do so itself, because no line says that a session has ended. What
// was sent in the old session is not sent again.
func (c *overHTTP) renew(ended string) {
	c.renewing.Lock()
	defer c.renewing.Unlock()
	c.mu.Lock()
	hello, greeted := c.hello, c.greeted
	c.mu.Unlock()
	if session, _ := c.dialect.current(); session != ended || hello == nil {
		return
	}
	fresh := &overHTTP{url: c.url, header: c.header, sender: c.sender, closed: make(chan struct{}), out: make(chan received, 16), streams: map[string]*exchange{}}
	fresh.ctx, fresh.cancel = context.WithTimeout(c.ctx, acceptWait)
	defer fresh.cancel() // and not Close, which would end the session
	if _, err := fresh.Send(fresh.ctx, hello); err != nil {
		return
	}
	for {
		session, version := fresh.dialect.current()
		if version != "" {
			c.dialect.adopt(session, version)
			break
		}
		if _, err := fresh.Recv(); err != nil {
			return
		}
	}
	if greeted != nil {
		_, _ = c.Send(c.ctx, greeted)
	}
	c.emit(received{line: []byte(toolsChanged)})
}

type event struct {
	name string        // "" means message
	data []byte        // its data lines, joined by newlines
	id   string        // of the stream up to its end: where to go on after it
	wait time.Duration // the server's word on when to come back, 0 for none
}

// events reads a text/event-stream (WHATWG HTML, "Server-sent events"). An event
// whose end did not come is dropped, as that standard says.
type events struct {
	in    *bufio.Reader
	id    string // of the last event that came whole
	wait  time.Duration
	begun bool
	cr    bool // the line before ended with a carriage return
}

func newEvents(r io.Reader) *events { return &events{in: bufio.NewReaderSize(r, 16<<10)} }

// next returns the next event that carries data: an empty one only says where a stream
// can be gone on with. The error is the reader's, or ErrLineTooLong.
func (e *events) next() (event, error) {
	var v event
	var has bool
	id := e.id
	for {
		line, err := e.line(MaxLine - len(v.data))
		if err != nil {
			return event{}, err
		}
		if len(line) == 0 {
			e.id = id
			if len(bytes.TrimSpace(v.data)) > 0 {
				v.id, v.wait = e.id, e.wait
				return v, nil
			}
			v, has = event{}, false
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) { // a comment has no name
		case "data":
			if has {
				v.data = append(v.data, '\n')
			}
			v.data, has = append(v.data, value...), true
		case "event":
			v.name = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 && len(value) <= maxHeaderValue {
				id = string(value)
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				e.wait = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// line reads up to the next \n, \r\n or \r, at most limit bytes. A line without
// its end is none.
func (e *events) line(limit int) ([]byte, error) {
	var line []byte
	for {
		c, err := e.in.ReadByte()
		if err != nil {
			return nil, err
		}
		if e.cr {
			e.cr = false
			if c == '\n' {
				continue
			}
		}
		switch c {
		case '\r', '\n':
			e.cr = c == '\r'
			if !e.begun {
				e.begun = true
				line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
			}
			return line, nil
		}
		if len(line) >= limit {
			return nil, ErrLineTooLong
		}
		line = append(line, c)
	}
}

// oneLine puts a JSON text on one line with a newline at its end. In JSON a line
// break stands between tokens only, where a space means the same; nothing else
// is changed.
func oneLine(text []byte) []byte {
	text = bytes.Trim(text, " \t\r\n")
	line := make([]byte, len(text), len(text)+1)
	for i, c := range text {
		if c == '\n' || c == '\r' {
			c = ' '
		}
		line[i] = c
	}
	return append(line, '\n')
}

// readAll reads a body of at most MaxLine bytes.
func readAll(r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, MaxLine+1))
	if err == nil && len(body) > MaxLine {
		err = ErrLineTooLong
	}
	return body, err
}

var errUnanswered = errors.New("the server ended its answer before the message came")
