// Package connect talks to downstreams: over HTTP and by running commands.
//
// Each connector exists twice over, because a read and a write want opposite
// things. A read may reuse connections, follow redirects on its own host and be
// repeated by the transport. A write is one transmission or none: the connector
// says truthfully whether a byte of it left this machine, and lets none leave
// after the deadline.
//
// The package is a leaf. It knows no operation, no policy and no verdict; what
// an answer means is decided elsewhere. It may import ledger for Answer and for
// the names of error classes.
package connect

import "time"

const (
	// DefaultTimeout bounds a whole exchange that names no timeout of its own.
	DefaultTimeout = 30 * time.Second
	// DefaultMaxBody bounds what is kept of an HTTP answer, in bytes.
	DefaultMaxBody = 4 << 20
	// DefaultMaxOutput bounds what is kept of each output stream of a command.
	DefaultMaxOutput = 1 << 20

	connectTimeout = 10 * time.Second // each of dialling and the TLS handshake
)

// past tells whether the deadline has passed. A deadline made by time.Now
// carries a monotonic reading, which setting the clock cannot move; the wall
// clock is asked too, because the monotonic one stands still while a machine
// is suspended. Whichever is later counts, so the fence errs towards not sending.
func past(deadline time.Time) bool {
	if deadline.IsZero() {
		return false
	}
	now := time.Now()
	return !now.Before(deadline) || !now.Round(0).Before(deadline.Round(0))
}

// ends is the moment an exchange must be over: the deadline or the timeout,
// whichever comes first.
func ends(began time.Time, timeout time.Duration, deadline time.Time) time.Time {
	if timeout <= 0 {
		if !deadline.IsZero() {
			return deadline
		}
		timeout = DefaultTimeout
	}
	end := began.Add(timeout)
	if !deadline.IsZero() && deadline.Before(end) {
		return deadline
	}
	return end
}
