//go:build unix

package command

import (
	"syscall"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
)

// full is where nothing more can be written.
type full struct{ why error }

func (f full) Write([]byte) (int, error) { return 0, f.why }

// TestOutputThatCannotBeWritten is said, unless its reader wants no more.
func TestOutputThatCannotBeWritten(t *testing.T) {
	r, _ := real(t, record.KindRule{})
	for why, said := range map[error]error{syscall.ENOSPC: syscall.ENOSPC, syscall.EPIPE: nil} {
		res := need.Get(Run(t.Context(), r, Request{Request: record.Request{Kind: "post", Key: why.Error()}, Argv: sh("echo x"), Stdout: full{why}}))(t)
		need.Equal(t, res.Operation.State, ledger.Committed)
		need.Equal(t, res.Unwritten, said)
	}
}
