package mcpwire

import (
	"context"
	"net"
	"time"

	"indoubt/ledger/wire/transmit"
)

// deadlineDial makes connections that refuse every byte after the deadline: a
// process may have been stopped since it was looked at.
func deadlineDial(dial func(context.Context, string, string) (net.Conn, error), deadline time.Time) func(context.Context, string, string) (net.Conn, error) {
	if dial == nil {
		dial = (&net.Dialer{Timeout: acceptWait, KeepAlive: 15 * time.Second}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return deadlineConn{conn, deadline}, nil
	}
}

type deadlineConn struct {
	net.Conn
	deadline time.Time
}

func (c deadlineConn) Write(p []byte) (int, error) {
	if transmit.Past(c.deadline) {
		return 0, transmit.ErrPastDeadline
	}
	return c.Conn.Write(p)
}
