package mcpproxy

import (
	"context"
	"fmt"
	"time"
)

// holding is a call that waits here for what an identical one did.
type holding struct {
	stop  context.CancelFunc
	ended chan struct{} // closed when the client is told of it no more
}

// keepWaiting lets the lines behind the call pass, and bounds from the first time on
// how long the call waits: clients give up after a minute, and would never hear what
// became of it. A client that gave a progressToken is told that it still waits.
func (c *call) keepWaiting(why string) {
	c.aside()
	if c.hold != nil {
		return
	}
	c.hold = &holding{ended: make(chan struct{})}
	c.ctx, c.hold.stop = context.WithTimeout(c.ctx, c.p.o.HoldPatience)
	meta, _ := once(c.meta)
	token := meta["progressToken"]
	if !plainID(token) {
		close(c.hold.ended)
		return
	}
	told := c.ctx // the call's may be another one later
	go func(ended chan<- struct{}) {
		defer close(ended)
		// In steps that stay below what the server itself may tell of later.
		for n := 1; pause(told, c.p.o.Progress); n++ {
			c.p.reply(fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%g,"message":%s}}`,
				token, float64(n)/1e6, encode(why)))
		}
	}(c.hold.ended)
}

// end stops the waiting, and returns when nothing more is said of it.
func (h *holding) end() {
	if h == nil {
		return
	}
	h.stop()
	<-h.ended
}

// pause waits, and reports false when the context ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
