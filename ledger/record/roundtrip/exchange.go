package roundtrip

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
	"indoubt/ledger/record"
	"indoubt/ledger/wire/transmit"
)

const (
	// atOnce is the length of an answer, in bytes, up to which it is handed out
	// whole, when it says how long it is: if it breaks off, that can still be said.
	atOnce = 64 << 10
	// closeWait is how long closing a body early waits for the rest to be recorded.
	closeWait = time.Second
)

// exchange is one attempt of a write: a transmission and its answer.
type exchange struct {
	w     *httpWrite
	begun record.Begun

	reply    *transmit.Reply
	progress atomic.Int64 // bytes of the answer that came
	outcome  ledger.SettleRequest
	gone     atomic.Bool // the caller is, before the end of the answer
	handing  atomic.Bool // a part of the answer waits for the caller to read it
	letGo    func(error) // of a caller that does not
	whole    bool        // the answer is handed out whole and settled, not as it comes
}

// head is what an exchange has to say first: an answer, or what went wrong.
type head struct {
	resp   *http.Response
	again  bool // it is settled, and its caller is still there
	answer ledger.Answer
	err    error
}

// run transmits. When the caller goes, the exchange goes on without it.
func (x *exchange) run(ctx, base context.Context) head {
	t := x.w.t
	// The values of the caller's context, the end of the transport's.
	life, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(base, func() { cut(context.Cause(base)) })
	out := x.outgoing(life) // while the request is still ours to read
	heads := make(chan head, 1)
	t.live.Add(1)
	x.w.body.hold()
	go func() {
		defer t.live.Done()
		defer x.w.body.letGo()
		defer cut(nil)
		defer unhook()
		x.exchange(ctx, base, out, heads)
	}()
	select {
	case h := <-heads:
		return h
	case <-ctx.Done():
	}
	x.gone.Store(true)
	go func() { // the same request finds the answer in the ledger
		if h := <-heads; h.resp != nil {
			h.resp.Body.Close()
		}
	}()
	return head{err: context.Cause(ctx)}
}

// exchange sends, tells the head of the answer, and stays until it is settled.
func (x *exchange) exchange(ctx, base context.Context, out *http.Request, heads chan<- head) {
	until := x.begun.Until
	reply, a := x.w.t.Sender.Open(out, transmit.Limits{Deadline: time.Now().Add(until.Left()), MaxBody: outcome.MaxJudged})
	if reply == nil {
		heads <- x.conclude(a, nil)
		return
	}
	x.reply = reply
	x.w.t.redirects.keep(x.w, out.URL, x.begun.Operation.ID, reply.Response)
	if reply.StatusCode < 200 { // it is no answer
		heads <- x.conclude(reply.Answer(), nil)
		return
	}
	if n := reply.ContentLength; n >= 0 && n <= atOnce {
		body, _ := io.ReadAll(reply)
		heads <- x.conclude(reply.Answer(), body)
		return
	}
	pr, pw := io.Pipe()
	done := make(chan struct{})
	defer close(done)
	for _, end := range []context.Context{ctx, base} {
		defer context.AfterFunc(end, func() { pr.CloseWithError(context.Cause(end)) })()
	}
	x.letGo = func(why error) { pr.CloseWithError(why) }
	body := &answerBody{PipeReader: pr, x: x, ctx: ctx, done: done}
	body.resp = x.response(body) //nolint:bodyclose // the caller closes it
	heads <- head{resp: body.resp}
	x.stream(until, pw)
}

// outgoing is the request as it is sent: with the key and the token where the
// policy says, and without what is for this transport alone.
func (x *exchange) outgoing(ctx context.Context) *http.Request {
	w, o := x.w, x.begun.Operation
	out := w.req.Clone(ctx)
	if w.to != nil {
		to := *w.to
		out.URL = &to
	}
	body := w.body.data
	if w.request.TokenSent {
		with, _ := withToken(out, body, w.rule, o.Token)
		body, out.URL.RawQuery = with.body, with.query
	}
	out.Body, out.ContentLength, out.TransferEncoding = http.NoBody, int64(len(body)), nil
	if len(body) > 0 {
		out.Body = io.NopCloser(bytes.NewReader(body))
	}
	if out.Header == nil {
		out.Header = http.Header{}
	}
	for _, name := range []string{HeaderSource, HeaderSession, "Expect"} {
		out.Header.Del(name)
	}
	out.Header.Set("Accept-Encoding", "identity") // what is kept should be readable
	if w.rule.KeyHeader != "" {
		out.Header.Set(w.rule.KeyHeader, o.KeyToSend())
	}
	if key, _ := givenKey(w.req.Header, HeaderKey); key != "" && key != o.KeyToSend() { // the first attempt had another one
		out.Header.Set(HeaderKey, o.KeyToSend())
	}
	return out
}

// stream hands the body out as it comes and settles before its end is out: with
// a known length before the last bytes, else before the end is said.
func (x *exchange) stream(until record.SendDeadline, to *io.PipeWriter) {
	beating := make(chan struct{})
	defer close(beating)
	go x.beat(until, beating)
	buf := make([]byte, 32<<10)
	left := x.reply.ContentLength
	for {
		n, err := x.reply.Read(buf)
		x.progress.Add(int64(n))
		if left >= 0 {
			if left -= int64(n); left == 0 && err == nil {
				_, err = x.reply.Read(make([]byte, 1))
			}
		}
		if err != nil {
			x.settle(x.reply.Answer())
		}
		if n > 0 {
			x.handing.Store(true)
			_, gone := to.Write(buf[:n])
			x.handing.Store(false)
			if gone != nil {
				x.gone.Store(true)
			}
		}
		if err != nil {
			to.CloseWithError(err)
			return
		}
	}
}

// beat keeps the attempt alive while an answer keeps coming and the caller reads
// it. A caller that stops reading is let go, so that the rest can be recorded in time. When
// the ledger does not let it go on, the exchange ends at the deadline.
func (x *exchange) beat(until record.SendDeadline, over <-chan struct{}) {
	ticker := time.NewTicker(until.Every())
	defer ticker.Stop()
	var seen int64
	for {
		select {
		case <-over:
			return
		case <-ticker.C:
		}
		came := x.progress.Load()
		if came == seen && x.handing.Load() && !x.gone.Load() {
			x.gone.Store(true)
			x.letGo(errNotRead)
		}
		if came == seen || x.gone.Load() || until.Left() <= 0 {
			continue
		}
		seen = came
		asked := until.Now()
		ctx, cancel := context.WithTimeout(context.Background(), until.Left())
		deadline, err := ledger.Heartbeat(ctx, x.w.t.Recorder.Store(), x.begun.Attempt.ID, until.Length())
		cancel()
		if err == nil {
			until.Extend(asked, deadline)
			x.reply.Extend(time.Now().Add(until.Left()))
		}
	}
}

var errNotRead = errors.New("the answer was not read in time")

func (x *exchange) response(body io.ReadCloser) *http.Response {
	resp := *x.reply.Response
	resp.Header, resp.Trailer = resp.Header.Clone(), resp.Trailer.Clone() // the connection still writes its own
	resp.Header.Set(HeaderOperation, x.begun.Operation.ID)
	resp.Body, resp.Request = body, x.w.req
	return &resp
}

// conclude settles an exchange whose answer is all there, or did not come.
func (x *exchange) conclude(a ledger.Answer, body []byte) head {
	o, err := x.settle(a)
	x.whole = true
	doubt := ledger.BeginResult{Answer: ledger.AnswerInDoubt, Operation: o}
	h := head{again: err == nil && !x.gone.Load(), answer: a}
	switch {
	case a.Status != 0 && a.Err == nil: // the truth, also where the ledger could not take it
		h.resp = x.response(io.NopCloser(bytes.NewReader(body))) //nolint:bodyclose // the caller closes it
	case x.outcome.Outcome == ledger.OutcomeFailed && o.State != ledger.Failed: // an earlier attempt is in doubt
		h.err = &record.AnswerError{BeginResult: doubt, Err: a.Err}
	case x.outcome.Outcome == ledger.OutcomeFailed:
		h.err = &record.FailedError{Operation: o, Proof: x.outcome.Proof, Err: a.Err}
	default:
		h.err = &record.AnswerError{BeginResult: doubt, Err: &LostError{x.outcome.ErrorClass, a.Err}}
	}
	return h
}

// settle records what became of the attempt and reports it. It returns the
// operation as it stands then.
func (x *exchange) settle(a ledger.Answer) (ledger.Operation, error) {
	r := x.w.t.Recorder
	ctx := context.Background()
	id := x.begun.Attempt.ID
	a = outcome.Readable(a)
	x.outcome = outcome.JudgeAttempt(ctx, x.w.rule.Judge, r.ToJudge(ctx, x.begun), id, a)
	if a.Status != 0 {
		x.outcome.Result = outcome.Stored(a, r.Secrets(id))
	}
	x.outcome.ChangeID = ledger.NewID()
	applied, err := r.SettleSurely(ctx, x.outcome)
	report := Report{OperationID: x.begun.Operation.ID, What: string(x.outcome.Outcome), Status: a.Status, Why: x.outcome.Error}
	o := applied.After
	if err != nil {
		report.Why = strings.TrimSuffix("the outcome could not be recorded: "+err.Error()+": "+report.Why, ": ")
	}
	if o.ID == "" {
		o = x.begun.Operation
	}
	x.w.report(report)
	return o, err
}

type answerBody struct {
	*io.PipeReader
	x     *exchange
	resp  *http.Response
	ctx   context.Context
	done  <-chan struct{}
	once  sync.Once
	known <-chan struct{} // closed when what came of the delivery is noted
}

func (b *answerBody) Read(p []byte) (int, error) {
	n, err := b.PipeReader.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.resp.Trailer = b.x.reply.Trailer.Clone()
		<-b.deliver()
	case errors.Is(err, io.ErrClosedPipe) && b.ctx.Err() != nil:
		err = context.Cause(b.ctx)
	case errors.Is(err, io.ErrClosedPipe) && b.x.gone.Load():
		err = errNotRead
	}
	return n, err
}

// Close leaves the rest of the answer to be recorded, and waits a moment for it.
func (b *answerBody) Close() error {
	known := b.deliver()
	err := b.PipeReader.Close()
	timer := time.NewTimer(closeWait)
	defer timer.Stop()
	select {
	case <-known:
	case <-b.ctx.Done():
	case <-timer.C:
	}
	return err
}

// deliver notes, once the answer is recorded, whether the caller had as much of it as it
// wanted. The next request like it waits for that.
func (b *answerBody) deliver() <-chan struct{} {
	b.once.Do(func() {
		t, o := b.x.w.t, b.x.begun.Operation
		if t.Undelivered != nil || !o.Undelivered {
			b.known = b.done
			return
		}
		b.known = t.expect(o.ID)
		arrived := b.ctx.Err() == nil
		go func() {
			<-b.done
			t.Delivered(o.ID, arrived)
		}()
	})
	return b.known
}
