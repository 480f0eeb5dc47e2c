package outcome

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

func TestWhatIsRetryable(t *testing.T) {
	rule := Retry{Max: 2, BackoffMin: time.Second, BackoffMax: 3 * time.Second}
	never := ledger.SettleRequest{Outcome: ledger.OutcomeFailed, Proof: ledger.NeverSent}
	refused := ledger.SettleRequest{Outcome: ledger.OutcomeFailed, Proof: ledger.Refused}
	uncertain := ledger.SettleRequest{Outcome: ledger.OutcomeUncertain}
	dial := func(err error) ledger.Answer {
		return ledger.Answer{Via: "http", Err: &net.OpError{Op: "dial", Net: "tcp", Err: err}}
	}
	certificate := ledger.Answer{Via: "http", Err: fmt.Errorf("tls: %w", x509.UnknownAuthorityError{})}
	for _, c := range []struct {
		name string
		s    ledger.SettleRequest
		a    ledger.Answer
		ok   bool
	}{
		{"nobody listens", never, dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), true},
		{"no such name", never, dial(&net.DNSError{Err: "no such host", IsNotFound: true}), true},
		{"the handshake takes too long", never, ledger.Answer{Err: &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}}, true},
		{"an address that is none", never, dial(&net.AddrError{Err: "missing port"}), false},
		{"a bad certificate", never, certificate, false},
		{"the caller left", never, dial(context.Canceled), false},
		{"the deadline came first", never, ledger.Answer{Err: fmt.Errorf("dial: %w", context.DeadlineExceeded)}, false},
		{"no such command", never, ledger.Answer{Via: "command", Err: exec.ErrNotFound}, false},
		{"no such file", never, ledger.Answer{Via: "command", Err: fs.ErrNotExist}, false},
		{"no room for a process", never, ledger.Answer{Via: "command", Err: os.NewSyscallError("fork", syscall.EAGAIN)}, true},
		{"something of the caller's own", never, ledger.Answer{Err: errors.New("cannot encode")}, false},
		{"curl without a connection", never, ledger.Answer{Via: "command", Sent: true, Exited: true, Exit: 7, Unconnected: true}, true},
		{"the answer was lost", uncertain, ledger.Answer{Via: "http", Sent: true, Err: syscall.ECONNRESET}, true},
		{"no answer in time", uncertain, ledger.Answer{Via: "http", Sent: true, Err: os.ErrDeadlineExceeded}, true},
		{"half an answer", uncertain, ledger.Answer{Via: "http", Sent: true, Status: 200, Err: io.ErrUnexpectedEOF}, true},
		{"the caller left before the answer", uncertain, ledger.Answer{Via: "http", Sent: true, Err: context.Canceled}, false},
		{"a command without an end", uncertain, ledger.Answer{Via: "command", Sent: true, Signal: "SIGKILL", Err: errors.New("killed")}, false},
		{"429 is an answer", refused, answered(429, "", "Retry-After", "0"), false},
		{"so is 503", refused, answered(503, "", "Retry-After", "0"), false},
		{"and 500", uncertain, answered(500, ""), false},
		{"a command that says later", refused, exited(75, "", ""), false},
		{"committed", ledger.SettleRequest{Outcome: ledger.OutcomeCommitted}, answered(200, "", "Retry-After", "1"), false},
		{"failed without proof", ledger.SettleRequest{Outcome: ledger.OutcomeFailed}, answered(429, ""), false},
	} {
		for range 20 {
			wait, ok := Retryable(rule, 1, c.s, c.a)
			if ok != c.ok || ok && (wait < 0 || wait > time.Second) {
				t.Errorf("%s: %s, %v", c.name, wait, ok)
				break
			}
		}
	}
	gone := dial(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	_, ok := Retryable(rule, 3, never, gone)
	need.That(t, !ok, "beyond the kind's bound")
	_, ok = Retryable(Retry{}, 1, never, gone)
	need.That(t, !ok, "a kind that allows none")
}

// TestBackoffIsJittered: pauses fill the whole span, and the span grows to its
// bound.
func TestBackoffIsJittered(t *testing.T) {
	rule := Retry{Max: 100, BackoffMin: 100 * time.Millisecond, BackoffMax: time.Second}
	for n, bound := range map[int]time.Duration{1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 4: 800 * time.Millisecond, 5: time.Second, 64: time.Second, 1000: time.Second} {
		low, high := time.Hour, time.Duration(0)
		for range 500 {
			d := backoff(rule, n)
			low, high = min(low, d), max(high, d)
		}
		need.That(t, low <= bound/10 && high >= bound*9/10 && high <= bound, "after %d: %s … %s, want 0 … %s", n, low, high, bound)
	}
	d := backoff(Retry{}, 3)
	need.That(t, d <= 4*backoffMin, "unstated: %s", d)
	d = backoff(Retry{BackoffMin: time.Hour}, 29)
	need.That(t, d <= time.Hour, "a minimum above the default's maximum: %s", d)
}
