package mcpwire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync"
	"time"

	"indoubt/ledger/wire/transmit"
)

const (
	acceptWait  = 10 * time.Second // for the 202 to a notification
	deleteWait  = 2 * time.Second
	maxLostBody = 64 << 10
)

var (
	errSession  = errors.New("the server has ended the session")
	errRedirect = errors.New("it redirects")
)

// overHTTP is a server behind a URL: the streamable HTTP transport, revisions
// 2025-03-26 to 2026-07-28.
type overHTTP struct {
	url    string
	header http.Header
	sender transmit.Sender

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	closed chan struct{}
	once   sync.Once
	busy   sync.WaitGroup
	out    chan received

	dialect  dialect
	renewing sync.Mutex

	mu             sync.Mutex
	streams        map[string]*exchange // of the requests under way, by IDKey
	hello, greeted []byte               // how the client began its session
	listening      bool
}

type received struct {
	line []byte
	err  error
}

// Dial makes a connection to an MCP server over streamable HTTP. Nothing is sent
// yet; an error means that the URL is none. The header is sent with every request;
// what the protocol itself needs goes over it.
//
// Every message is one POST on a connection of its own, transmitted once: there
// are no redirects and no second tries. Where the stream of its answer ends early and
// has said where it was, the rest is asked for (GET), which sends nothing again.
// What the server says comes out of Recv as the JSON text it is; only a text
// that was on several lines is put on one, its line breaks replaced by spaces.
// Of an event stream, only the data of its messages comes out. Where the answer's
// status is no success, its text comes out if it is a JSON-RPC error for the very
// request and the status a 4xx; else the answer is lost.
//
// Send returns when a request has been written, and its answer, or a *Lost,
// comes out of Recv. For a notification or an answer it waits for the server to
// accept it, so that what the client sends next finds it done.
//
// A session that the server has ended is begun anew, as its client began it, and Recv
// tells that the tools may have changed; the request that found it out is told as lost.
//
// From revision 2026-07-28 on, notifications/cancelled is not posted: as that
// revision has it, the stream of the request's answer is closed instead, and
// Recv tells of it as lost.
func Dial(ctx context.Context, address string, header http.Header) (Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not the http or https URL of an MCP server", transmit.WithoutSecrets(u))
	}
	c := &overHTTP{
		url: address, header: header.Clone(), closed: make(chan struct{}),
		out: make(chan received, 16), streams: map[string]*exchange{},
	}
	if c.header == nil {
		c.header = http.Header{}
	}
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return c, nil
}

// exchange is one POST and its answer.
type exchange struct {
	asked   []Frame // the requests in it
	life    context.Context
	written chan struct{}
	head    chan opened
	end     context.CancelCauseFunc
}

// opened is what came of a request up to the head of its answer.
type opened struct {
	reply *transmit.Reply
	sent  bool
	err   error
}

func (c *overHTTP) Send(ctx context.Context, line []byte) (bool, error) {
	if len(line) > MaxLine {
		return false, ErrLineTooLong
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	f := Parse(line)
	if c.cancelled(f) {
		return true, nil
	}
	if !c.enter() {
		return false, ErrClosed
	}
	c.remember(f)
	x := c.post(ctx, f)
	if len(x.asked) == 0 {
		return c.accepted(ctx, f, x)
	}
	select {
	case <-x.written:
		go func() { c.answer(x, <-x.head) }()
		return true, nil
	case o := <-x.head:
		if o.err != nil {
			c.leave(x)
			return o.sent, o.err
		}
		go c.answer(x, o)
		return true, nil
	}
}

// enter counts what Close must wait for, and refuses once it was called.
func (c *overHTTP) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.closed:
		return false
	default:
		c.busy.Add(1)
		return true
	}
}

func (c *overHTTP) leave(x *exchange) {
	x.end(nil)
	c.mu.Lock()
	for _, e := range x.asked {
		if key := IDKey(e.ID); c.streams[key] == x {
			delete(c.streams, key)
		}
	}
	c.mu.Unlock()
	c.busy.Done()
}

// requests are the messages of a line that are to be answered.
func requests(f Frame) []Frame {
	return slices.DeleteFunc(append([]Frame{f}, f.Elements...), func(e Frame) bool { return e.Kind != Request })
}

// post transmits a message. The exchange's written is closed when it has gone
// out whole before any answer; its head gets what came first, an answer or an
// error.
func (c *overHTTP) post(ctx context.Context, f Frame) *exchange {
	x := &exchange{asked: requests(f), written: make(chan struct{}), head: make(chan opened, 1)}
	life, end := context.WithCancelCause(c.ctx)
	x.life, x.end = life, end
	keep := context.AfterFunc(ctx, func() { end(ctx.Err()) })
	life = httptrace.WithClientTrace(life, &httptrace.ClientTrace{
		WroteRequest: func(w httptrace.WroteRequestInfo) {
			if w.Err == nil && keep() { // from here on the sender's context does not end it
				close(x.written)
			}
		},
	})
	c.mu.Lock()
	for _, e := range x.asked {
		c.streams[IDKey(e.ID)] = x
	}
	c.mu.Unlock()
	go func() {
		x.head <- c.open(life, ctx, f)
		keep()
	}()
	return x
}

func (c *overHTTP) open(life, sending context.Context, f Frame) opened {
	req, err := c.request(life, http.MethodPost, f)
	if err != nil {
		return opened{err: err}
	}
	deadline, _ := sending.Deadline()
	reply, a := c.sender.Open(req, transmit.Limits{Deadline: deadline, Timeout: transmit.NoTimeout, MaxBody: maxLostBody})
	if reply == nil {
		if why := context.Cause(life); why != nil && errors.Is(a.Err, context.Canceled) {
			a.Err = why
		}
		return opened{sent: a.Sent, err: a.Err}
	}
	return opened{reply: reply, sent: true}
}

func (c *overHTTP) request(ctx context.Context, method string, f Frame) (*http.Request, error) {
	var body io.Reader
	if f.Raw != nil {
		body = bytes.NewReader(f.Raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url, body)
	if err != nil {
		return nil, err
	}
	req.Header = c.header.Clone()
	req.Header.Set("Accept-Encoding", "identity") // without a word of it, any coding is welcome
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
	} else {
		req.Header.Set("Accept", "text/event-stream")
	}
	c.dialect.put(req.Header, f)
	return req, nil
}

func (c *overHTTP) emit(r received) {
	select {
	case c.out <- r:
	case <-c.ctx.Done():
	}
}

func (c *overHTTP) Recv() ([]byte, error) {
	select {
	case r := <-c.out:
		return r.line, r.err
	case <-c.ctx.Done():
		return nil, ErrClosed
	}
}

// cancelled closes the stream of the request that a notification cancels, where
// that is how the revision says it.
func (c *overHTTP) cancelled(f Frame) bool {
	if f.Method != "notifications/cancelled" || f.Kind != Notification {
		return false
	}
	if _, version := c.dialect.current(); version < stateless {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.streams[IDKey(f.Params["requestId"])]; x != nil {
		x.end(errCancelled)
	}
	return true
}

var errCancelled = errors.New("the client cancelled it")

// Close ends the session and every exchange that is under way.
func (c *overHTTP) Close() error {
	c.once.Do(func() {
		c.mu.Lock() // after it none is added
		close(c.closed)
		c.mu.Unlock()
		if session, _ := c.dialect.current(); session != "" {
			c.sayGoodbye()
		}
		c.cancel()
	})
	c.busy.Wait()
	return nil
}

func (c *overHTTP) sayGoodbye() {
	req, err := c.request(c.ctx, http.MethodDelete, Frame{})
	if err != nil {
		return
	}
	if reply, _ := c.sender.Open(req, transmit.Limits{Timeout: deleteWait}); reply != nil {
		reply.Answer()
	}
}
