package mcpwire

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"indoubt/ledger/wire/transmit"
)

// accepted waits for the server to take a message that gets no answer.
func (c *overHTTP) accepted(ctx context.Context, f Frame, x *exchange) (bool, error) {
	wait, stop := context.WithTimeout(ctx, acceptWait)
	defer stop()
	select {
	case o := <-x.head:
		defer c.leave(x)
		return c.acceptance(f, o)
	case <-wait.Done():
	}
	select {
	case <-x.written:
		go func() {
			defer c.leave(x)
			_, _ = c.acceptance(f, <-x.head)
		}()
		return true, fmt.Errorf("the server has not said that it accepted the message: %w", wait.Err())
	default:
		defer c.leave(x)
		x.end(wait.Err())
		return c.acceptance(f, <-x.head)
	}
}

func (c *overHTTP) acceptance(f Frame, o opened) (bool, error) {
	if o.err != nil {
		return o.sent, o.err
	}
	o.reply.Extend(time.Now().Add(acceptWait))
	_, _ = io.CopyN(io.Discard, o.reply, maxLostBody)
	o.reply.Answer()
	if o.reply.StatusCode/100 != 2 {
		return true, statusError(o.reply)
	}
	if f.Method == "notifications/initialized" {
		c.listenOnce()
	}
	return true, nil
}

// answer passes on what the server says to a message, and tells what of it is
// lost.
func (c *overHTTP) answer(x *exchange, o opened) {
	defer c.leave(x)
	waits := make(map[string]Frame, len(x.asked))
	for _, e := range x.asked {
		waits[IDKey(e.ID)] = e
	}
	lost := Lost{Sent: o.sent, Err: o.err}
	if o.err == nil {
		lost.Err = c.read(x, o.reply, waits)
		if o.reply.StatusCode/100 != 2 {
			lost.Status, lost.Body = o.reply.StatusCode, o.reply.Answer().Body
			lost.Refused = lost.Status == http.StatusUnauthorized || errors.Is(lost.Err, errSession)
		}
		o.reply.Answer()
		if errors.Is(lost.Err, errSession) {
			c.renew(o.reply.Request.Header.Get(headerSession))
		}
	}
	for _, e := range waits {
		l := lost
		l.ID = e.ID
		c.emit(received{err: &l})
	}
}

// read passes the messages of one answer on, and takes what they answer out of
// waits. It says why nothing more comes.
func (c *overHTTP) read(x *exchange, reply *transmit.Reply, waits map[string]Frame) error {
	if reply.StatusCode/100 != 2 {
		if _, err := io.CopyN(io.Discard, reply, maxLostBody); errors.Is(err, io.EOF) {
			c.refusal(reply, waits)
		}
		return statusError(reply)
	}
	coded := transmit.Encoded(reply.Header)
	switch kind := media(reply.Header); {
	case kind == "application/json":
		body, err := readAll(reply)
		if err == nil && coded {
			body, err = transmit.Decoded(reply.Header, body, MaxLine)
		}
		if err != nil {
			return cut(err)
		}
		if len(bytes.TrimSpace(body)) > 0 {
			c.pass(oneLine(body), reply.Header, waits)
		}
	case kind == "text/event-stream" && !coded:
		return c.follow(x, reply, waits)
	default:
		return fmt.Errorf("the server answered %s with no MCP message (Content-Type %q, Content-Encoding %q)", reply.Status, reply.Header.Get("Content-Type"), reply.Header.Get("Content-Encoding"))
	}
	return errUnanswered
}

// follow passes the messages of a stream on, and of the streams that go on with it
// where it ends early: a server closes one to be asked again later, or the connection
// is lost. It says why nothing more comes.
func (c *overHTTP) follow(x *exchange, reply *transmit.Reply, waits map[string]Frame) error {
	header, stream := reply.Header, newEvents(reply)
	for len(waits) > 0 {
		v, err := stream.next()
		switch {
		case err == nil && (v.name == "" || v.name == "message"):
			c.pass(oneLine(v.data), header, waits)
		case errors.Is(err, ErrLineTooLong): // it would come again
			return cut(err)
		case err != nil:
			rest := c.resume(x.life, stream)
			if rest == nil {
				return cut(err)
			}
			defer rest.Answer()
			id, wait := stream.id, stream.wait
			stream = newEvents(rest)
			stream.id, stream.wait = id, wait
		}
	}
	return errUnanswered
}

// resume is the stream that goes on with one that has ended, nil where there is none.
func (c *overHTTP) resume(ctx context.Context, ended *events) *transmit.Reply {
	if _, version := c.dialect.current(); !listens(version) || ended.id == "" {
		return nil
	}
	wait := max(cmp.Or(ended.wait, listenFirst), resumeLeast)
	for range resumeTries {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
		reply := c.openStream(ctx, ended.id)
		if reply != nil && reply.StatusCode/100 == 2 && media(reply.Header) == "text/event-stream" {
			return reply
		}
		if reply != nil {
			reply.Answer()
			return nil
		}
		wait = min(2*wait, listenMost)
	}
	return nil
}

// refusal passes on what came whole with a 4xx if it is a JSON-RPC error for the
// very request: the server itself has answered then, and revision 2026-07-28
// wants it so. With any other status it is told as lost.
func (c *overHTTP) refusal(reply *transmit.Reply, waits map[string]Frame) {
	body := reply.Answer().Body
	f := Parse(body)
	_, asked := waits[IDKey(f.ID)]
	if reply.StatusCode/100 == 4 && asked && f.Kind == Response && f.Members["error"] != nil && f.Members["result"] == nil {
		c.pass(oneLine(body), reply.Header, waits)
	}
}

// pass hands a line of the server on.
func (c *overHTTP) pass(line []byte, h http.Header, waits map[string]Frame) {
	f := Parse(line)
	for _, e := range append([]Frame{f}, f.Elements...) {
		if e.Kind != Response {
			continue
		}
		if asked, ok := waits[IDKey(e.ID)]; ok {
			c.dialect.learn(asked, h, e)
			delete(waits, IDKey(e.ID))
		}
	}
	c.emit(received{line: line})
}

func media(h http.Header) string {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		kind, _, _ = strings.Cut(h.Get("Content-Type"), ";")
	}
	return strings.ToLower(strings.TrimSpace(kind))
}

func statusError(r *transmit.Reply) error {
	err := fmt.Errorf("the server answered %s", shown(r.Status, maxShown))
	switch {
	case r.StatusCode == http.StatusNotFound && r.Request.Header.Get(headerSession) != "":
		return fmt.Errorf("%w: %w", err, errSession)
	case r.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("%w: it wants a credential%s", err, challenge(r.Header.Get("WWW-Authenticate")))
	case r.StatusCode/100 == 3:
		if to, bad := r.Location(); bad == nil {
			return fmt.Errorf("%w: %w to %s, and a write is not sent to a second place; use that address if it is the server's", err, errRedirect, shown(transmit.WithoutSecrets(to), 4*maxShown))
		}
		return fmt.Errorf("%w: %w, and a write is not sent to a second place", err, errRedirect)
	}
	return err
}

// challenge is what a server says it wants and why it did not take what it got
// (RFC 6750): the scheme and the error's name.
func challenge(header string) string {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(header), " ")
	if scheme == "" {
		return ""
	}
	_, name, found := strings.Cut(rest, `error="`)
	if name, _, _ = strings.Cut(name, `"`); !found || name == "" {
		return " (" + shown(scheme, maxShown) + ")"
	}
	return " (" + shown(scheme, maxShown) + ", " + shown(name, maxShown) + ")"
}

const maxShown = 60 // bytes of a word of the server's in an error

func shown(s string, most int) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s[:min(len(s), most)])
}

func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %w", errUnanswered, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("%w: %w", errUnanswered, err)
}
