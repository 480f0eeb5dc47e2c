package roundtrip

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
	"indoubt/ledger/wire/transmit"
)

// I3, I4: requests are compared by what they ask. In another spelling of its address or of its
// body the same one is held, or is the same under its key, and goes out as it was written; what
// asks something else goes out.
func TestI4_TheSameRequestInAnotherSpelling(t *testing.T) {
	const at = "http://shop.example"
	type sending struct{ url, body string }
	long := `{"a":"` + strings.Repeat("a", 300) + `"}`
	lines := func(body string) sending { return sending{at + "/bulk", body} }
	for name, c := range map[string]struct{ first, same, other sending }{
		"a letter that is encoded":      {sending{at + "/path", ""}, sending{at + "/pa%74h", ""}, sending{at + "/pa%2574h", ""}},
		"letters of an encoding":        {sending{at + "/a%2Fb", ""}, sending{at + "/a%2fb", ""}, sending{at + "/a/b", ""}},
		"a tilde":                       {sending{at + "/~me", ""}, sending{at + "/%7Eme", ""}, sending{at + "/%21me", ""}},
		"a sign that means something":   {sending{at + "/a%3Bb", ""}, sending{at + "/a%3bb", ""}, sending{at + "/a;b", ""}},
		"dots":                          {sending{at + "/a/b", ""}, sending{at + "/x/../a/./b", ""}, sending{at + "/a//b", ""}},
		"dots that are encoded":         {sending{at + "/b", ""}, sending{at + "/a/%2e%2E/b", ""}, sending{at + "/a/..%2Fb", ""}},
		"a slash at the end":            {sending{at + "/a/", ""}, sending{at + "/a/.", ""}, sending{at + "/a", ""}},
		"no path":                       {sending{at, ""}, sending{at + "/", ""}, sending{at + "//", ""}},
		"a port that goes without":      {sending{at + "/a", ""}, sending{at + ":80/a", ""}, sending{at + ":8080/a", ""}},
		"the letters of a host":         {sending{at + "/a", ""}, sending{"HTTP://Shop.EXAMPLE./a", ""}, sending{"http://shop2.example/a", ""}},
		"a query of nothing":            {sending{at + "/a", ""}, sending{at + "/a?", ""}, sending{at + "/a?b", ""}},
		"the order of a query":          {sending{at + "/a?b=1&c=2", ""}, sending{at + "/a?c=2&b=1", ""}, sending{at + "/a?b=2&c=1", ""}},
		"one name in a query":           {sending{at + "/a?b=1&b=2", ""}, sending{at + "/a?b=1&%62=2", ""}, sending{at + "/a?b=2&b=1", ""}},
		"a query that is no text":       {sending{at + "/a?b=%E9&c=d", ""}, sending{at + "/a?%62=%e9&c=d", ""}, sending{at + "/a?b=%E8&c=d", ""}},
		"lines":                         {lines("{\"index\":{}}\n{\"a\":1}\n"), lines("{\"index\":{}}\r\n{\"a\":1}\r\n"), lines("{\"index\":{}}\n{\"a\":2}\n")},
		"the end of the last one":       {lines("{\"a\":1}\n{\"b\":2}\n"), lines("{\"a\":1}\n{\"b\":2}"), lines("{\"b\":2}\n{\"a\":1}\n")},
		"members of a line":             {lines("{\"a\":1,\"b\":2}\n[]\n"), lines("{ \"b\":2.0, \"a\":1}\n[ ]\n"), lines("[{\"a\":1,\"b\":2},[]]")},
		"one line":                      {lines("{\"a\":1}\n"), lines("{\"a\": 1}\r\n"), lines("{\"a\":1}\n{\"a\":1}\n")},
		"an empty line":                 {lines("{\"a\":1}\n{\"b\":1}\n"), lines("{\"a\":1}\n{\"b\":1}\n"), lines("\n{\"a\":1}\n\n{\"b\":1}\n")},
		"lines of which one is no JSON": {lines("{\"a\":1}\nb\n"), lines("{\"a\":1}\nb\n"), lines("{\"a\":1}\r\nb\r\n")},
		"many of them":                  {lines(strings.Repeat(long+"\n", 1000)), lines(strings.Repeat(long+"\r\n", 1000)), lines(strings.Repeat(long+"\n", 1001))},
	} {
		for _, key := range []string{"", "k-1"} {
			t.Run(name+" "+key, func(t *testing.T) {
				var n atomic.Int64
				var last atomic.Value
				s := newShop(t, func(_ http.ResponseWriter, r *http.Request) {
					if last.Store(r.RequestURI); n.Add(1) == 1 {
						panic(http.ErrAbortHandler)
					}
				})
				tr, client, m := testTransport(t, record.KindRule{})
				tr.Sender = transmit.Sender{Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
				}}
				send := func(one sending, key string) error {
					req := need.Get(http.NewRequestWithContext(t.Context(), "POST", one.url, strings.NewReader(one.body)))(t)
					req.Header.Set("Content-Type", "application/x-ndjson")
					if key != "" {
						req.Header.Set(HeaderKey, key)
					}
					resp, err := client.Do(req)
					if err == nil {
						_, err = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
					return err
				}
				need.That(t, send(c.first, key) != nil && n.Load() == 1, "the first one")
				err := send(c.same, key)
				need.That(t, asDoubt(err) && n.Load() == 1, "the same: %v, sent %d", err, n.Load())
				if key != "" {
					need.That(t, asDoubt(send(c.same, "k-2")) && n.Load() == 1, "so, under another key")
				}
				if key != "" { // another request has another key
					key = "k-3"
				}
				need.That(t, send(c.other, key) == nil && n.Load() == 2, "another one: sent %d", n.Load())
				need.That(t, len(m.Changed()) == 2, "%d operations", len(m.Changed()))
				rec := need.Get(m.Read(t.Context(), ledger.Locator{ID: m.Changed()[1]}))(t)
				need.That(t, strings.HasSuffix(c.other.url, last.Load().(string)), "it was sent as %s", last.Load())
				kept := rec.Operation.Request
				need.That(t, kept.Target == last.Load() || kept.Lost != "", "it is kept as %s", kept.Target)
			})
		}
	}
}

// A PUT in another spelling of its path replaces the same thing.
func TestAPathIsReplacedInAnotherSpelling(t *testing.T) {
	s := newShop(t, func(http.ResponseWriter, *http.Request) {})
	_, client, m := testTransport(t, record.KindRule{})
	for i, path := range []string{"/flag", "/fl%61g"} {
		need.OK(t, (asked{method: "PUT", path: path, body: []string{`{"on":true}`, `{"on":false}`}[i]}).do(t, client, []*shop{s}))
	}
	var targets []string
	for _, id := range m.Changed() {
		targets = append(targets, need.Get(m.Read(t.Context(), ledger.Locator{ID: id}))(t).Operation.Target)
	}
	need.That(t, len(targets) == 2 && targets[0] == targets[1], "%q", targets)
}

func asDoubt(err error) bool {
	return record.In(err).Answer == ledger.AnswerInDoubt
}

// A person sends what was recorded: to the host as it was written.
func TestWhatIsRecordedIsSpelledAsItWasSent(t *testing.T) {
	s := newShop(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	tr, client, m := testTransport(t, record.KindRule{})
	tr.Sender = transmit.Sender{Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
	}}
	_, err := client.Post("http://shop.example.:80/a?", "application/json", strings.NewReader(`{"a":1}`))
	need.That(t, err != nil, "it was answered")
	page := need.Get(m.Page(t.Context(), ledger.Query{Tab: ledger.TabAll, Limit: 9}))(t)
	need.Must(t, len(page.Rows) == 1, "%d rows", len(page.Rows))
	was := need.Get(m.Read(t.Context(), ledger.Locator{ID: page.Rows[0].ID}))(t).Operation.Request
	need.Equal(t, was.Origin+was.Target, "http://shop.example.:80/a?")
}
