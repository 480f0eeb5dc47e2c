package roundtrip

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
)

// TestWhatBodiesHoldTogetherIsBounded: where others take all there is, a large body
// waits and is refused; a small one goes past, and what is let go of is free again.
func TestWhatBodiesHoldTogetherIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large, small := make([]byte, 9<<20), make([]byte, bodyPart/2)
		read := func(tr *Transport, body []byte, length int64) (*spooled, error) {
			req := need.Get(http.NewRequestWithContext(t.Context(), "POST", "http://h/", io.NopCloser(bytes.NewReader(body))))(t)
			req.ContentLength = length
			return tr.readBody(req)
		}
		tr := new(Transport)
		var held []*spooled
		for {
			if tr.bodies.used+int64(len(large)) > mostMemory {
				break
			}
			s, err := read(tr, large, int64(len(large)))
			need.Must(t, err == nil && bytes.Equal(s.data, large), "%d bytes, %v", len(s.data), err)
			held = append(held, s)
		}
		need.Must(t, len(held) >= 10 && tr.bodies.used >= int64(len(held))*(int64(len(large))-bodyPart),
			"%d bodies count as %d bytes", len(held), tr.bodies.used)
		var overload *NotTakenError
		for _, length := range []int64{int64(len(large)), -1} {
			began, before := time.Now(), tr.bodies.used
			if _, err := read(tr, large, length); !errors.As(err, &overload) || overload.Problem != "busy" || time.Since(began) < roomPatience || tr.bodies.used != before {
				t.Errorf("length %d: %v, %d bytes are taken", length, err, tr.bodies.used-before)
			}
		}
		if s, err := read(tr, small, int64(len(small))); err != nil || len(s.data) != len(small) {
			t.Errorf("a small one: %v", err)
		}
		held[0].hold() // by a transmission that goes on
		held[0].letGo()
		if _, err := read(tr, large, int64(len(large))); !errors.As(err, &overload) {
			t.Errorf("a body that is still in use is let go of: %v", err)
		}
		held[0].letGo()
		s, err := read(tr, large, -1)
		need.Must(t, err == nil && bytes.Equal(s.data, large), "after one was let go of: %v", err)
		for _, s := range append(held[1:], s) {
			s.letGo()
		}
		need.That(t, tr.bodies.used == 0, "%d bytes are never let go of", tr.bodies.used)
	})
}

// TestI11_CorpusOfSecretsInQueries: of the secrets in an address none is kept, and
// what only looks like one stays.
func TestI11_CorpusOfSecretsInQueries(t *testing.T) {
	corpus := need.Get(os.ReadFile("../../redact/testdata/secrets.txt"))(t)
	r, tested := record.New(ledgertest.NewMemory(time.Now, nil), nil, record.Options{}), 0
	for _, line := range strings.Split(string(corpus), "\n") {
		text, ok := strings.CutPrefix(line, "query\t")
		if !ok {
			continue
		}
		tested++
		before, after, marked := strings.Cut(text, "«")
		hidden, rest, _ := strings.Cut(after, "»")
		query := before + hidden + rest
		in := need.Get(need.Get(inputOf(&http.Request{Method: "POST", URL: &url.URL{Scheme: "http", Host: "h", Path: "/x", RawQuery: query}, Header: http.Header{}}, nil))(t).encoded())(t)
		req := need.Get(r.BeginRequest(t.Context(), record.Request{Kind: "post", Input: in, Secret: secretsIn(query)}))(t)
		if kept := string(req.Input); marked == !strings.Contains(kept, "redacted:") || marked && strings.Contains(kept, hidden) {
			t.Errorf("%s: kept %s", line, kept)
		}
	}
	need.That(t, tested >= 16, "%d queries are few", tested)
}
