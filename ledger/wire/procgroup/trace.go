package procgroup

import (
	"errors"
	"fmt"
	"os"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/boot"
)

// Here returns where the children of this process run.
func Here() ledger.Place {
	return ledger.Place{BootID: boot.ID(), PIDNamespace: pidNamespace(), UID: max(0, os.Geteuid())}
}

// Tell sets in the answer of a command what End or Left has found.
func Tell(a *ledger.Answer, left []Process, err error) {
	if a.Tree = ledger.TreeOpen; err == nil && len(left) == 0 {
		a.Tree = ledger.TreeEmpty
	}
	for _, p := range left {
		a.TreeForeign = a.TreeForeign || p.UID >= 0 && p.UID != os.Geteuid()
	}
}

// Trace searches for the processes of an attempt that another process has started,
// by the mark that they carry. An empty result without an error proves that none is
// running. An error says why that is not known here.
func Trace(a ledger.Attempt) ([]Process, error) {
	here := Here()
	switch {
	case a.BootID == "" || a.PIDNamespace == "":
		return nil, errors.New("it is not recorded where its processes run")
	case here.BootID != a.BootID:
		return nil, restarted(a)
	case here.PIDNamespace != a.PIDNamespace:
		return nil, errors.New("they run in another process namespace (a container, say)")
	case here.UID != 0 && here.UID != a.UID:
		return nil, fmt.Errorf("they run under another account (uid %d), whose processes only it and root can look into", a.UID)
	}
	for range 2 { // one search can miss a process that is started meanwhile
		found, err := marked(a, here)
		if err != nil || len(found) > 0 {
			return found, err
		}
	}
	return nil, nil
}

// restarted returns nil when this host was restarted after the attempt: no process
// survives that. A host of the same name that has been up for longer is another
// host.
func restarted(a ledger.Attempt) error {
	host, err := os.Hostname()
	if err != nil || host != a.Host {
		return errors.New("they run on another host")
	}
	up, err := uptime()
	if err != nil {
		return fmt.Errorf("when this host was started is not known: %w", err)
	}
	if !a.StartedAt.Before(time.Now().Add(-up)) {
		return errors.New("they run on another host of the same name, or its clock was set back")
	}
	return nil
}
