package procgroup

import (
	"errors"
	"os"
	"testing"

	"indoubt/ledger"
)

// TestTell: what cannot be told is not empty, and another account's process is
// told from one's own.
func TestTell(t *testing.T) {
	mine := max(0, os.Geteuid())
	for name, c := range map[string]struct {
		left    []Process
		err     error
		tree    ledger.Tree
		foreign bool
	}{
		"nothing":                 {nil, nil, ledger.TreeEmpty, false},
		"cannot tell":             {nil, errors.New("no /proc"), ledger.TreeOpen, false},
		"one of this account":     {[]Process{{PID: 7, UID: mine}}, nil, ledger.TreeOpen, false},
		"one of nobody knows who": {[]Process{{PID: 7, UID: -1}}, nil, ledger.TreeOpen, false},
		"one of another account":  {[]Process{{PID: 7, UID: mine}, {PID: 8, UID: mine + 1}}, nil, ledger.TreeOpen, true},
	} {
		var a ledger.Answer
		if Tell(&a, c.left, c.err); a.Tree != c.tree || a.TreeForeign != c.foreign {
			t.Errorf("%s: %q, %v", name, a.Tree, a.TreeForeign)
		}
	}
}
