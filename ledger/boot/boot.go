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
var ID = sync.OnceValue(func() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(id))
})
