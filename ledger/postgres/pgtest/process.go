package pgtest

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account is who runs PostgreSQL where the tests run as root, as whom it refuses to run.
func account() *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, _ := strconv.ParseUint(u.Uid, 10, 32)
			gid, _ := strconv.ParseUint(u.Gid, 10, 32)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	return nil
}

// hand gives a directory to that account.
func hand(dir string) error {
	as := account()
	if as == nil {
		return nil
	}
	return os.Chown(dir, int(as.Uid), int(as.Gid))
}
