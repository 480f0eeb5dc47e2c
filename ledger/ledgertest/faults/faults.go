// Package faults puts troubles in the way of an HTTP server of a test: ways in which an
// outside system lets its callers down. Only tests import it.
package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fault is one way a downstream lets its caller down.
type Fault string

// Faults of writes. The word before "and" says whether the effect is there.
const (
	CommitAndCut      Fault = "commit_and_cut"       // applied, then a TCP reset
	CommitAndClose    Fault = "commit_and_close"     // applied, then the connection is closed without an answer
	CommitAndHang     Fault = "commit_and_hang"      // applied, the answer comes after For, or never
	CommitAndHalf     Fault = "commit_and_half"      // applied, the answer breaks off in the middle of its body
	CommitAndGateway  Fault = "commit_and_502"       // applied, a gateway in front answers 502
	CommitAndError    Fault = "commit_and_500"       // applied, answered 500, and the key remembers that 500
	CutBefore         Fault = "cut_before"           // not applied, a TCP reset
	CloseBefore       Fault = "close_before"         // not applied, the connection is closed without an answer
	HangBefore        Fault = "hang_before"          // not applied before For has passed, or never
	Refuse            Fault = "refuse"               // not applied, answered with Status
	CommitAndVanish   Fault = "commit_and_vanish"    // applied, then a reset, and the listener is gone
	CommitTwiceAndCut Fault = "commit_twice_and_cut" // applied two times, then a TCP reset
	CommitLaterAndCut Fault = "commit_later_and_cut" // a TCP reset, and applied when For has passed by the downstream's clock
)

// Faults of lists.
const (
	Lag       Fault = "lag"        // effects younger than For are not shown
	Rename    Fault = "rename"     // the field From is called To
	Stale     Fault = "stale"      // the answer comes from a cache that holds nothing yet
	HangList  Fault = "hang_list"  // no answer before For has passed, or never
	BreakList Fault = "break_list" // answered with Status, and with Answer where one is given
	CutList   Fault = "cut_list"   // no answer: a TCP reset
	Forget    Fault = "forget"     // effects older than For are not shown any more
	Foreign   Fault = "foreign"    // another account's list
	Truncate  Fault = "truncate"   // at most Limit are shown, and there is no way to the rest
)

var ofLists = []Fault{Lag, Rename, Stale, HangList, BreakList, CutList, Forget, Foreign, Truncate}

// Commits reports whether a write that meets the fault is applied.
func (f Fault) Commits() bool { return strings.HasPrefix(string(f), "commit_") }

// Trouble says which requests meet which fault. Every condition that is set
// must hold; the first Trouble that fits a request is the one it meets.
type Trouble struct {
	Fault Fault
	Path  string // prefix
	Match string // found in the query, the body or the idempotency key
	Skip  int    // let this many fitting requests pass first
	Times int    // then meet this many; 0: all
	// Rate is the share of requests that meet it, 0 for all. Which ones is
	// decided by the seed and the request itself, never by chance or order.
	Rate float64

	For      time.Duration
	Status   int
	Answer   string // body of Refuse and BreakList; a plain error object when empty
	FromName string // Rename
	To       string // Rename
	Limit    int    // Truncate

	met int // fitting requests so far
}

// Seen is one request that arrived whole.
type Seen struct {
	Method, Key, Body string
	Fault             Fault
}

// Way is the way to a downstream, with the troubles on it.
type Way struct {
	Seed uint64
	// Clock is the downstream's; time.Now when nil.
	Clock func() time.Time
	// Vanish stops the downstream.
	Vanish func()

	mu       sync.Mutex
	troubles []*Trouble
	seen     []*Seen
	keys     map[string]bool // that an answer is remembered for, and whether that is an error
	hung     int
}

// Meet puts troubles in the way of later requests, after those already there.
func (s *Way) Meet(troubles ...Trouble) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range troubles {
		s.troubles = append(s.troubles, &troubles[i])
	}
}

// First puts a trouble in the way before the others.
func (s *Way) First(t Trouble) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.troubles = append([]*Trouble{&t}, s.troubles...)
}

// Recover ends every trouble.
func (s *Way) Recover() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.troubles = nil
}

// ShowLists ends the troubles of lists.
func (s *Way) ShowLists() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.troubles = slices.DeleteFunc(s.troubles, func(t *Trouble) bool { return slices.Contains(ofLists, t.Fault) })
}

// Requests are all requests so far, in the order they came.
func (s *Way) Requests() []Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Seen, len(s.seen))
	for i, q := range s.seen {
		all[i] = *q
	}
	return all
}

// Hung is how many requests were left hanging so far.
func (s *Way) Hung() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hung
}

type met struct{}

// Hides reports whether a list leaves out what was made at a time.
func (s *Way) Hides(r *http.Request, at time.Time) bool {
	t, _ := r.Context().Value(met{}).(Trouble)
	age := s.now().Sub(at)
	return t.Fault == Lag && age < t.For || t.Fault == Forget && age > t.For
}

// Later is how much later than it was asked for an effect comes.
func (s *Way) Later(r *http.Request) time.Duration {
	if t, _ := r.Context().Value(met{}).(Trouble); t.Fault == CommitLaterAndCut {
		return t.For
	}
	return 0
}

func (s *Way) now() time.Time {
	if s.Clock == nil {
		return time.Now()
	}
	return s.Clock()
}

// Around is the downstream behind the troubles.
func (s *Way) Around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return // cut before its end: no request has arrived
		}
		t := s.meet(r, string(body))
		if key := r.Header.Get("Idempotency-Key"); key != "" && s.remembers(key) {
			t.Fault = "" // it is answered from what is remembered
			if s.remembersError(key) {
				say(w, http.StatusInternalServerError, wrong)
				return
			}
		}
		r = r.WithContext(context.WithValue(r.Context(), met{}, t))
		again := func(w http.ResponseWriter) {
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
		}
		if slices.Contains(ofLists, t.Fault) {
			s.list(w, r, t, again)
		} else {
			s.write(w, r, t, again)
		}
	})
}

// keyed is where keys are remembered.
const keyed = "/v1/payment_intents"

const wrong = `{"error":{"code":"internal","message":"Something went wrong on our end."}}`

func (s *Way) write(w http.ResponseWriter, r *http.Request, t Trouble, next func(http.ResponseWriter)) {
	switch t.Fault {
	case "":
		next(w)
		return
	case CutBefore, CloseBefore:
		Cut(w, t.Fault == CutBefore)
		return
	case Refuse:
		t.say(w)
		return
	case HangBefore:
		if s.wait(r, t) {
			next(w)
		}
		return
	}
	said := httptest.NewRecorder()
	next(said)
	if said.Code/100 != 2 { // it was refused, and there is nothing to lose
		replay(w, said)
		return
	}
	if strings.HasPrefix(r.URL.Path, keyed) {
		s.remember(r.Header.Get("Idempotency-Key"), t.Fault == CommitAndError)
	}
	switch t.Fault {
	case CommitAndHang:
		if s.wait(r, t) {
			replay(w, said)
		}
	case CommitAndHalf:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(said.Body.Len()))
		w.WriteHeader(said.Code)
		_, _ = w.Write(said.Body.Bytes()[:said.Body.Len()/2])
		_ = http.NewResponseController(w).Flush()
		Cut(w, false)
	case CommitAndGateway:
		say(w, http.StatusBadGateway, "<html><h1>502 Bad Gateway</h1></html>")
	case CommitAndError:
		say(w, http.StatusInternalServerError, wrong)
	case CommitTwiceAndCut:
		r.Header.Del("Idempotency-Key")
		next(httptest.NewRecorder())
		Cut(w, true)
	case CommitAndVanish:
		Cut(w, true)
		go s.Vanish()
	default:
		Cut(w, t.Fault != CommitAndClose)
	}
}

func (s *Way) list(w http.ResponseWriter, r *http.Request, t Trouble, next func(http.ResponseWriter)) {
	said := httptest.NewRecorder()
	switch t.Fault {
	case HangList:
		if !s.wait(r, t) {
			return
		}
	case BreakList:
		t.say(w)
		return
	case CutList:
		Cut(w, true)
		return
	case Foreign, Stale:
		r.Header.Set("Authorization", "Bearer another account than "+r.Header.Get("Authorization"))
		if t.Fault == Stale {
			w.Header().Set("Age", "30")
		}
	case Truncate:
		query := r.URL.Query()
		if query.Get("starting_after") != "" {
			say(w, http.StatusBadRequest, `{"error":{"code":"too_many","message":"This list cannot be followed any further."}}`)
			return
		}
		if limit, err := strconv.Atoi(query.Get("limit")); err != nil || limit > t.Limit {
			query.Set("limit", strconv.Itoa(t.Limit))
			r.URL.RawQuery = query.Encode()
		}
	}
	next(said)
	switch t.Fault {
	case Truncate: // it says that there is more, also where there is none
		var page struct{ Data []json.RawMessage }
		if json.Unmarshal(said.Body.Bytes(), &page) == nil && len(page.Data) >= t.Limit {
			said.Body = bytes.NewBufferString(strings.Replace(said.Body.String(), `"has_more":false`, `"has_more":true`, 1))
		}
	case Rename:
		text := strings.ReplaceAll(said.Body.String(), fmt.Sprintf("%q:", t.FromName), fmt.Sprintf("%q:", t.To))
		said.Body = bytes.NewBufferString(text)
	}
	replay(w, said)
}

func (s *Way) remembers(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.keys[key]
	return known
}

func (s *Way) remembersError(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[key]
}

func (s *Way) remember(key string, failed bool) {
	if key == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys = map[string]bool{}
	}
	s.keys[key] = failed
}

// meet notes a request and finds its trouble, the zero Trouble when it has none.
func (s *Way) meet(r *http.Request, body string) Trouble {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &Seen{Method: r.Method, Key: r.Header.Get("Idempotency-Key"), Body: body}
	s.seen = append(s.seen, q)
	for _, t := range s.troubles {
		if t.fits(s.Seed, r, body) {
			q.Fault = t.Fault
			return *t
		}
	}
	return Trouble{}
}

// fits reports whether the request meets the trouble, and counts it.
func (t *Trouble) fits(seed uint64, r *http.Request, body string) bool {
	method := http.MethodPost
	if slices.Contains(ofLists, t.Fault) {
		method = http.MethodGet
	}
	if r.Method != method || !strings.HasPrefix(r.URL.Path, t.Path) {
		return false
	}
	key := r.Header.Get("Idempotency-Key")
	if t.Match != "" && !strings.Contains(r.URL.RawQuery+"\n"+body+"\n"+key, t.Match) {
		return false
	}
	if t.Rate > 0 && share(seed, r.Method, r.URL.Path, r.URL.RawQuery, key, body) >= t.Rate {
		return false
	}
	t.met++
	return t.met > t.Skip && (t.Times == 0 || t.met <= t.Skip+t.Times)
}

// share maps the parts to a number in [0,1) that depends on nothing else.
func share(seed uint64, parts ...string) float64 {
	h := fnv.New64a()
	for _, part := range parts {
		_, _ = h.Write([]byte(part + "\x00"))
	}
	x := h.Sum64() + seed*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return float64((x^x>>31)>>11) / (1 << 53)
}

// wait passes time on behalf of a slow downstream, until the caller is gone; without a
// duration, only then.
func (s *Way) wait(r *http.Request, t Trouble) (answered bool) {
	s.mu.Lock()
	s.hung++
	s.mu.Unlock()
	var after <-chan time.Time
	if t.For > 0 {
		after = time.After(t.For)
	}
	select {
	case <-after:
		return true
	case <-r.Context().Done():
		return false
	}
}

func (t Trouble) say(w http.ResponseWriter) {
	text := t.Answer
	if text == "" {
		text = fmt.Sprintf(`{"error":{"code":"refused","message":%q}}`, http.StatusText(t.Status))
	}
	say(w, t.Status, text)
}

func say(w http.ResponseWriter, status int, body string) {
	kind := "application/json"
	if strings.HasPrefix(body, "<") {
		kind = "text/html"
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func replay(w http.ResponseWriter, said *httptest.ResponseRecorder) {
	maps.Copy(w.Header(), said.Header())
	w.WriteHeader(said.Code)
	_, _ = w.Write(said.Body.Bytes())
}

// Cut drops the connection: with a reset, or by closing it in good order.
func Cut(w http.ResponseWriter, reset bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
