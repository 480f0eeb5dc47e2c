package transmit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"time"

	"indoubt/ledger"
)

// Class groups an error by what it is, never by what it says. Errors that mean
// that no connection came about have no class.
func Class(err error) ledger.ErrorClass {
	var timeout net.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrPastDeadline):
		return ledger.ClassDeadline
	case errors.Is(err, context.Canceled):
		return ledger.ClassKilled
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return ledger.ClassTimeout
	case errors.As(err, &timeout) && timeout.Timeout():
		return ledger.ClassTimeout
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED):
		return ledger.ClassReset
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return ledger.ClassEOF
	}
	return ""
}

// Failed closes an answer that did not come whole. An address in the error
// loses its query and its password, which may be secrets. What broke while it was
// written or read is said without its ports, which are others each time.
func Failed(a ledger.Answer, err error) ledger.Answer {
	var op *net.OpError
	if errors.As(err, &op) && (op.Op == "read" || op.Op == "write") {
		err = fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	var in *url.Error
	if errors.As(err, &in) {
		if u, bad := url.Parse(in.URL); bad == nil {
			err = fmt.Errorf("%s %s: %w", in.Op, WithoutSecrets(u), in.Err)
		} else {
			err = fmt.Errorf("%s: %w", in.Op, in.Err)
		}
	}
	a.Err, a.Class, a.EndedAt = err, Class(err), time.Now()
	return a
}

// WithoutSecrets is an address as it may be shown: without user, query and
// fragment.
func WithoutSecrets(u *url.URL) string {
	if u == nil {
		return ""
	}
	shown := *u
	shown.User, shown.RawQuery, shown.Fragment, shown.ForceQuery = nil, "", "", false
	return shown.String()
}
