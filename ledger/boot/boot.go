// Package boot tells which start of which machine this process runs on. It is a
// leaf: everything may import it, and it imports nothing of indoubt.
package boot

import (
	"bytes"
	"os"
	"sync"
)

// ID is the same for all processes of one running kernel, whatever the host is
// called, and another one after each start. It is "" where the system has none.
var ID = sync.OnceValue(id)

// Machine is the id of this machine, which stays when it is renamed and started
// again; "" where there is none, and in a container, whose id changes with its image.
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
