package digestkey

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// nonblock keeps the opening of a pipe from waiting.
const nonblock = syscall.O_NONBLOCK

// open says who else may read or change a key, and what helps. As libpq has it for the
// key of a client: the file is this account's, mode 0600, or root's, mode 0640.
func open(info fs.FileInfo) (why, do string) {
	owner, mode, me := info.Sys().(*syscall.Stat_t).Uid, info.Mode().Perm(), os.Geteuid()
	most := fs.FileMode(0o600)
	if owner == 0 {
		most = 0o640
	}
	switch {
	case owner != 0 && int(owner) != me && me != 0:
		return "belongs to another account, which may change it", "chown " + fmt.Sprint(me)
	case mode&^most&0o077 != 0:
		return fmt.Sprintf("can be read by others (mode %#o)", mode), fmt.Sprintf("chmod %o", most)
	}
	return "", ""
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
