package connect

import (
	"context"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/wire/transmit"
)

// Send transmits a write once, over a connection of its own. A redirect comes
// back as the answer it is. Sent reports whether a byte of it left.
func (h *HTTP) Send(ctx context.Context, q HTTPRequest) ledger.Answer {
	req, err := newRequest(ctx, q)
	if err != nil {
		return transmit.Failed(ledger.Answer{Via: "http", BeganAt: time.Now()}, err)
	}
	sender := transmit.Sender{TLS: h.TLS, Dial: h.Dial}
	return sender.Send(req, transmit.Limits{Deadline: q.Deadline, Timeout: q.Timeout, MaxBody: q.MaxBody})
}
