//go:build soak

package httpproxy

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
)

// TestAClientThatStopsReading does not keep the outcome from the ledger.
func init() {
	newStore = inFile
	streamed.pause, streamed.deadline = 400*time.Millisecond, 4*time.Second // a slow machine may stand still for a second
}

func TestAClientThatStopsReading(t *testing.T) {
	up := newUpstream(t, func(u *upstream, c net.Conn) {
		if req, _ := u.take(c); req == nil {
			return
		}
		part := strings.Repeat("x", 1<<20)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 33554432\r\n\r\n")
		for range 32 {
			if _, err := io.WriteString(c, part); err != nil {
				return
			}
		}
	})
	w := newWorld(t, up, setup{rule: record.KindRule{Deadline: 12 * time.Second}})
	c := need.Get(net.Dial("tcp", strings.TrimPrefix(w.url, "http://")))(t)
	defer c.Close()
	_ = c.(*net.TCPConn).SetReadBuffer(4096)
	_, _ = io.WriteString(c, "POST /a HTTP/1.1\r\nHost: h\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n")
	soon(t, "it is settled", func() bool {
		all := w.all()
		return len(all) == 1 && w.operation("").Operation.State != ledger.Pending
	})
	if o := w.operation("").Operation; o.State != ledger.Committed {
		t.Errorf("%s %s", o.State, o.Reason)
	}
}
