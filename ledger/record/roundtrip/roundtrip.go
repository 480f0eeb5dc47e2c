// Package roundtrip records the writes of an HTTP client: Transport is an
// http.RoundTripper that begins an operation for each, sends it once, settles what
// came of it, and answers its repeats from the ledger.
//
// It imports ledger/record, ledger/outcome, ledger/redact and the wires.
package roundtrip

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/record"
	"indoubt/ledger/wire/transmit"
)

// The headers a Transport reads or adds. Those that begin with Indoubt are for
// it alone and are not sent on.
const (
	HeaderKey       = "Idempotency-Key"      // of a request: the key of its operation
	HeaderReplayed  = "Idempotency-Replayed" // of an answer: "true" when it is the stored one
	HeaderOperation = "Indoubt-Operation"    // of an answer: the id of the operation it is about
	HeaderSource    = "Indoubt-Source"       // of a request: PIPELINE or PIPELINE@RUN
	HeaderSession   = "Indoubt-Session"      // of a request: for keys made per session
)

// DefaultMaxRequest bounds the body of a recorded request, in bytes.
const DefaultMaxRequest = 10 << 20

// Transport is an http.RoundTripper that records writes: the intent before a
// byte of it leaves (I1), one transmission and no more (I3), and what became of
// it. A repeat of a finished one gets the stored answer; a repeat of one in
// flight or in doubt is not sent. Put it into an http.Client, whose CheckRedirect
// should be http.ErrUseLastResponse: following a redirect is another write.
//
// GET, HEAD, OPTIONS and TRACE pass, as does what the policy calls a read. Every
// other method is a write, and so is a safe one with an X-HTTP-Method-Override.
//
// A key comes from the Idempotency-Key header, bare or as the structured string
// of the IETF draft; without one it is made as the kind's policy says, else taken from
// the header in which the downstream takes its key, else made of the request. Keys of
// different origins and credentials never meet. Under a key that the caller gave,
// a refusal is replayed like a success.
//
// The outcome is in the ledger before the end of the answer is handed out. When
// the request's context ends, or the body is closed early, the exchange is
// finished and recorded in the background.
//
// What is known to have had no effect for a reason that may pass is tried again
// within the kind's retry.max, each time as an attempt of its own.
//
// Errors: *record.AnswerError (with a *LostError in it when it was sent just now); and where nothing was sent
// and the same may be asked for again *FailedError and *NotTakenError. A *StrangerError is around
// one where who asks may be another caller than who asked before.
type Transport struct {
	Recorder *record.Recorder
	// Kind names the kind of a request, by its CleanPath where that matters. "" is
	// the built-in name, http.<host>.<method>.
	Kind       func(*http.Request) string
	Scope      string            // of keys, in the place of the caller's credential
	RequireKey bool              // a write without a key is refused, where the policy makes none
	MaxRequest int64             // bytes of a body; DefaultMaxRequest when 0
	Sender     transmit.Sender   // of writes
	Reads      http.RoundTripper // of what is not recorded; http.DefaultTransport when nil
	// IDs are the id and the token of the operation that a request may be; nil makes them at random.
	IDs func(*http.Request) (id, token string)
	// Undelivered, when set, is told of each answer that waits for word whether it
	// arrived, before RoundTrip returns it; Delivered must be called then. When nil,
	// handing an answer out is delivery. It matters for requests without a key: the
	// same again, after an answer that did not arrive, is the same request.
	Undelivered func(req *http.Request, operationID string)
	Report      func(Report) // told what became of every write; may be nil

	bodies    allowance
	strangers strangers
	redirects redirects

	mu     sync.Mutex
	closed bool
	live   sync.WaitGroup
	cut    context.CancelCauseFunc // ends every transmission
	base   context.Context
	due    map[string]chan struct{} // operations whose answer is being delivered; closed when it is known
}

// Report is what became of one write, for a log. No secret is in it.
type Report struct {
	Method, Path, Kind, OperationID string
	// What is an outcome of the transmission (committed, failed, uncertain), or
	// why there was none: replayed, in_progress, in_doubt, finished, key_reused,
	// refused, not_recorded, bad_request.
	What   string
	Status int // of the answer; 0 when there was none
	Why    string
	Took   time.Duration
}

// ErrShutdown says that a Transport takes no more writes.
var ErrShutdown = errors.New("the sender is shutting down")

// RoundTrip sends one request, or answers it from the ledger.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	kind, rule, write := t.classify(req)
	w := &httpWrite{t: t, req: req, kind: kind, rule: rule, began: time.Now()}
	if write {
		return w.do()
	}
	if safeMethod(req.Method) {
		return t.read(req)
	}
	var err error
	if w.body, err = t.readBody(req); err != nil {
		return nil, err
	}
	if overriddenBy(req, w.body.data) != "" {
		return w.do()
	}
	defer w.body.letGo()
	if len(w.body.data) > 0 {
		req = req.Clone(req.Context())
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(w.body.data)), int64(len(w.body.data))
	}
	return t.read(req)
}

// read passes on what changes nothing. A server that does not look at a body takes
// it for the next request on the connection: a method that has no body gets none,
// and another one a connection that ends with it.
func (t *Transport) read(req *http.Request) (*http.Response, error) {
	if req.Body != nil && req.Body != http.NoBody && req.ContentLength != 0 {
		if safeMethod(req.Method) {
			req.Body.Close()
			return nil, unfit("a " + req.Method + " has no body here; ask with POST where the upstream takes that")
		}
		req = req.Clone(req.Context())
		req.Close = true
	}
	return cmp.Or(t.Reads, http.DefaultTransport).RoundTrip(req)
}

// Shutdown takes no more writes, waits for those in flight until ctx ends, then
// cuts them off and waits until what is known of each is recorded. What was sent
// and cut is in doubt.
func (t *Transport) Shutdown(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	t.start()
	t.mu.Unlock()
	done := make(chan struct{})
	go func() {
		t.live.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		t.cut(fmt.Errorf("%w: %w", ErrShutdown, context.Canceled))
		<-done
		return ctx.Err()
	}
}

// start makes what the zero value lacks; the caller holds mu.
func (t *Transport) start() {
	if t.base == nil {
		t.base, t.cut = context.WithCancelCause(context.Background())
	}
}

// enter counts a write in, unless the transport is shutting down. The context ends when every write is to end.
func (t *Transport) enter() (context.Context, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, ErrShutdown
	}
	t.start()
	t.live.Add(1)
	return t.base, nil
}

// Delivered says whether the answer that Undelivered was told of arrived. The
// next request like it waits for that.
func (t *Transport) Delivered(operationID string, arrived bool) {
	if arrived { // when it cannot be noted, the next such request gets the answer once more
		_ = ledger.Deliver(context.Background(), t.Recorder.Store(), operationID)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.due[operationID]; known != nil {
		close(known)
		delete(t.due, operationID)
	}
}

// handOver notes that an answer is on its way to the caller.
func (t *Transport) handOver(req *http.Request, operationID string) {
	if t.Undelivered == nil {
		t.Delivered(operationID, true)
		return
	}
	t.expect(operationID)
	t.Undelivered(req, operationID)
}

// expect has the next request like it wait until Delivered is called.
func (t *Transport) expect(operationID string) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.due == nil {
		t.due = map[string]chan struct{}{}
	}
	if t.due[operationID] == nil {
		t.due[operationID] = make(chan struct{})
	}
	return t.due[operationID]
}

// delivering is closed when it is known whether the operation's answer arrived;
// nil when it is not on its way.
func (t *Transport) delivering(operationID string) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.due[operationID]
}

// classify tells the kind of a request, and whether it is recorded. A method
// counts as safe only as it is spelled in RFC 9110, and a path that the policy
// calls a read only where it cannot be read as another one: what is not known to
// be a read is a write.
func (t *Transport) classify(req *http.Request) (kind string, rule record.KindRule, write bool) {
	kind, rule, named := t.kindOf(req)
	if !safeMethod(req.Method) {
		return kind, rule, rule.Access != "read" || named && !plainPath(req.URL) || overridden(req) != ""
	}
	if named && rule.Access == "write" || overridden(req) != "" {
		return kind, rule, true
	}
	for _, path := range otherPaths(req.URL) { // as the upstream may read it
		as := *req
		as.URL = &url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host, Path: path}
		if kind, rule, named := t.kindOf(&as); named && rule.Access == "write" {
			return kind, rule, true
		}
	}
	return kind, rule, false
}

// kindOf is the kind that the policy names, else the built-in one.
func (t *Transport) kindOf(req *http.Request) (kind string, rule record.KindRule, named bool) {
	if t.Kind != nil {
		kind = t.Kind(req)
	}
	if named = kind != ""; !named {
		kind = builtinKind(req)
	}
	return kind, t.Recorder.Rule(kind), named
}

// safeMethod reports whether a method only reads, by its own word.
func safeMethod(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// overrides are the headers that put another method in the place of a request's own.
var overrides = []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override", "X-Method"}

// overridden is the method that a header, or a query, puts in the place of a request's
// own, if that is not a safe one.
func overridden(req *http.Request) string {
	var said []string
	for _, name := range overrides {
		said = append(said, req.Header[name]...)
	}
	if strings.Contains(req.URL.RawQuery, "_method") {
		said = append(said, req.URL.Query()["_method"]...)
	}
	return unsafeOf(said)
}

// overriddenBy is the same of a field `_method` in a body: of a form, of its parts, of JSON.
func overriddenBy(req *http.Request, body []byte) string {
	in, err := inputOf(req, body)
	if err != nil {
		return ""
	}
	var one struct {
		Method string `json:"_method"`
	}
	var several struct {
		Method []string `json:"_method"`
	}
	var parts []struct{ Name, Value string }
	_, _, _ = json.Unmarshal(in.Body, &one), json.Unmarshal(in.Body, &several), json.Unmarshal(in.Body, &parts)
	said := append(several.Method, one.Method)
	for _, p := range parts {
		if p.Name == "_method" {
			said = append(said, p.Value)
		}
	}
	return unsafeOf(said)
}

func unsafeOf(methods []string) string {
	for _, v := range methods {
		if v = strings.ToUpper(strings.TrimSpace(v)); !safeMethod(v) {
			return v
		}
	}
	return ""
}

// builtinKind is the kind of a request that no policy names.
func builtinKind(req *http.Request) string {
	plain := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_' {
				return r
			}
			return '_'
		}, strings.ToLower(s))
	}
	host, method := plain(req.URL.Hostname()), cmp.Or(plain(req.Method), "get")
	return "http." + host[:min(len(host), 150)] + "." + method[:min(len(method), 30)]
}

// LostError is inside the *record.AnswerError for a request that was sent just now: no
// answer came that tells what became of it.
type LostError struct {
	Class ledger.ErrorClass
	Err   error
}

func (e *LostError) Error() string { return e.Err.Error() }
func (e *LostError) Unwrap() error { return e.Err }

// NotTakenError says why nothing of a request was recorded or sent. The same may be asked for
// again.
type NotTakenError struct {
	Problem string // key_missing, key_malformed, bad_request, too_large, busy or not_recorded
	Why     string // "" where Err says it
	Err     error
}

func (e *NotTakenError) Error() string {
	if e.Err != nil {
		return e.Problem + ": " + e.Err.Error()
	}
	return e.Problem + ": " + e.Why
}

func (e *NotTakenError) Unwrap() error { return e.Err }

func notRecorded(err error) error { return &NotTakenError{Problem: "not_recorded", Err: err} }

// unfit is the error for what a request has that keeps it from being passed.
func unfit(why string) error { return &NotTakenError{Problem: "bad_request", Why: why} }
