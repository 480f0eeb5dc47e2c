package httpproxy

import (
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
)

// TestI4_AFollowedRedirectIsOneOperation: a client that follows a redirect asks once more for what
// is in doubt, whichever of the two paths the policy names. It is the next attempt where a repeat
// cannot act twice, else it is held; what no policy names passes, and is raised beside the first.
func TestI4_AFollowedRedirectIsOneOperation(t *testing.T) {
	for name, c := range map[string]struct {
		kinds          []string // paths that the policy names
		key            string
		safe           bool
		sent, recorded int
		status         int
		conflict       ledger.Conflict
	}{
		"both paths are named":     {[]string{"/c", "/c2"}, "", false, 1, 1, 409, ""},
		"the first is":             {[]string{"/c"}, "", false, 1, 1, 409, ""},
		"the first is, with a key": {[]string{"/c"}, "K", false, 1, 1, 409, ""},
		"the second is, likewise":  {[]string{"/c2"}, "K", false, 1, 1, 409, ""},
		"the second is":            {[]string{"/c2"}, "", false, 2, 2, 201, ledger.ConflictMaybeTwice},
		"neither is":               {nil, "", false, 2, 2, 201, ledger.ConflictMaybeTwice},
		"neither is, with a key":   {nil, "K", false, 1, 1, 409, ""},
		"a repeat cannot act":      {[]string{"/c"}, "", true, 2, 1, 201, ""},
		"likewise, with a key":     {[]string{"/c"}, "K", true, 2, 1, 201, ""},
	} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, nil)
			up.does(func(u *upstream, conn net.Conn) {
				answer := whole("308 Permanent Redirect", "Location: https://127.0.0.1:"+(&url.URL{Host: u.l.Addr().String()}).Port()+"//c2?v=1\r\n", "")
				req, _ := u.take(conn)
				if req != nil && req.URL.Path != "/c" {
					answer = whole("201 Created", "Content-Type: application/json\r\n", `{"id":"ch_1"}`)
				}
				_, _ = io.WriteString(conn, answer)
			})
			named := func(path string) bool { return slices.Contains(c.kinds, path) }
			w := newWorld(t, up, setup{kind: func(_, _, path string) (string, bool) { return "kind" + path, named(path) }})
			w.rules = func(kind string) record.KindRule {
				_, path, _ := strings.Cut(kind, "kind")
				return record.KindRule{Named: named(path), Safe: c.safe}
			}
			first := w.do("POST", "/c", c.key, `{"inv":1}`)
			// The upstream names itself by another scheme, with a port and a needless slash.
			need.Must(t, first.status == 308 && first.header.Get("Location") == "/c2?v=1", "%d %v", first.status, first.header)
			for range 2 {
				next := w.do("POST", first.header.Get("Location"), c.key, `{"inv":1}`)
				need.That(t, next.status == c.status, "%d %s", next.status, next.body)
				if c.status == 409 {
					need.That(t, next.problem(t).Operation == first.header.Get("Indoubt-Operation"), "%s", next.body)
				} else {
					need.That(t, w.about(next).Operation.State == ledger.Committed && w.about(next).Operation.Conflict == c.conflict, "%+v", w.about(next).Operation)
					break
				}
			}
			need.Equal(t, up.total(), c.sent, "sent")
			need.Equal(t, len(w.all()), c.recorded, "operations")
			last, _ := up.last()
			need.That(t, c.status == 409 || last.URL.String() == "/c2?v=1", "it went to %s", last.URL)
			other := w.do("POST", "/c2?v=1", "", `{"inv":2}`)
			need.That(t, other.status == 201, "another one: %d %s", other.status, other.body)
		})
	}
}
