package connect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"indoubt/ledger"
	"indoubt/ledger/wire/mcpwire"
	"indoubt/ledger/wire/transmit"
	"indoubt/policy/transport"
)

const (
	serverGrace = time.Second     // for a server to go by itself, and again after SIGTERM
	noticeWait  = 5 * time.Second // to write a notification
	maxSaid     = 4 << 10         // bytes kept of a server's standard error
)

// mcpTransport carries the SDK's messages over mcpwire, which transmits each
// once, says truly whether it did, and hands answers on as they came: the SDK
// would round large numbers.
type mcpTransport struct {
	define  transport.MCPRequest
	changed func() // the server's tools changed
	conn    *mcpConn
}

func (t *mcpTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	c := &mcpConn{changed: t.changed, said: tail{max: maxSaid}, waiting: map[string]waiting{}, writes: map[string]bool{}}
	var err error
	if d := t.define; len(d.Command) > 0 {
		c.wire, err = mcpwire.Start(ctx, mcpwire.StdioOptions{
			Argv: d.Command, Dir: d.Dir, Env: append(os.Environ(), d.Env...), Stderr: &c.said, Grace: serverGrace,
		})
	} else {
		c.wire, err = mcpwire.Dial(ctx, d.URL, d.Header)
	}
	if err != nil {
		return nil, err
	}
	t.conn = c
	return c, nil
}

// mcpConn is one connection.
type mcpConn struct {
	wire    mcpwire.Conn
	changed func()
	said    tail              // what it wrote last to its standard error
	queue   []jsonrpc.Message // of a batch, for Read

	mu      sync.Mutex
	waiting map[string]waiting // requests without an answer, by id
	writes  map[string]bool    // ids of writes: they are not cancelled
	over    error              // why nothing more comes
}

// waiting is a request without an answer; call is set for a call of a tool.
type waiting struct {
	id   jsonrpc.ID
	call *mcpCall
}

// mcpCall is one call of a tool and what became of it. The connection's mutex
// guards it.
type mcpCall struct {
	deadline time.Time
	write    bool

	sent   bool
	answer *mcpwire.Frame
	lost   *mcpwire.Lost
}

type callKey struct{}

// call calls a tool and reads its answer up to the bound.
func (s *mcpSession) call(ctx context.Context, q transport.MCPRequest, a ledger.Answer, write bool) ledger.Answer {
	c := &mcpCall{deadline: q.Deadline, write: write}
	params := &mcp.CallToolParams{Name: q.Tool}
	if len(q.Arguments) > 0 {
		params.Arguments = q.Arguments
	}
	_, err := s.client.CallTool(context.WithValue(ctx, callKey{}, c), params)
	s.conn.forget(c)
	a.Sent = c.sent
	switch {
	case c.answer != nil:
		a.Sent = true
		a.RPC, a.Truncated = rpcAnswer(*c.answer, q.Max)
		a.RPC.Tool = q.Tool
		a.EndedAt = time.Now()
		return a
	case c.lost != nil:
		a.Status, a.Body, err = c.lost.Status, c.lost.Body, c.lost
	case err == nil:
		err = errors.New("the MCP server gave no answer")
	}
	if !errors.Is(err, context.Canceled) {
		s.fail()
	}
	a = failed(a, ctx, s.conn.explain(err))
	a.Truncated = errors.Is(s.conn.ended(), mcpwire.ErrLineTooLong)
	if a.Sent && a.Class == "" && a.Status == 0 {
		a.Class = ledger.ClassEOF
	}
	return a
}

func (c *mcpConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	line, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	f := mcpwire.Parse(line)
	if f.Kind != mcpwire.Request {
		if f.Method == "notifications/cancelled" && c.isWrite(f.Params["requestId"]) {
			return nil // a server that is told so may stop half-way, and never answer
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noticeWait)
		defer cancel()
		_, err := c.wire.Send(ctx, line)
		return err
	}
	call, _ := ctx.Value(callKey{}).(*mcpCall)
	key := mcpwire.IDKey(f.ID)
	c.mu.Lock()
	c.waiting[key] = waiting{msg.(*jsonrpc.Request).ID, call}
	if call != nil && call.write {
		c.writes[key] = true
	}
	c.mu.Unlock()
	sent := false
	if call != nil && transmit.Past(call.deadline) {
		err = transmit.ErrPastDeadline
	} else {
		sent, err = c.wire.Send(ctx, line)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if call != nil {
		call.sent = sent
	}
	if err != nil {
		delete(c.waiting, key)
	}
	return err
}

func (c *mcpConn) Read(context.Context) (jsonrpc.Message, error) {
	for {
		if len(c.queue) > 0 {
			next := c.queue[0]
			c.queue = c.queue[1:]
			return next, nil
		}
		line, err := c.wire.Recv()
		var lost *mcpwire.Lost
		switch {
		case errors.As(err, &lost):
			if w, ok := c.answered(lost.ID, func(call *mcpCall) { call.lost = lost }); ok {
				return refusal(w.id, lost), nil
			}
			continue
		case err != nil:
			c.mu.Lock()
			c.over = err
			c.mu.Unlock()
			return nil, err
		}
		f := mcpwire.Parse(line)
		c.take(f)
		for _, e := range f.Elements {
			c.take(e)
		}
	}
}

// take puts a message of the server into the queue and ignores any other text.
func (c *mcpConn) take(f mcpwire.Frame) {
	switch f.Kind {
	case mcpwire.Response:
		w, ok := c.answered(f.ID, func(call *mcpCall) { call.answer = &f })
		if !ok {
			return
		}
		if w.call != nil { // it has what it wants; the SDK need not understand it
			c.queue = append(c.queue, &jsonrpc.Response{ID: w.id, Result: json.RawMessage(`{"content":[]}`)})
			return
		}
		msg, err := jsonrpc.DecodeMessage(f.Raw)
		if err != nil {
			msg = refusal(w.id, err)
		}
		c.queue = append(c.queue, msg)
	case mcpwire.Request, mcpwire.Notification:
		// A handler of the SDK would keep a request open to hear of it.
		if f.Method == "notifications/tools/list_changed" {
			go c.changed()
		}
		if msg, err := jsonrpc.DecodeMessage(f.Raw); err == nil {
			c.queue = append(c.queue, msg)
		}
	}
}

func refusal(id jsonrpc.ID, err error) *jsonrpc.Response {
	return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}}
}

// answered takes a request out of those that wait.
func (c *mcpConn) answered(id json.RawMessage, note func(*mcpCall)) (waiting, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := mcpwire.IDKey(id)
	w, ok := c.waiting[key]
	delete(c.waiting, key)
	if ok && w.call != nil {
		note(w.call)
	}
	return w, ok
}

// forget lets nothing more change a call.
func (c *mcpConn) forget(call *mcpCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, w := range c.waiting {
		if w.call == call {
			delete(c.waiting, key)
		}
	}
}

func (c *mcpConn) isWrite(id json.RawMessage) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes[mcpwire.IDKey(id)]
}

// ended is why nothing more comes from the server, or nil.
func (c *mcpConn) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

func (c *mcpConn) Close() error      { return c.wire.Close() }
func (c *mcpConn) SessionID() string { return "" }

// explain adds what the server said last, where it has gone.
func (c *mcpConn) explain(err error) error {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(c.said.bytes()), "?")), " ")
	if len(text) > 300 {
		text = "…" + strings.ToValidUTF8(text[len(text)-300:], "")
	}
	if text != "" && c.ended() != nil {
		err = fmt.Errorf("%w; the server said: %s", err, text)
	}
	return err
}

// rpcAnswer is the answer in a response. A result above the bound is left out.
func rpcAnswer(f mcpwire.Frame, bound int64) (a *ledger.RPCAnswer, cut bool) {
	bound = cmp.Or(bound, transmit.DefaultMaxBody)
	if said, ok := f.Members["error"]; ok {
		var e struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		}
		_ = json.Unmarshal(said, &e)
		if int64(len(e.Message)) > bound {
			e.Message, cut = strings.ToValidUTF8(e.Message[:bound], ""), true
		}
		return &ledger.RPCAnswer{Error: true, Code: e.Code, Message: e.Message}, cut
	}
	result := f.Members["result"]
	if int64(len(result)) <= bound {
		return &ledger.RPCAnswer{Result: result}, false
	}
	return &ledger.RPCAnswer{}, true
}
