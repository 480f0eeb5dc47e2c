package outcome

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"syscall"
	"time"

	"indoubt/ledger"
)

const (
	backoffMin = 500 * time.Millisecond // where the kind states none
	backoffMax = 30 * time.Second
	// longestWait is how long an answer's Retry-After is obeyed by waiting; a longer
	// one is left to the next caller.
	longestWait = 5 * time.Minute
	// exitTempFail is a command's way to say "later" (sysexits.h).
	exitTempFail = 75
)

// Retry is how often, and at what pace, an attempt that is known to have had
// no effect may be followed by another one. It never applies to one in doubt.
type Retry struct {
	Max                    int // further attempts after the first
	BackoffMin, BackoffMax time.Duration
}

// Retryable reports whether attempt n, which is known to have had no effect, may
// be followed by another one by itself, and after how long: a random time up to
// an exponentially growing bound ("full jitter"), after what Retry-After asked
// for. It is never so for an attempt in doubt, beyond the kind's retry.max, or
// where the same would happen again: a command that is not there, a certificate
// that does not hold, an answer that said no for good.
func Retryable(r Retry, n int, s ledger.SettleRequest, a ledger.Answer) (wait time.Duration, ok bool) {
	if s.Outcome != ledger.OutcomeFailed || s.Proof == "" || n < 1 || n > r.Max {
		return 0, false
	}
	asked, said := retryAfter(a)
	if asked > longestWait {
		return 0, false
	}
	if !said && !passing(s.Proof, a) {
		return 0, false
	}
	return asked + backoff(r, n), true
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

// passing reports whether what kept an attempt from having an effect may pass.
func passing(proof ledger.Proof, a ledger.Answer) bool {
	switch {
	case a.Status == http.StatusTooManyRequests, a.Status == http.StatusServiceUnavailable:
		return true
	case a.Exited:
		return a.Exit == exitTempFail || a.Unconnected
	case proof == ledger.NeverSent:
		return unconnected(a.Err)
	}
	return false
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
	for _, e := range []error{syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ETIMEDOUT, syscall.EAGAIN} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// retryAfter is what an answer's Retry-After asks for (RFC 9110, 10.2.3).
func retryAfter(a ledger.Answer) (wait time.Duration, said bool) {
	var text string
	for name, values := range a.Header {
		if textproto.CanonicalMIMEHeaderKey(name) == "Retry-After" && len(values) > 0 {
			text = strings.TrimSpace(values[0])
		}
	}
	if text == "" {
		return 0, false
	}
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	now := time.Now()
	if date := textproto.MIMEHeader(a.Header).Get("Date"); date != "" { // by their clock, not by ours
		if theirs, err := http.ParseTime(date); err == nil {
			now = theirs
		}
	}
	return max(0, at.Sub(now)), true
}
