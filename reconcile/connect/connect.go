// Package connect talks to downstreams: over HTTP, by running commands, through
// MCP servers and in SQL.
//
// Each connector but SQL, which only reads, exists twice over, because a read and a
// write want opposite things. A read may reuse connections, follow redirects on its own host and be
// repeated by the transport. A write is one transmission or none: the connector
// says truthfully whether a byte of it left this machine, and lets none leave
// after the deadline.
//
// It knows no operation and no verdict; what an answer means is decided elsewhere. It may
// import policy for requests, and ledger for Answer and for the names of error classes.
package connect

import (
	"context"
	"errors"
	"fmt"

	"indoubt/ledger"
	"indoubt/ledger/wire/transmit"
)

// Mistaken marks an error that lies in the request itself: a statement the
// database does not understand, a tool that may not be called. It says nothing
// about how the downstream is, and the same again brings the same.
type Mistaken struct{ Err error }

func (e *Mistaken) Error() string { return "it cannot be asked like this: " + e.Err.Error() }
func (e *Mistaken) Unwrap() error { return e.Err }

// failed closes an answer that did not come. When the time was up, that is the reason,
// whatever a driver or a server makes of it.
func failed(a ledger.Answer, ctx context.Context, err error) ledger.Answer {
	if ctx.Err() != nil && !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w (%w)", ctx.Err(), err)
	}
	return transmit.Failed(a, err)
}
