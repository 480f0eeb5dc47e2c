package httpproxy

import (
	"fmt"
	"io"
	"net"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// asking is a request, and what becomes of it: its answer is lost, or it is this status.
type asking struct {
	method, path, key, body string
	try                     int // what an SDK adds for itself differs at each
	upstream                int // 0: lost at the upstream, which the proxy answers with 502
}

func (a asking) headers() []string {
	n := fmt.Sprint(a.try)
	return []string{"Authorization", "AWS4-HMAC-SHA256 Credential=me, Signature=" + n, "X-Amz-Date", "20261128T00000" + n + "Z", "Amz-Sdk-Invocation-Id", "one",
		"Amz-Sdk-Request", "attempt=" + n + "; max=3", "User-Agent", "aws-sdk/" + n, "X-Request-Id", n, "Traceparent", "00-" + n}
}

// What a repeat or another request is meant to do reaches the upstream: each of these goes
// out.
func TestWhatAProxyLetsGo(t *testing.T) {
	put := func(body string, upstream, try int) asking {
		return asking{method: "PUT", path: "/flag", body: body, upstream: upstream, try: try}
	}
	many := []asking{{method: "POST", path: "/orders", body: `{"n":-1}`}}
	for n := range 50 {
		many = append(many, asking{method: "POST", path: "/orders", body: fmt.Sprintf(`{"n":%d}`, n), upstream: 201})
	}
	for name, c := range map[string]struct {
		asks       []asking
		operations int
	}{
		"one key for deploy and notify": {[]asking{{method: "POST", path: "/deploy", key: "v7", body: `{}`}, {method: "POST", path: "/notify", key: "v7", body: `{}`, upstream: 201}}, 2},
		"so, answered":                  {[]asking{{method: "POST", path: "/deploy", key: "v7", body: `{}`, upstream: 201}, {method: "POST", path: "/notify", key: "v7", body: `{}`, upstream: 201}}, 2},
		"a nightly request":             {[]asking{{method: "POST", path: "/nightly", body: `{}`, upstream: 201}, {method: "POST", path: "/nightly", body: `{}`, upstream: 201}}, 2},
		"fifty beside one in doubt":     {many, 51},
		"a PUT that an SDK repeats":     {[]asking{put(`{"v":1}`, 0, 1), put(`{"v":1}`, 0, 2), put(`{"v":1}`, 200, 3)}, 1},
		"a DELETE that an SDK repeats":  {[]asking{{method: "DELETE", path: "/flag"}, {method: "DELETE", path: "/flag", upstream: 204, try: 2}}, 1},
		"a rollback":                    {[]asking{put(`{"v":1}`, 200, 1), put(`{"v":2}`, 200, 1), put(`{"v":1}`, 200, 1)}, 3},
		"a rollback beside a doubt":     {[]asking{put(`{"v":1}`, 200, 1), put(`{"v":2}`, 0, 1), put(`{"v":1}`, 200, 1)}, 3},
		"a rollback after a repeat":     {[]asking{put(`{"v":1}`, 0, 1), put(`{"v":1}`, 200, 2), put(`{"v":2}`, 200, 1), put(`{"v":1}`, 200, 1)}, 3},
		"a cause that was mended":       {[]asking{{method: "POST", path: "/orders", body: `{}`, upstream: 422}, {method: "POST", path: "/orders", body: `{}`, upstream: 201}}, 1},
		"so, in other words":            {[]asking{{method: "POST", path: "/orders", body: `{}`, upstream: 500}, {method: "POST", path: "/orders", body: `{"a":1}`, upstream: 201}}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, nil)
			w := newWorld(t, up, setup{kind: func(_, _, path string) (string, bool) { return path[1:], path == "/deploy" || path == "/notify" }})
			for i, a := range c.asks {
				up.does(func(u *upstream, c net.Conn) {
					if req, _ := u.take(c); req == nil || a.upstream == 0 {
						resets(c)
						return
					}
					_, _ = io.WriteString(c, whole(fmt.Sprint(a.upstream, " So"), "Content-Type: application/json\r\n", `{"error":null}`))
				})
				got := w.do(a.method, a.path, a.key, a.body, a.headers()...)
				want := a.upstream
				if want == 0 {
					want = 502
				}
				need.Must(t, got.status == want && up.total() == i+1, "%d: %d of the upstream's, want %d: %+v", i, up.total(), i+1, got)
			}
			if len(c.asks) == 2 && c.asks[1].path == "/notify" { // and each key has its own answer
				for _, a := range c.asks {
					got, want := w.do(a.method, a.path, a.key, a.body, a.headers()...), a.upstream
					if want == 0 {
						want = 409
					}
					need.That(t, got.status == want && up.total() == 2, "%s again: %+v", a.path, got)
				}
			}
			all := w.all()
			need.Equal(t, len(all), c.operations, "operations")
			for _, row := range all {
				need.Equal(t, row.Conflict, ledger.NoConflict, row.Title)
			}
		})
	}
}
