// Package boot identifies the machine and its current start. It is a leaf: every
// package may import it, and it imports nothing of indoubt.
package boot

import (
	"bytes"
	"os"
	"sync"
)

// ID identifies the current start of the kernel. All processes get the same ID,
// also after the host was renamed; the next start has another one. It is "" where
// the system has none.
var ID = sync.OnceValue(id)

// Machine identifies the machine. It survives a new name and a new start. It is ""
// where the system has none, and in a container, where it would change with the
// image.
var Machine = sync.OnceValue(func() string {
	const first = "pid:[4026531836]" // the process ids of a machine (PROC_PID_INIT_INO)
	if ids, err := os.Readlink("/proc/self/ns/pid"); err != nil || ids != first {
		return ""
	}
	id, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(id))
})
