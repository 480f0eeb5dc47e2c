package roundtrip

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
)

// asked is a request to one of three hosts.
type asked struct {
	host                    int
	method, path, key, body string
	header                  [2]string
}

func (a asked) do(t *testing.T, client *http.Client, hosts []*shop) error {
	req := need.Get(http.NewRequestWithContext(t.Context(), a.method, hosts[a.host].URL+a.path, strings.NewReader(a.body)))(t)
	req.Header.Set("Content-Type", "application/json")
	for name, value := range map[string]string{HeaderKey: a.key, a.header[0]: a.header[1]} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := client.Do(req)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	return err
}

// What is another request goes out, whatever became of the one before it.
func TestWhatHoldsNothingElse(t *testing.T) {
	of := func(method, path, key string, header string, values ...string) (all []asked) {
		for i, v := range values {
			all = append(all, asked{method: method, path: path, key: key, body: fmt.Sprintf(`{"n":%d}`, i), header: [2]string{header, v}})
		}
		return all
	}
	hosts := func(key string) []asked {
		all := of("POST", "/hooks", key, "", "", "", "")
		for i := range all {
			all[i].host, all[i].body = i, `{}`
		}
		return all
	}
	same := func(all []asked) []asked {
		for i := range all {
			all[i].body = `{}`
		}
		return all
	}
	tenants := record.KindRule{Callers: []string{"X-Tenant-Id"}}
	byOrder := record.KindRule{Callers: []string{"X-Tenant-Id"}, KeyFrom: []string{"path"}, Named: true}
	numbered := of("PUT", "/file", "", "", "", "", "")
	for i := range numbered {
		numbered[i].path = fmt.Sprintf("/file?partNumber=%d&uploadId=u", i)
	}
	for name, c := range map[string]struct {
		rule  record.KindRule
		scope string
		asks  []asked
		again bool // the first one goes out again after the others, where its answer was lost
	}{
		"one event to three hosts":            {asks: hosts("evt_1")},
		"so, without a key":                   {asks: hosts("")},
		"so, in one scope":                    {asks: hosts("evt_1"), scope: "everybody"},
		"tenants, one key":                    {rule: tenants, asks: of("POST", "/orders", "order-1001", "X-Tenant-Id", "a", "b")},
		"tenants, one key and one body":       {rule: tenants, asks: same(of("POST", "/orders", "order-1001", "X-Tenant-Id", "a", "b"))},
		"so, in one scope for all":            {rule: tenants, asks: same(of("POST", "/orders", "order-1001", "X-Tenant-Id", "a", "b")), scope: "everybody"},
		"tenants, named by a field":           {rule: byOrder, asks: same(of("POST", "/orders", "", "X-Tenant-Id", "a", "b"))},
		"so, one without a tenant":            {rule: tenants, asks: same(of("POST", "/orders", "order-1001", "X-Tenant-Id", "a", ""))},
		"credentials that count, no key":      {rule: record.KindRule{Callers: []string{"Authorization"}}, asks: same(of("POST", "/orders", "", "Authorization", "Bearer a", "Bearer b"))},
		"tenants without a key":               {rule: tenants, asks: same(of("POST", "/orders", "", "X-Tenant-Id", "a", "b"))},
		"credentials, one key":                {asks: of("POST", "/orders", "order-1001", "Authorization", "Bearer a", "Bearer b")},
		"parts by Content-Range":              {asks: of("PUT", "/file", "", "Content-Range", "bytes 0-7/24", "bytes 8-15/24", "bytes 16-23/24"), again: true},
		"equal parts by Content-Range":        {asks: same(of("PUT", "/file", "", "Content-Range", "bytes 0-1/6", "bytes 2-3/6", "bytes 4-5/6")), again: true},
		"parts by number":                     {asks: numbered, again: true},
		"parts by Upload-Offset":              {asks: same(of("PATCH", "/file", "", "Upload-Offset", "0", "2", "4"))},
		"so, with POST":                       {asks: same(of("POST", "/file", "", "Upload-Offset", "0", "2", "4"))},
		"a token endpoint that is a read":     {asks: same(of("POST", "/token", "", "", "", "", "")), rule: record.KindRule{Access: "read", Named: true}},
		"one whose requests may be identical": {asks: same(of("POST", "/token", "", "", "", "", "")), rule: record.KindRule{Repeat: record.RepeatAllow, Named: true}},
	} {
		for _, first := range []string{"answered", "lost", "in flight"} {
			t.Run(name+", "+first, func(t *testing.T) {
				var n atomic.Int64
				stay := make(chan struct{})
				let := sync.OnceFunc(func() { close(stay) })
				answer := func(w http.ResponseWriter, r *http.Request) {
					switch {
					case n.Add(1) > 1 || first == "answered":
						_, _ = io.WriteString(w, `{"ok":true}`)
					case first == "lost":
						panic(http.ErrAbortHandler)
					default:
						<-stay
					}
				}
				up := []*shop{newShop(t, answer), newShop(t, answer), newShop(t, answer)}
				t.Cleanup(let)
				tr, client, m := testTransport(t, c.rule)
				tr.Scope = c.scope
				done := make(chan error, 1)
				go func() { done <- c.asks[0].do(t, client, up) }()
				if first != "in flight" {
					need.Equal(t, <-done != nil, first == "lost", "the first one failed")
				}
				eventually(t, "the first one", func() bool { return n.Load() == 1 })
				for _, a := range c.asks[1:] {
					need.OK(t, a.do(t, client, up))
				}
				if let(); first == "in flight" {
					need.OK(t, <-done)
				}
				need.Equal(t, n.Load(), int64(len(c.asks)), "sent")
				if first != "lost" || c.rule.Access == "read" || c.rule.Repeat != "" {
					return
				}
				err := c.asks[0].do(t, client, up)
				rec := need.Get(m.Read(t.Context(), ledger.Locator{ID: m.Changed()[0]}))(t)
				if c.again {
					need.That(t, err == nil && rec.Operation.State == ledger.Committed && rec.Operation.Conflict == ledger.NoConflict && len(rec.Attempts) == 2, "%v, %+v", err, rec.Operation)
					return
				}
				need.That(t, record.In(err).Answer == ledger.AnswerInDoubt && record.In(err).Operation.ID == rec.Operation.ID && len(rec.Attempts) == 1, "the lost one again: %v", err)
			})
		}
	}
}

// What was refused may be wanted again after another request had its path: a DELETE before
// something was made there, a PUT before its cause was mended.
func TestWhatWasRefusedIsWantedNow(t *testing.T) {
	var n atomic.Int64
	up := []*shop{newShop(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if n.Add(1) == 1 {
			w.WriteHeader(404)
		}
		_, _ = io.WriteString(w, `{"ok":true}`)
	})}
	for _, method := range []string{"DELETE", "PUT"} {
		n.Store(0)
		_, client, m := testTransport(t, record.KindRule{})
		this, other := asked{method: method, path: "/flag"}, asked{method: "PUT", path: "/flag", body: `{"on":true}`}
		for _, a := range []asked{this, other, this} {
			need.OK(t, a.do(t, client, up))
		}
		need.That(t, n.Load() == 3 && len(m.Changed()) == 3, "%s: sent %d, %d operations", method, n.Load(), len(m.Changed()))
	}
}

// What was asked for too often is asked for again, under the caller's key as well.
func TestWhatIsToComeAgain(t *testing.T) {
	for _, key := range []string{"", "k-1"} {
		var n atomic.Int64
		s := newShop(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if n.Add(1) < 3 {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusTooManyRequests)
			}
			_, _ = io.WriteString(w, `{}`)
		})
		_, client, m := testTransport(t, record.KindRule{})
		for range 3 {
			need.OK(t, (asked{method: "POST", path: "/a", key: key, body: `{}`}).do(t, client, []*shop{s}))
		}
		rec := need.Get(m.Read(t.Context(), ledger.Locator{ID: m.Changed()[0]}))(t)
		need.That(t, n.Load() == 3 && rec.Operation.State == ledger.Committed && len(rec.Attempts) == 3, "key %q: sent %d, %s after %d", key, n.Load(), rec.Operation.State, len(rec.Attempts))
	}
}

// I4: an SDK signs anew at each try, and a PUT that is in doubt is sent again all the same.
func TestI4_APutUnderARenewedCredential(t *testing.T) {
	for _, key := range []string{"", "k-1"} {
		var n atomic.Int64
		up := []*shop{newShop(t, func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1) == 1 {
				panic(http.ErrAbortHandler)
			}
		})}
		_, client, m := testTransport(t, record.KindRule{})
		put := asked{method: "PUT", path: "/object", key: key, body: `{"n":1}`, header: [2]string{"Authorization", "Signature one"}}
		need.That(t, put.do(t, client, up) != nil, "an answer came")
		put.header[1] = "Signature two"
		need.OK(t, put.do(t, client, up))
		rec := need.Get(m.Read(t.Context(), ledger.Locator{ID: m.Changed()[0]}))(t)
		need.That(t, n.Load() == 2 && len(rec.Attempts) == 2 && rec.Operation.State == ledger.Committed, "key %q: sent %d, %+v", key, n.Load(), rec.Operation)
	}
}

// I4: one key for a deploy and for its announcement names two operations, and each keeps it as
// long as its own kind says.
func TestI4_OneKeyInTwoKinds(t *testing.T) {
	for first, want := range map[string]string{"answered": "replayed", "lost": "held", "redirected": "held"} {
		s := newShop(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path != "/deploy" || first == "answered":
			case first == "lost":
				panic(http.ErrAbortHandler)
			default:
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(http.StatusTemporaryRedirect)
			}
		})
		clock := ledgertest.NewClock()
		tr, client, _ := testTransport(t, record.KindRule{})
		tr.Kind = func(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, "/") }
		tr.Recorder = record.New(ledgertest.NewBreakable(clock), record.Rules(func(kind string) record.KindRule {
			return record.KindRule{Named: true, TTL: map[string]time.Duration{"deploy": 0, "notify": time.Hour}[kind]}
		}), record.Options{Clock: clock.Now})
		need.That(t, sentBy(t, client, s, "/deploy", "v7") == "sent" && sentBy(t, client, s, "/notify", "v7") == "sent", "%s: one of the two was held", first)
		need.Equal(t, sentBy(t, client, s, "/deploy", "v7"), want, first)
		need.Equal(t, sentBy(t, client, s, "/notify", "v7"), "replayed", first)
		clock.Advance(2 * time.Hour)
		need.Equal(t, sentBy(t, client, s, "/deploy", "v7"), want, first+", when the other name is over")
	}
}
