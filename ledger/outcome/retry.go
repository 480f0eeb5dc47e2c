package outcome

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"syscall"
	"time"

	"indoubt/ledger"
)

const (
	backoffMin = 500 * time.Millisecond // where the kind states none
	backoffMax = 30 * time.Second
)

// Retry is how often, and at what pace, a recorder may follow an attempt with another one
// of its own.
type Retry struct {
	Max                    int // further attempts after the first
	BackoffMin, BackoffMax time.Duration
}

// Retryable reports whether attempt n may be followed by another one by itself, and after
// how long: a random time up to an exponentially growing bound ("full jitter"). It may after
// an attempt that was never sent, for a reason that may pass, and after an answer that was
// lost on the way; whether a repeat is safe then, the ledger's rules say. It may not after a
// refusal or any other answer, nor beyond the kind's retry.max.
func Retryable(r Retry, n int, s ledger.SettleRequest, a ledger.Answer) (wait time.Duration, ok bool) {
	passes := s.Proof == ledger.NeverSent && s.Outcome == ledger.OutcomeFailed && unsent(a) ||
		s.Outcome == ledger.OutcomeUncertain && lost(a)
	if !passes || n < 1 || n > r.Max {
		return 0, false
	}
	return backoff(r, n), true
}

// backoff is a random pause before the attempt after the nth.
func backoff(r Retry, n int) time.Duration {
	low, high := r.BackoffMin, r.BackoffMax
	if low <= 0 {
		low = backoffMin
	}
	if high <= 0 {
		high = max(backoffMax, low)
	}
	bound := high
	if n < 30 {
		bound = min(high, low<<(n-1))
	}
	if bound <= 0 { // the shift went over the edge
		bound = high
	}
	return rand.N(bound + 1)
}

// unsent reports whether what kept an attempt from being sent may pass.
func unsent(a ledger.Answer) bool {
	return a.Unconnected || a.Err != nil && unconnected(a.Err)
}

// lost reports whether no whole answer came to a request that was sent, for a reason other
// than that its caller or its program left. A command's end is always an answer.
func lost(a ledger.Answer) bool {
	return a.Err != nil && a.Via != "command" && !errors.Is(a.Err, context.Canceled)
}

// unconnected tells the errors of a connection that did not come about and may
// the next time.
func unconnected(err error) bool {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var unverified *tls.CertificateVerificationError
	var alert tls.AlertError
	var record tls.RecordHeaderError
	if errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid) || errors.As(err, &unverified) ||
		errors.As(err, &alert) || errors.As(err, &record) || errors.Is(err, context.Canceled) {
		return false
	}
	var dns *net.DNSError
	var timeout net.Error
	var op *net.OpError
	switch {
	case errors.As(err, &dns):
		return true
	case errors.As(err, &timeout) && timeout.Timeout():
		return !errors.Is(err, context.DeadlineExceeded) // ours, and not the network's
	case errors.As(err, &op) && op.Op == "dial":
		var address *net.AddrError
		return !errors.As(err, &address)
	}
	network := []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ETIMEDOUT, syscall.EAGAIN}
	return slices.ContainsFunc(network, func(e error) bool { return errors.Is(err, e) })
}
