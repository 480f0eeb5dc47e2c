package connect

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"indoubt/ledger"
)

// class groups an error by what it is, never by what it says. Errors that mean
// that no connection came about have no class.
func class(err error) ledger.ErrorClass {
	var timeout net.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errFenced):
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
