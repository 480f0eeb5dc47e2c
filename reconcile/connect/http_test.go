package connect

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy/transport"
)

func TestReadAsksForAnUncachedAnswerOverThePool(t *testing.T) {
	var conns sync.Map
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conns.Store(r.RemoteAddr, true)
		n.Add(1)
		need.That(t, r.Header.Get("Cache-Control") == "no-cache" && r.Header.Get("Authorization") == "Bearer x", "headers %v", r.Header)
		w.Header().Set("Age", "0")
		_, _ = io.WriteString(w, `{"data":[]}`)
	}))
	defer s.Close()
	h := &HTTP{}
	defer h.Close()
	for range 5 {
		a := h.Read(t.Context(), transport.HTTPRequest{Method: "GET", URL: s.URL, Header: http.Header{"Authorization": {"Bearer x"}}})
		if a.Err != nil || a.Status != 200 || string(a.Body) != `{"data":[]}` || a.Header["Age"] == nil || a.EndedAt.Before(a.BeganAt) {
			t.Fatalf("%+v", a)
		}
	}
	count := 0
	conns.Range(func(any, any) bool { count++; return true })
	need.That(t, n.Load() == 5 && count == 1, "%d requests on %d connections", n.Load(), count)
}

func TestHugeAnswerIsCutOff(t *testing.T) {
	var sent atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		chunk := make([]byte, 64<<10)
		_, _ = rand.Read(chunk)
		for range (200 << 20) / len(chunk) {
			n, err := w.Write(chunk)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}))
	defer s.Close()
	for _, ask := range []func(transport.HTTPRequest) ledger.Answer{
		func(q transport.HTTPRequest) ledger.Answer { return new(HTTP).Read(t.Context(), q) },
		func(q transport.HTTPRequest) ledger.Answer { return new(HTTP).Send(t.Context(), q) },
	} {
		sent.Store(0)
		a := ask(transport.HTTPRequest{Method: "GET", URL: s.URL, Limits: transport.Limits{Max: 1 << 20}})
		time.Sleep(50 * time.Millisecond)
		if !a.Truncated || len(a.Body) != 1<<20 || a.Err != nil || sent.Load() > 32<<20 {
			t.Errorf("truncated=%v kept %d of %d sent, err %v", a.Truncated, len(a.Body), sent.Load(), a.Err)
		}
	}
}

func TestReadFollowsRedirectsOnItsHostOnly(t *testing.T) {
	var leaked atomic.Bool
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { leaked.Store(true) }))
	defer other.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/here":
			http.Redirect(w, r, "/there", http.StatusFound)
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/me":
			http.Redirect(w, r, "http://me:pass@"+r.Host+"/there", http.StatusFound)
		case "/round":
			http.Redirect(w, r, "/round", http.StatusFound)
		default:
			_, _ = io.WriteString(w, "found")
		}
	}))
	defer s.Close()
	h := &HTTP{}
	defer h.Close()
	for path, want := range map[string]int{"/here": 200, "/away": 302, "/me": 302, "/round": 302} {
		a := h.Read(t.Context(), transport.HTTPRequest{Method: "GET", URL: s.URL + path})
		need.That(t, a.Status == want && a.Err == nil, "%s: %d %v, want %d", path, a.Status, a.Err, want)
	}
	need.That(t, !leaked.Load(), "a read followed a redirect to another host")
}

func TestErrorsDoNotShowSecretsOfTheAddress(t *testing.T) {
	a := new(HTTP).Read(t.Context(), transport.HTTPRequest{Method: "GET", URL: "http://me:pass1234@127.0.0.1:1/x?token=tok1234"})
	need.That(t, a.Err != nil && !strings.Contains(a.Err.Error(), "1234"), "%v", a.Err)
	a = new(HTTP).Read(t.Context(), transport.HTTPRequest{Method: "GET", URL: "http://127.0.0.1/\x7f?token=tok1234"})
	need.That(t, a.Err != nil && !strings.Contains(a.Err.Error(), "1234"), "%v", a.Err)
}

func TestReadTimesOutInEveryPhase(t *testing.T) {
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			_, _ = io.WriteString(w, "x")
			w.(http.Flusher).Flush()
		}
		<-hang
	}))
	defer s.Close()
	defer close(hang)
	for _, path := range []string{"/head", "/body"} {
		a := new(HTTP).Read(t.Context(), transport.HTTPRequest{Method: "GET", URL: s.URL + path, Limits: transport.Limits{Timeout: 100 * time.Millisecond}})
		if a.Class != ledger.ClassTimeout {
			t.Errorf("%s: class %q after %s: %v", path, a.Class, a.EndedAt.Sub(a.BeganAt), a.Err)
		}
	}
}

func TestAnswerThatUnpacksToTooMuchIsCutOff(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.CopyN(z, zeros{}, 8<<20)
	_ = z.Close()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes())
	}))
	defer s.Close()
	a := new(HTTP).Read(t.Context(), transport.HTTPRequest{Method: "GET", URL: s.URL, Limits: transport.Limits{Max: 256 << 10}})
	if !a.Truncated || len(a.Body) != 256<<10 || a.Err != nil || packed.Len() > 64<<10 {
		t.Errorf("truncated=%v kept %d of %d packed, err %v", a.Truncated, len(a.Body), packed.Len(), a.Err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestDripAndSilenceEndARead(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := 0; ; i++ {
			if _, err := io.WriteString(w, "x"); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			wait := 20 * time.Millisecond
			if r.URL.Path == "/silent" && i == 2 {
				wait = time.Minute
			}
			select {
			case <-time.After(wait):
			case <-r.Context().Done():
				return
			}
		}
	}))
	defer s.Close()
	for _, path := range []string{"/drip", "/silent"} {
		var a ledger.Answer
		for wait := 100 * time.Millisecond; len(a.Body) < 3 && wait < time.Minute; wait *= 2 { // until something has come
			a = new(HTTP).Read(t.Context(), transport.HTTPRequest{Method: "GET", URL: s.URL + path, Limits: transport.Limits{Timeout: wait}})
		}
		need.That(t, a.Class == ledger.ClassTimeout && a.Truncated, "%s: class %q with %d bytes: %v", path, a.Class, len(a.Body), a.Err)
	}
}

// An answer that turns the connection into something else is none, and its body
// would never end.
func TestReadOfASwitchedProtocolEnds(t *testing.T) {
	gone := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
		conn.Close()
		close(gone)
	}))
	h := &HTTP{}
	answers := make(chan ledger.Answer, 1)
	go func() {
		answers <- h.Read(t.Context(), transport.HTTPRequest{Method: "GET", URL: s.URL, Limits: transport.Limits{Timeout: 200 * time.Millisecond}})
	}()
	select {
	case a := <-answers:
		need.That(t, a.Err != nil && a.Status == 101, "%+v", a)
		<-gone
		s.Close()
	case <-time.After(20 * time.Second):
		t.Fatal("it is read for ever")
	}
}
