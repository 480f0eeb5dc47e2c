package roundtrip

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
	"indoubt/ledger/record"
	"indoubt/ledger/redact"
	"indoubt/ledger/wire/transmit"
)

// readPatience bounds the look at the downstream when the operation is in doubt.
const readPatience = 20 * time.Second

// deliveryPatience is how long a request waits to see whether the answer of the one
// before it arrives.
const deliveryPatience = 30 * time.Second

type httpWrite struct {
	t     *Transport
	req   *http.Request
	kind  string
	rule  record.KindRule
	began time.Time

	body    *spooled
	request record.Request
	key     string        // that the caller gave; "": none
	to      *url.URL      // where it goes, of one that follows a redirect; nil: where req says
	first   *http.Request // whose redirect it follows, where it goes out beside that one
}

// do answers the request, by sending it or from the ledger.
func (w *httpWrite) do() (*http.Response, error) {
	err := w.prepare()
	if w.body != nil {
		defer w.body.letGo()
	}
	if err != nil {
		what := "bad_request"
		if taken := (*NotTakenError)(nil); errors.As(err, &taken) && taken.Problem == "not_recorded" {
			what = taken.Problem
		}
		w.report(Report{What: what, Why: err.Error()})
		return nil, err
	}
	ctx := w.req.Context()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	base, err := w.t.enter()
	if err != nil {
		w.report(Report{What: "not_recorded", Why: err.Error()})
		return nil, notRecorded(err)
	}
	defer w.t.live.Done()
	pausing, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(base, stop)()
	for looked := false; ; {
		res, err := w.begin(ctx)
		var none *record.NoKeyError
		if errors.As(err, &none) {
			w.report(Report{What: "bad_request", Why: err.Error()})
			return nil, &NotTakenError{Problem: "key_missing", Why: err.Error()}
		}
		if err != nil {
			w.report(Report{What: "not_recorded", Why: err.Error()})
			return nil, notRecorded(err)
		}
		if w.mayBeDelivered(res) && !looked {
			known := w.t.delivering(res.Operation.ID)
			if known == nil { // it is not being delivered, or no longer is
				looked = true
				continue
			}
			select { // in a moment it is delivered, or this request's
			case <-known:
				continue
			case <-pausing.Done():
				if ctx.Err() == nil {
					return nil, notRecorded(ErrShutdown)
				}
				return nil, context.Cause(ctx)
			case <-time.After(deliveryPatience):
				busy := res.BeginResult
				busy.Answer = ledger.AnswerInProgress
				return nil, &record.AnswerError{BeginResult: busy}
			}
		}
		if res.Answer != ledger.AnswerBegun {
			return w.notSent(res.BeginResult)
		}
		return w.send(ctx, base, pausing, res)
	}
}

// send transmits the attempt that was begun, and those that may follow it by themselves.
func (w *httpWrite) send(ctx, base, pausing context.Context, begun record.Begun) (*http.Response, error) {
	for {
		x := &exchange{w: w, begun: begun}
		h := x.run(ctx, base)
		if h.again {
			next, ok := w.t.Recorder.Again(pausing, begun, x.outcome, h.answer, w.request)
			switch {
			case ok && next.Answer != ledger.AnswerBegun:
				return w.notSent(next.BeginResult)
			case ok:
				begun = next
				continue
			}
		}
		if h.resp != nil && begun.Operation.Undelivered && (w.t.Undelivered != nil || x.whole) {
			w.t.handOver(w.req, begun.Operation.ID)
		}
		return h.resp, h.err
	}
}

// mayBeDelivered reports whether another request's answer may be on its way: one that is
// finished, or is in progress and its caller has closed it.
func (w *httpWrite) mayBeDelivered(res record.Begun) bool {
	return res.Operation.Undelivered && (res.Answer == ledger.AnswerFinished || res.Answer == ledger.AnswerInProgress && w.t.Undelivered == nil)
}

func (w *httpWrite) report(r Report) {
	if w.t.Report == nil {
		return
	}
	r.Method, r.Kind = outcome.Clip(w.req.Method, outcome.MaxExcerpt, false), w.kind
	r.Path = outcome.Clip(redact.Without(cmp.Or(w.to, w.req.URL).EscapedPath(), nil), outcome.MaxExcerpt, false)
	r.Why = outcome.Clip(redact.Without(r.Why, nil), outcome.MaxError, false)
	r.Took = time.Since(w.began)
	w.t.Report(r)
}

// prepare reads the HTTP request and makes of it what is recorded.
func (w *httpWrite) prepare() error {
	err := w.readKey()
	if err != nil {
		if w.req.Body != nil {
			w.req.Body.Close()
		}
		return err
	}
	if w.body == nil {
		if w.body, err = w.t.readBody(w.req); err != nil {
			return err
		}
	}
	if err := w.follow(); err != nil {
		return err
	}
	if len(w.req.Trailer) > 0 { // it could say anew what was said before the body
		return unfit("it has headers behind its body (trailers); send them before it")
	}
	in, err := inputOf(w.req, w.body.data)
	if err != nil {
		return err
	}
	input, err := in.encoded()
	if err != nil {
		return notRecorded(err)
	}
	asked, err := w.asked(in)
	if err != nil {
		return notRecorded(err)
	}
	scope, err := w.scope()
	if err != nil {
		return notRecorded(err)
	}
	callers, err := w.callersOf()
	if err != nil {
		return notRecorded(err)
	}
	id, token, standIn := "", "", ledger.NewToken()
	if w.t.IDs != nil {
		id, token = w.t.IDs(w.req)
	}
	out, tokenSent := withToken(w.req, w.body.data, w.rule, cmp.Or(token, standIn))
	request := w.kept(out)
	request.Callers = callers
	w.request = record.Request{Kind: w.kind, Scope: scope, Key: w.key, ID: id, Token: token, StandIn: standIn, Session: w.req.Header.Get(HeaderSession), Input: input, Asked: asked, Caller: strings.Join(w.saying(w.isCaller), "\n"), Counts: w.counts, HTTP: request, Sender: "http",
		Place:  w.req.Method + " " + w.req.URL.Host + " " + CleanPath(w.req.URL),
		Secret: secretsIn(w.req.URL.RawQuery), TokenSent: tokenSent, KeySent: w.rule.KeyHeader != "", AwaitsDelivery: w.key == "" && len(w.rule.KeyFrom) == 0}
	w.request.Replaces = w.replaces()
	if from := w.req.Header.Get(HeaderSource); from != "" {
		w.request.Source.Pipeline, w.request.Source.Run, _ = strings.Cut(from, "@")
	}
	return nil
}

// readKey reads the key that the caller gave, in whichever header the downstream takes one.
func (w *httpWrite) readKey() (err error) {
	w.key, err = givenKey(w.req.Header, HeaderKey)
	if name := w.rule.KeyHeader; err == nil && w.key == "" && name != "" && !isNoise(name) { // the downstream's own; an X-Request-Id may be new at every try
		var bad *NotTakenError
		if w.key, err = givenKey(w.req.Header, name); errors.As(err, &bad) {
			bad.Why = name + ": " + bad.Why
		}
	}
	if err == nil && w.key == "" && w.t.RequireKey && len(w.rule.KeyFrom) == 0 {
		err = &NotTakenError{Problem: "key_missing", Why: "it is missing, and no key is made for " + w.kind}
	}
	return err
}

// replaces names what the request sets: the path of a PUT or DELETE, and of one that uploads
// a part, which part: parts do not overtake each other. Any other method sets nothing.
func (w *httpWrite) replaces() string {
	if m := w.req.Method; m != http.MethodPut && m != http.MethodDelete {
		return ""
	}
	u := transmit.Spelled(w.req.URL)
	what := u.Host + u.EscapedPath()
	if q := u.RawQuery; q != "" && len(w.body.data) > 0 {
		what += "?" + redact.Without(q, nil)
	}
	for _, part := range []string{"Content-Range", "Upload-Offset"} {
		if v := w.req.Header.Get(part); v != "" {
			what += " " + v
		}
	}
	return what
}

// begin records the intent. It is not given up when the caller goes: what is
// half recorded would be in doubt for nothing.
func (w *httpWrite) begin(ctx context.Context) (record.Begun, error) {
	r := w.t.Recorder
	ctx = context.WithoutCancel(ctx)
	if w.key != "" || len(w.rule.KeyFrom) > 0 || w.rule.Callers != nil {
		if res, known, err := w.before(ctx); known || err != nil {
			return record.Begun{BeginResult: res}, err
		}
	}
	res, err := r.BeginToSend(ctx, w.request)
	if err != nil || res.Answer != ledger.AnswerInDoubt || !r.CanRead() {
		return res, err
	}
	reading, stop := context.WithTimeout(ctx, readPatience)
	defer stop()
	request := w.request
	request.Reconcile, request.Follows = true, res.Operation.ID
	again, err := r.BeginToSend(reading, request)
	if err != nil && again.Answer != ledger.AnswerBegun {
		return res, nil // still in doubt
	}
	return again, err
}

// before is what the name of the request stands for where begin would not find it: a refusal
// under a given key, or the same request in the scope of what may be another caller, or of this one
// while callers were told apart in another way. Nothing is decided here for the caller's own
// operations: without these, begin looks again.
func (w *httpWrite) before(ctx context.Context) (ledger.BeginResult, bool, error) {
	var none ledger.BeginResult
	r := w.t.Recorder
	req, err := r.BeginRequest(ctx, w.request)
	if err != nil {
		return none, false, err
	}
	rec, err := r.Store().Read(ctx, ledger.ByName(req.Kind, req.Scope, req.Key))
	if errors.Is(err, ledger.ErrNotFound) {
		ids, err := r.Store().Keyed(ctx, req.Key, mostCallers)
		if err != nil || len(ids) == 0 {
			return none, false, err
		}
		others, err := r.Store().Records(ctx, ids)
		if err != nil {
			return none, false, err
		}
		res, known := w.ofOthers(others, req)
		return res, known, nil
	}
	o := rec.Operation
	if err != nil || w.key == "" || o.State != ledger.Failed || rec.OpenAllowed() != nil || rec.NameOver(req) {
		return none, false, err
	}
	if said := outcome.WholeAnswer(rec); said == nil || said.Status == http.StatusTooManyRequests { // it is to come again
		return none, false, nil
	}
	same := !o.AsksElse(req) && len(o.Request.OtherCaller(req.Request, w.counts)) == 0
	return ledger.BeginResult{Answer: ledger.AnswerFinished, Operation: o}, same, nil
}

// ofOthers is what operations of the same name in other scopes answer to a request: to its own
// caller what they are, and to one that may be another that it is not theirs.
func (w *httpWrite) ofOthers(others []ledger.Record, req ledger.BeginRequest) (ledger.BeginResult, bool) {
	for _, other := range others {
		o := other.Operation
		counts := w.counts
		if ledger.GateNames(o.Gate) != ledger.GateNames(req.Gate) {
			counts = w.countsAnyway
		}
		names := o.Request.OtherCaller(req.Request, counts)
		switch {
		case !ledger.MayHaveLanded(o, other.Attempts) || other.NameOver(req): // a credential that was refused may be replaced by another one
		case o.Request == nil || !transmit.SameOrigin(o.Request.Origin, req.Request.Origin):
		case o.AsksElse(req):
		case o.State.Open() && ledger.GateHolds(o.Gate, req.Gate): // begin finds it
		case slices.ContainsFunc(names, func(name string) bool { return w.areTwo(name, o, req) }):
		case len(names) > 0:
			return ledger.BeginResult{Answer: ledger.AnswerNotYours, Operation: o, Why: strings.Join(names, ", ")}, true
		default: // its scope was called otherwise
			res := ledger.BeginResult{Answer: ledger.AnswerInDoubt, Operation: o}
			if o.State == ledger.Committed {
				res.Answer = ledger.AnswerFinished
			} else if other.State() == ledger.Pending {
				res.Answer = ledger.AnswerInProgress
			}
			return res, true
		}
	}
	return ledger.BeginResult{}, false
}

// mostCallers is how many operations of one name are looked at for one that is the
// same request of another caller.
const mostCallers = 50

// notSent answers from the ledger.
func (w *httpWrite) notSent(res ledger.BeginResult) (*http.Response, error) {
	report := Report{OperationID: res.Operation.ID, What: string(res.Answer), Why: res.Why}
	if res.Answer != ledger.AnswerFinished {
		w.report(report)
		return nil, w.stranger(res, record.NotBegun(res))
	}
	if res.Operation.Undelivered {
		defer w.t.handOver(w.req, res.Operation.ID)
	}
	rec, err := w.t.Recorder.Store().Read(context.WithoutCancel(w.req.Context()), ledger.Locator{ID: res.Operation.ID})
	if err != nil {
		report.Why = err.Error()
		w.report(report)
		return nil, finished(res.Operation)
	}
	stored := cmp.Or(outcome.WholeAnswer(rec), outcome.FoundAnswer(rec))
	if stored == nil {
		w.report(report)
		return nil, finished(rec.Operation)
	}
	report.What, report.Status = "replayed", stored.Status
	w.report(report)
	return replay(stored, w.req, rec.Operation.ID), nil
}

// finished is the error for an operation without an answer to repeat.
func finished(o ledger.Operation) error {
	return &record.AnswerError{BeginResult: ledger.BeginResult{Answer: ledger.AnswerFinished, Operation: o}}
}

func replay(s *outcome.StoredAnswer, req *http.Request, operationID string) *http.Response {
	body := s.Bytes()
	h := http.Header{}
	for name, values := range s.Header {
		h[http.CanonicalHeaderKey(name)] = values
	}
	if s.Status != http.StatusNoContent && s.Status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	h.Set(HeaderReplayed, "true")
	h.Set(HeaderOperation, operationID)
	return &http.Response{
		Status: strconv.Itoa(s.Status) + " " + http.StatusText(s.Status), StatusCode: s.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h,
		ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)), Request: req,
	}
}
