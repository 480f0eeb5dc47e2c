package procgroup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/boot"
)

// Here returns where the children of this process run.
func Here() ledger.Place {
	return ledger.Place{BootID: boot.ID(), PIDNamespace: namespace(), UID: max(0, os.Geteuid())}
}

// ofMachine stands between the name of a process namespace, of which each host has one
// like it, and what tells the machine. A container has no machine.
const ofMachine = " of "

var namespace = sync.OnceValue(func() string {
	name, machine := pidNamespace(), boot.Machine()
	if machine == "" {
		return name
	}
	id := sha256.Sum256([]byte("indoubt " + machine)) // the machine's own id is not told
	return name + ofMachine + hex.EncodeToString(id[:8])
})

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

// Ended reports whether the process that made an attempt is known to be gone: it ran under this
// kernel, in this process namespace, and no process that can still act has its id.
func Ended(a ledger.Attempt) bool {
	return a.PID > 0 && IsHere(a.Place) && noProcess(a.PID)
}

// IsHere reports whether a place is known, and is that of this process, whatever the account.
func IsHere(p ledger.Place) bool {
	here := Here()
	return p.BootID != "" && p.PIDNamespace != "" && p.BootID == here.BootID && p.PIDNamespace == here.PIDNamespace
}

// restarted returns nil when this host was restarted after the attempt: no process
// survives that. Its name alone does not tell a host: pods and clones share one.
func restarted(a ledger.Attempt) error {
	host, err := os.Hostname()
	switch {
	case err != nil || host != a.Host:
		return errors.New("they run on another host")
	case namespace() != a.PIDNamespace:
		return errors.New("they run on another host of the same name, or in a container")
	case !strings.Contains(a.PIDNamespace, ofMachine):
		return errors.New("they run on another host of the same name, or on this one before it was started: it has no id of its machine")
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
