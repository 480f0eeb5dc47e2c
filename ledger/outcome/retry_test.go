package outcome

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
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
	dial := func(err error) ledger.Answer {
		return ledger.Answer{Via: "http", Err: &net.OpError{Op: "dial", Net: "tcp", Err: err}}
	}
	certificate := ledger.Answer{Via: "http", Err: fmt.Errorf("tls: %w", x509.UnknownAuthorityError{})}
	for _, c := range []struct {
		name   string
		s      ledger.SettleRequest
		a      ledger.Answer
		ok     bool
		lowest time.Duration
	}{
		{"nobody listens", never, dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), true, 0},
		{"no such name", never, dial(&net.DNSError{Err: "no such host", IsNotFound: true}), true, 0},
		{"the handshake takes too long", never, ledger.Answer{Err: &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}}, true, 0},
		{"an address that is none", never, dial(&net.AddrError{Err: "missing port"}), false, 0},
		{"a bad certificate", never, certificate, false, 0},
		{"the caller left", never, dial(context.Canceled), false, 0},
		{"the deadline came first", never, ledger.Answer{Err: fmt.Errorf("dial: %w", context.DeadlineExceeded)}, false, 0},
		{"no such command", never, ledger.Answer{Via: "command", Err: exec.ErrNotFound}, false, 0},
		{"no such file", never, ledger.Answer{Via: "command", Err: fs.ErrNotExist}, false, 0},
		{"no room for a process", never, ledger.Answer{Via: "command", Err: os.NewSyscallError("fork", syscall.EAGAIN)}, true, 0},
		{"something of the caller's own", never, ledger.Answer{Err: errors.New("cannot encode")}, false, 0},
		{"429", refused, answered(429, ""), true, 0},
		{"503 with a time", refused, answered(503, "", "Retry-After", "2"), true, 2 * time.Second},
		{"403 with a time", refused, answered(403, "", "retry-after", "1"), true, time.Second},
		{"403", refused, answered(403, ""), false, 0},
		{"422", refused, answered(422, ""), false, 0},
		{"an hour", refused, answered(429, "", "Retry-After", "3600"), false, 0},
		{"a date, by their clock", refused, answered(429, "", "Retry-After", "Sun, 06 Nov 1994 08:49:40 GMT", "Date", "Sun, 06 Nov 1994 08:49:37 GMT"), true, 3 * time.Second},
		{"nonsense", refused, answered(400, "", "Retry-After", "soon"), false, 0},
		{"a command that says later", refused, exited(75, "", ""), true, 0},
		{"curl without a connection", never, ledger.Answer{Sent: true, Exited: true, Exit: 7, Unconnected: true}, true, 0},
		{"another exit code", refused, exited(7, "", "no"), false, 0},
		{"in doubt, however it looks", ledger.SettleRequest{Outcome: ledger.OutcomeUncertain}, answered(429, "", "Retry-After", "1"), false, 0},
		{"committed", ledger.SettleRequest{Outcome: ledger.OutcomeCommitted}, answered(200, "", "Retry-After", "1"), false, 0},
		{"failed without proof", ledger.SettleRequest{Outcome: ledger.OutcomeFailed}, answered(429, ""), false, 0},
	} {
		for range 20 {
			wait, ok := Retryable(rule, 1, c.s, c.a)
			if ok != c.ok || ok && (wait < c.lowest || wait > c.lowest+time.Second) {
				t.Errorf("%s: %s, %v", c.name, wait, ok)
				break
			}
		}
	}
	_, ok := Retryable(rule, 3, refused, answered(429, ""))
	need.That(t, !ok, "beyond the kind's bound")
	_, ok = Retryable(Retry{}, 1, refused, answered(429, ""))
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
