package roundtrip

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
)

// shop is a server that counts what it was asked to do.
type shop struct {
	*httptest.Server
	effects atomic.Int64
}

func newShop(t *testing.T, answer http.HandlerFunc) *shop {
	t.Helper()
	s := &shop{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method != "GET" {
			s.effects.Add(1)
		}
		answer(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func testTransport(t *testing.T, rule record.KindRule) (*Transport, *http.Client, *ledgertest.Breakable) {
	m := ledgertest.NewBreakable(nil)
	tr := &Transport{Recorder: record.New(m, record.Rules(func(string) record.KindRule { return rule }), record.Options{})}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = tr.Shutdown(ctx)
	})
	return tr, &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, m
}

func order(ctx context.Context, url, key string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(`{"n":1}`))
	if err != nil {
		panic(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set(HeaderKey, key)
	}
	return req
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(time.Millisecond) {
		need.Must(t, !time.Now().After(end), "it never came: %s", what)
	}
}

func TestTransportAnswersOnceAndAgain(t *testing.T) {
	s := newShop(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/orders/1")
		w.WriteHeader(201)
		_, _ = io.WriteString(w, `{"id":1}`)
	})
	_, client, m := testTransport(t, record.KindRule{})
	for try := range 3 {
		resp := need.Get(client.Do(order(t.Context(), s.URL+"/orders", "k-1")))(t)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 201 || string(body) != `{"id":1}` || err != nil || resp.Header.Get("Location") != "/orders/1" ||
			(resp.Header.Get(HeaderReplayed) == "true") != (try > 0) || resp.Header.Get(HeaderOperation) != m.Only(t).Operation.ID || resp.Request == nil {
			t.Errorf("%d: %d %q %v %v", try, resp.StatusCode, body, err, resp.Header)
		}
	}
	need.Equal(t, s.effects.Load(), 1, "effects")
}

func TestTransportErrors(t *testing.T) {
	stay := make(chan struct{})
	defer close(stay)
	s := newShop(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/cut":
			panic(http.ErrAbortHandler)
		case "/stay":
			select {
			case <-stay:
			case <-r.Context().Done():
			}
		}
	})
	tr, client, m := testTransport(t, record.KindRule{})
	do := func(path, key string) error {
		resp, err := client.Do(order(t.Context(), s.URL+path, key))
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	var lost *LostError
	first := do("/cut", "k-1")
	if err := first; record.In(err).Answer != ledger.AnswerInDoubt || !errors.As(err, &lost) || lost.Class != ledger.ClassEOF {
		t.Errorf("%v", err)
	}
	id := record.In(first).Operation.ID
	lost = nil
	if err := do("/cut", "k-1"); record.In(err).Answer != ledger.AnswerInDoubt || errors.As(err, &lost) || record.In(err).Operation.ID != id {
		t.Errorf("%v", err)
	}
	if err := do("/other", "k-1"); record.In(err).Answer != ledger.AnswerKeyReused {
		t.Errorf("%v", err)
	}
	go func() { _ = do("/stay", "k-2") }()
	eventually(t, "the one in flight", func() bool { return s.effects.Load() == 2 })
	if err := do("/stay", "k-2"); record.In(err).Answer != ledger.AnswerInProgress {
		t.Errorf("%v", err)
	}
	var key *NotTakenError
	if err := do("/", "a b"); !errors.As(err, &key) || key.Problem != "key_malformed" {
		t.Errorf("%v", err)
	}
	var failed *record.FailedError
	if _, err := client.Do(order(t.Context(), "http://127.0.0.1:1/", "k-3")); !errors.As(err, &failed) || failed.Proof != ledger.NeverSent {
		t.Errorf("%v", err)
	}
	m.Break(errors.New("disk full"))
	var unrecorded *NotTakenError
	if err := do("/", "k-4"); !errors.As(err, &unrecorded) || unrecorded.Problem != "not_recorded" {
		t.Errorf("%v", err)
	}
	m.Break(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = tr.Shutdown(ctx)
	if err := do("/", "k-5"); !errors.As(err, &unrecorded) || !errors.Is(err, ErrShutdown) {
		t.Errorf("%v", err)
	}
	need.Equal(t, s.effects.Load(), 2, "effects")
}

func TestTransportGoesOnWithoutItsCaller(t *testing.T) {
	for name, headFirst := range map[string]bool{"before the head": false, "after the head": true} {
		t.Run(name, func(t *testing.T) {
			ctx, leave := context.WithCancelCause(t.Context())
			left := make(chan struct{})
			s := newShop(t, func(w http.ResponseWriter, r *http.Request) {
				if headFirst {
					w.(http.Flusher).Flush()
				} else {
					leave(context.DeadlineExceeded)
				}
				<-left
				_, _ = io.WriteString(w, "done")
			})
			_, client, m := testTransport(t, record.KindRule{})
			resp, err := client.Do(order(ctx, s.URL, "k-1"))
			if err == nil {
				leave(context.DeadlineExceeded)
				_, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			need.That(t, errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled), "%v", err)
			close(left)
			eventually(t, "the outcome", func() bool { return m.Only(t).Operation.State == ledger.Committed })
			resp, err = client.Do(order(t.Context(), s.URL, "k-1"))
			need.OK(t, err)
			defer resp.Body.Close()
			if body, _ := io.ReadAll(resp.Body); string(body) != "done" || s.effects.Load() != 1 {
				t.Errorf("%q, %d effects", body, s.effects.Load())
			}
		})
	}
}

// A caller that looks at the status only has its answer too, however long it is.
func TestTransportClosedEarlyIsDelivered(t *testing.T) {
	for name, length := range map[string]int{"short": 10, "long": 200_000, "without a length": -1} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, func(w http.ResponseWriter, r *http.Request) {
				if length < 0 {
					w.(http.Flusher).Flush()
				}
				_, _ = w.Write(make([]byte, max(length, 10)))
			})
			_, client, _ := testTransport(t, record.KindRule{})
			for n := range int64(3) {
				resp := need.Get(client.Do(order(t.Context(), s.URL, "")))(t)
				resp.Body.Close()
				if s.effects.Load() != n+1 || resp.Header.Get(HeaderReplayed) != "" {
					t.Errorf("%d: %d effects, %v", n, s.effects.Load(), resp.Header)
				}
			}
		})
	}
}

func TestIdenticalRequestsAreNormal(t *testing.T) {
	s := newShop(t, func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) })
	_, client, m := testTransport(t, record.KindRule{Repeat: record.RepeatAllow})
	for range 3 {
		if _, err := client.Do(order(t.Context(), s.URL, "")); err == nil {
			t.Error("an answer came")
		}
	}
	if len(m.Changed()) != 3 || s.effects.Load() != 3 {
		t.Errorf("%d operations, %d effects", len(m.Changed()), s.effects.Load())
	}
}

// A PUT says what shall be there: an identical one after a lost answer is a further attempt,
// under the caller's key or none, until another one may have acted there.
func TestAPutIsSentAgain(t *testing.T) {
	for _, key := range []string{"", "k-1"} {
		var lost atomic.Bool
		lost.Store(true)
		s := newShop(t, func(w http.ResponseWriter, r *http.Request) {
			if lost.Load() {
				panic(http.ErrAbortHandler)
			}
		})
		_, client, m := testTransport(t, record.KindRule{})
		put := func(n string) error {
			req := order(t.Context(), s.URL+"/orders/7", key)
			req.Method, req.Body, req.GetBody, req.ContentLength = "PUT", io.NopCloser(strings.NewReader(n)), nil, int64(len(n))
			resp, err := client.Do(req)
			if err == nil {
				resp.Body.Close()
			}
			return err
		}
		need.That(t, put(`{"n":1}`) != nil, "key %q: an answer came", key)
		lost.Store(false)
		need.OK(t, put(`{"n":1}`))
		need.Equal(t, s.effects.Load(), 2, "sent")
		need.Equal(t, len(m.Changed()), 1, "operations")
		rec := need.Get(m.Read(t.Context(), ledger.Locator{ID: m.Changed()[0]}))(t)
		need.That(t, rec.Operation.State == ledger.Committed && rec.Operation.Conflict == ledger.NoConflict && len(rec.Attempts) == 2, "key %q: %+v", key, rec.Operation)
		if key != "" {
			continue
		}
		lost.Store(true)
		need.That(t, put(`{"n":2}`) != nil, "an answer came")
		lost.Store(false)
		need.OK(t, put(`{"n":3}`))
		need.That(t, put(`{"n":2}`) != nil, "what was overtaken is sent again")
	}
}

func TestGivenKey(t *testing.T) {
	for in, want := range map[string]string{
		"abc": "abc", `"abc"`: "abc", `"a\"b\\c"`: `a"b\c`, `"a b"`: "a b", `"abc";v=1`: "abc", ` "abc" `: "abc", "8e03978e-40d5-43dd-bc93-6894a57f9324": "8e03978e-40d5-43dd-bc93-6894a57f9324",
		"": "!", `""`: "!", "\t": "!", `"  "`: "!", `"abc`: "!", `"abc" x`: "!", `"a\x"`: "!", "a b": "!", "ä": "!", "a\x00": "!", strings.Repeat("k", 256): "!", strings.Repeat("k", 255): strings.Repeat("k", 255),
	} {
		got, err := givenKey(http.Header{HeaderKey: {in}}, HeaderKey)
		if err != nil {
			got = "!"
		}
		need.Equal(t, got, want, in, err)
	}
	if got, err := givenKey(http.Header{}, HeaderKey); got != "" || err != nil {
		t.Errorf("none: %q %v", got, err)
	}
}

// I13: what goes out under a key is the same, to the byte, where the ledger has lost that it did.
func TestI13_TheSameKeyIsSentWithTheSameToken(t *testing.T) {
	var sent []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = append(sent, r.URL.RawQuery+" "+string(body)+" "+r.Header.Get(HeaderKey))
	}))
	defer s.Close()
	for _, c := range []struct {
		rule record.KindRule
		key  string
		same bool
	}{
		{record.KindRule{TokenInto: "body.ref"}, "k-1", true},
		{record.KindRule{TokenInto: "query.ref"}, "k-1", true},
		{record.KindRule{TokenInto: "body.ref", Input: "body", KeyFrom: []string{"n"}, KeyHeader: HeaderKey}, "", true},
		{record.KindRule{TokenInto: "body.ref", KeyHeader: HeaderKey}, "", false},
	} {
		sent = nil
		for range 2 {
			_, client, m := testTransport(t, c.rule)
			resp := need.Get(client.Do(order(t.Context(), s.URL+"/orders", c.key)))(t)
			resp.Body.Close()
			o := m.Only(t).Operation
			_, query, _ := strings.Cut(o.Request.Target, "?")
			need.Equal(t, sent[len(sent)-1], query+" "+o.Request.Body+" "+o.KeyToSend(), "what is recorded")
			need.That(t, o.TokenSent && strings.Contains(query+o.Request.Body, o.Token), "%s is not in %+v", o.Token, o.Request)
		}
		need.That(t, (sent[0] == sent[1]) == c.same, "%+v: %q", c, sent)
	}
}
