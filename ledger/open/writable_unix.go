//go:build unix

package open

import "golang.org/x/sys/unix"

func writable(path string) bool { return unix.Access(path, unix.W_OK) == nil }
