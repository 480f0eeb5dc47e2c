package mcpproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
	"indoubt/ledger/record"
	"indoubt/ledger/wire/mcpwire"
)

type toolCall struct {
	frame     mcpwire.Frame
	tool      string
	arguments json.RawMessage // as they came; "{}" where there are none
	meta      json.RawMessage
}

// call is one tools/call of the client, on its way to the server or to an answer.
type call struct {
	toolCall
	p    *Proxy
	what string // digest of tool and arguments: what identical calls share

	ctx    context.Context // ends when no client waits for its answer any more
	giveUp context.CancelFunc

	ready   chan struct{} // closed when it is known whether it is sent in its turn
	readied sync.Once
	inTurn  bool          // it is, by the forwarder; set before ready is closed
	settled chan struct{} // closed when transmit has ended without sending it
	told    chan struct{} // closed when the first reply, or that there is none, has been dealt with
	replies chan reply    // the first one
	rule    record.KindRule
	line    []byte // as it is sent
	op      ledger.Operation
	attempt ledger.Attempt
	until   time.Time // no first byte after this
	patient bool      // it waits for what another one did, and its context ends in time

	// Under Proxy.mu.
	write     bool // it is recorded
	sent      bool // it may have left
	heard     bool // the server has answered, or will not
	cancelled bool // the client does not want the answer any more
	answered  bool // the client has been given one
	over      bool // replies are no longer read
	ended     bool // its id is free again
}

func (p *Proxy) newCall(f mcpwire.Frame) *call {
	c := &call{p: p, toolCall: toolCall{frame: f, tool: f.Name(), arguments: f.Params["arguments"], meta: f.Params["_meta"]},
		ready: make(chan struct{}), settled: make(chan struct{}), told: make(chan struct{}), replies: make(chan reply, 1)}
	if mcpwire.Absent(c.arguments) {
		c.arguments = json.RawMessage("{}")
	}
	c.ctx, c.giveUp = context.WithCancel(p.leaving)
	return c
}

const kindPrefix = "mcp."

func (c *call) kind() string { return kindPrefix + c.p.o.Server + "." + c.tool }

// startCall decides on a call beside the lines that follow it. It reports false
// when the proxy is about to end.
func (p *Proxy) startCall(c *call) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing {
		return false
	}
	p.calls.Go(func() {
		defer c.giveUp()
		defer c.aside()
		c.decide()
	})
	return true
}

// aside lets the lines behind the call pass.
func (c *call) aside() { c.readied.Do(func() { close(c.ready) }) }

func (c *call) decide() {
	if _, taken := c.p.tools.known(c.p.status); c.tool == c.p.status && !taken {
		c.aside()
		c.end(c.standings())
		return
	}
	c.rule = c.p.o.Recorder.Rule(c.kind())
	reads := c.rule.Access == "read"
	if c.rule.Access == "" {
		reads, _ = c.p.tools.known(c.tool)
	}
	if reads {
		c.pass()
		return
	}
	if !c.recordIt() {
		c.p.unboard(c) // it was cancelled while it was decided on
		return
	}
	c.record()
}

// pass sends a call on that only reads.
func (c *call) pass() {
	if c.isCancelled() {
		c.p.unboard(c)
		return
	}
	c.line, c.inTurn = c.frame.Raw, true
	c.aside()
}

// recordIt marks the call as a recorded one, unless it was cancelled before.
func (c *call) recordIt() bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.write = !c.cancelled
	return c.write
}

func (c *call) recorded() bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return c.write
}

func (c *call) isCancelled() bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	return c.cancelled
}

func (c *call) request() (record.Request, error) {
	w := record.Request{Kind: c.kind(), Scope: c.p.o.Scope, Session: c.p.session, Client: c.client(), Input: c.arguments, Sender: "mcp",
		Asked:    "mcp\n" + c.p.o.Server + "\n" + c.what,
		Deadline: c.p.o.Deadline, AwaitsDelivery: true}
	_, w.TokenSent = withToken(c.frame.Raw, c.arguments, c.rule, ledger.NewToken()) // one that cannot be there already
	key, err := keyIn(c.frame.Params["idempotencyKey"], c.meta)
	w.Key, w.KeySent = key, key != ""
	if err == nil && utf8.RuneCountInString(w.Kind) > maxKind {
		err = errors.New("the tool's name is too long to be recorded")
	}
	return w, err
}

const (
	maxKind = 200  // characters that the ledger takes
	maxKey  = 1000 // bytes of a key that a client may give
)

// keyIn is the idempotency key that a client put beside the arguments or into _meta, a
// text or a number. One that cannot be a key is an error, and so are two: the client
// counts on it.
func keyIn(beside, meta json.RawMessage) (found string, err error) {
	m, _ := mcpwire.Members(meta)
	for _, given := range []struct {
		place string
		value json.RawMessage
	}{{"params.idempotencyKey", beside}, {"_meta.indoubt/key", m["indoubt/key"]}, {"_meta.idempotency-key", m["idempotency-key"]}, {"_meta.idempotencyKey", m["idempotencyKey"]}} {
		if mcpwire.Absent(given.value) {
			continue
		}
		key := mcpwire.Text(given.value)
		if c := given.value[0]; c == '-' || c >= '0' && c <= '9' {
			key = string(given.value)
		}
		switch {
		case strings.TrimSpace(key) == "":
			return "", fmt.Errorf("%s must be a string that is not blank, or a number", given.place)
		case len(key) > maxKey:
			return "", fmt.Errorf("%s is longer than %d bytes", given.place, maxKey)
		case found != "" && key != found:
			return "", fmt.Errorf("%s names another key than the one before it", given.place)
		}
		found = key
	}
	return found, nil
}

// record begins the call in the ledger, and sends it or answers it from there.
func (c *call) record() {
	fingerprint, unfit := ledger.Fingerprint(c.arguments)
	c.what = c.tool + "\x00" + fingerprint
	w, err := c.request()
	if err = errors.Join(err, unfit); err != nil {
		c.end(c.failure(codeParams, "bad_request", "", "not sent: "+err.Error()))
		return
	}
	c.p.deliveries.flushed(c.ctx, c.what)
	if c.resumes() && c.resume(w) {
		return
	}
	for looked := false; ; {
		// Not under the call's context: who cancels must not leave it open whether
		// something was recorded.
		res, err := c.p.o.Recorder.BeginToSend(c.p.ctx, w)
		switch {
		case err != nil:
			c.unrecorded(err)
			return
		case res.Answer == ledger.AnswerBegun:
			c.begun(res)
			return
		case res.Answer == ledger.AnswerFinished:
			c.replay(res.Operation)
			return
		case res.Answer == ledger.AnswerInDoubt && !looked && !res.Like && c.ctx.Err() == nil:
			looked = true // one read; the lines behind do not wait for it
			c.keepWaiting()
			if err := c.p.o.Recorder.ReadNow(c.ctx, res.Operation.ID); err != nil {
				if res.Why = "it cannot be checked: " + record.ToCaller(err); !errors.Is(err, ledger.ErrRefused) {
					c.p.o.Log("an earlier call could not be checked: " + err.Error())
				}
				c.end(c.held(res.BeginResult))
				return
			}
		case res.Answer == ledger.AnswerInProgress:
			c.keepWaiting()
			if answer := c.await(res.Operation); answer != nil {
				c.end(answer)
				return
			}
		default:
			c.end(c.held(res.BeginResult))
			return
		}
		w.Follows = res.Operation.ID // what came of that attempt is this call's answer too
	}
}

// keepWaiting lets the lines behind the call pass, and bounds from the first time on
// how long the call waits: clients give up after a minute, and would never hear what
// became of it.
func (c *call) keepWaiting() {
	c.aside()
	if c.patient {
		return
	}
	c.patient = true
	patience := time.AfterFunc(c.p.o.HoldPatience, c.giveUp)
	context.AfterFunc(c.ctx, func() { patience.Stop() })
}

// await waits while another caller's attempt is in flight. It returns an answer
// where waiting would be in vain.
func (c *call) await(o ledger.Operation) []byte {
	for {
		if outcome.AwaitedInput(o.Awaits) {
			if question := c.question(o); question != nil {
				return question
			}
			return c.waiting(o, "it was answered with a question, and waits for the call that answers it")
		}
		ctx, cancel := context.WithTimeout(c.ctx, time.Second)
		now, err := c.p.o.Recorder.Wait(ctx, ledger.Locator{ID: o.ID})
		cancel()
		switch {
		case err == nil:
			return nil
		case c.ctx.Err() != nil:
			return c.waiting(o, "it has not ended yet")
		case !errors.Is(err, context.DeadlineExceeded):
			c.p.o.Log("the ledger cannot be read: " + err.Error())
			return c.failure(codeInternal, "in_progress", o.ID, record.ToCaller(err))
		}
		if now.ID != "" {
			o = now
		}
	}
}

// begun sends the call: in its turn, or at once where its turn has passed.
func (c *call) begun(res record.Begun) {
	c.op, c.attempt = res.Operation, res.Attempt
	c.until = time.Now().Add(res.Until.Left())
	c.line, _ = withToken(c.frame.Raw, c.arguments, c.rule, c.op.Token)
	c.dispatch()
}

// dispatch hands the call to the forwarder and sees it to its end.
func (c *call) dispatch() {
	defer close(c.told)
	if isClosed(c.ready) {
		c.transmit()
	} else {
		c.inTurn = true
		c.aside()
	}
	deadline := time.NewTimer(time.Until(c.until))
	defer deadline.Stop()
	var r reply
	select {
	case <-c.settled: // it was not sent, and has been answered
		return
	case r = <-c.replies:
	case <-deadline.C:
		r = c.lastWord(errors.New("no answer before the deadline"), ledger.ClassDeadline)
	case <-c.p.gone:
		r = c.lastWord(c.p.whyGone(), ledger.ClassEOF)
	case <-c.p.ctx.Done():
		r = c.lastWord(errors.New("the proxy ended before the answer came"), ledger.ClassKilled)
	}
	c.finish(r)
}

// lastWord is a reply that came just in time, else why none did. From then on the
// call is not sent any more.
func (c *call) lastWord(why error, class ledger.ErrorClass) reply {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	select {
	case r := <-c.replies:
		return r
	default:
	}
	c.over = true
	a := ledger.Answer{Via: "mcp", Sent: c.sent, Err: why}
	if c.sent {
		a.Class = class
	}
	return reply{answer: a}
}

// transmit puts the call's line on the wire, once, unless its time is over.
func (c *call) transmit() {
	if !c.recorded() {
		c.p.passOn(c.frame, c.line)
		return
	}
	ctx, cancel := context.WithDeadline(c.p.ctx, c.until)
	defer cancel()
	var sent bool
	err := c.p.startErr
	switch {
	case err != nil:
	case isClosed(c.p.gone):
		err = c.p.whyGone()
	case !c.maySend():
		err = errors.New("its deadline passed, or it was cancelled, before it could be sent")
	default:
		sent, err = c.p.conn.Send(ctx, c.line)
		c.p.tellEnded(err)
	}
	switch {
	case err == nil:
	case sent:
		c.hear(reply{answer: ledger.Answer{Via: "mcp", Sent: true, Err: err, Class: ledger.ClassReset}})
	default:
		c.neverSent(err)
	}
}

// maySend claims the one transmission.
func (c *call) maySend() bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.cancelled || c.over || c.sent {
		return false
	}
	c.sent = true
	return true
}

func (c *call) neverSent(err error) {
	c.p.mu.Lock()
	c.sent = false // its id is free again: nothing will answer it
	c.p.mu.Unlock()
	s := outcome.JudgeAttempt(c.p.ctx, c.rule.Judge, ledger.Record{Found: true, Operation: c.op}, c.attempt.ID, ledger.Answer{Via: "mcp", Err: err})
	if _, err := c.p.settle(s); err != nil {
		c.p.o.Log("not sent, but that could not be recorded: " + err.Error())
	}
	c.end(c.failure(codeInternal, "never_sent", c.op.ID, "not sent: "+err.Error()))
	close(c.settled)
}

// hear takes a reply: the first for the waiting call, any other as a late one.
func (c *call) hear(r reply) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if !c.sent {
		c.p.o.Log("the server answered a call that it had not been sent: " + string(c.frame.ID))
		return
	}
	first := !c.heard
	c.heard = true
	switch {
	case c.over:
		c.free()
	case first:
		c.replies <- r
		return
	}
	c.p.recording.Go(func() {
		<-c.told
		c.late(r)
	})
}

// claim takes the right to answer the client, which there is once.
func (c *call) claim() bool {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if c.answered {
		return false
	}
	c.answered = true
	return !c.cancelled
}

// end answers the client and frees the request's id.
func (c *call) end(line []byte) bool {
	c.aside()
	mine := c.claim()
	c.close() // before the client can use the id again
	return mine && c.p.reply(line)
}

func (c *call) close() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.over = true
	c.free()
}

// free gives the request's id free, unless the server may still answer it: that
// answer would be taken for the next call's. An answered call is remembered for
// a while, so that a second answer is not passed on.
func (c *call) free() {
	p, key := c.p, mcpwire.IDKey(c.frame.ID)
	switch {
	case c.ended:
	case !c.sent:
		c.ended = true
		if fl := p.flights[key]; fl != nil && fl.call == c {
			delete(p.flights, key)
		}
	case c.heard:
		c.ended = true
		if p.ended = append(p.ended, key); len(p.ended) > keptCalls {
			if fl := p.flights[p.ended[0]]; fl != nil && fl.ended() {
				delete(p.flights, p.ended[0])
			}
			p.ended = p.ended[1:]
		}
	}
}

// cancelled looks at a client's notifications/cancelled, and reports whether it
// stays here: what is recorded is finished and recorded, also when no client waits for it.
func (p *Proxy) cancelled(f mcpwire.Frame) bool {
	id := f.Params["requestId"]
	p.mu.Lock()
	fl := p.flights[mcpwire.IDKey(id)]
	if fl == nil || fl.call == nil || fl.ended() || len(id) == 0 {
		p.mu.Unlock()
		return false
	}
	c := fl.call
	c.cancelled = true
	passes := !c.write && isClosed(c.ready)
	p.mu.Unlock()
	c.giveUp()
	return !passes
}
