//go:build soak

package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// unshare makes a process believe that it is on another machine: one with a name, an id, a
// start and a steady clock of its own. The process keeps its number, so that it is
// signalled as any other.
var unshare = []string{"unshare", "--uts", "--mount", "--time", "--boottime"}

const landing = `mount --bind "$1/boot" /proc/sys/kernel/random/boot_id && mount --bind "$1/machine" /etc/machine-id && hostname "$2" && shift 2 && exec "$@"`

var hosts atomic.Int64

// oneHost is what tests over hosts end with where no hosts can be made.
const oneHost = "no hosts can be made here, which takes root, unshare and mount: what is tested over hosts was tested on one"

// host is how the arguments begin with which a command runs on a new host, empty where
// none can be made: then there is one host, each test over hosts is skipped after it has
// passed on that one, and TestHostsAreApart fails where CI is set.
func host(t testing.TB) []string {
	t.Helper()
	n := hosts.Add(1)
	dir := t.TempDir()
	for name, id := range map[string]string{"boot": ledger.NewID(), "machine": strings.ReplaceAll(ledger.NewID(), "-", "")} {
		need.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(id+"\n"), 0o644))
	}
	openToAll(dir)
	args := append(append([]string{}, unshare...), fmt.Sprint(1000*n), "sh", "-c", landing, "host", dir, fmt.Sprint("host-", n))
	if !namespaces(args) {
		return nil
	}
	return args
}

// TestHostsAreApart: what the tests take for hosts have a name, a boot and a machine each.
func TestHostsAreApart(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		on := host(t)
		if on == nil && os.Getenv("CI") != "" {
			t.Fatal(oneHost)
		} else if on == nil {
			t.Skip(oneHost)
		}
		out := need.Get(exec.Command(on[0], append(on[1:], "cat", "/proc/sys/kernel/random/boot_id", "/etc/machine-id", "/proc/sys/kernel/hostname")...).Output())(t)
		said := strings.Fields(string(out))
		need.Must(t, len(said) == 3, "a host says %q", out)
		for _, name := range said {
			need.That(t, !seen[name], "two hosts are %s", name)
			seen[name] = true
		}
	}
}

var possible struct {
	once sync.Once
	yes  bool
}

func namespaces(args []string) bool {
	possible.once.Do(func() {
		possible.yes = exec.Command(args[0], append(args[1:len(args):len(args)], "true")...).Run() == nil
	})
	return possible.yes
}
