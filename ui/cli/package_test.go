//go:build soak

package cli_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// The Debian package that `make package` builds installs on a system root that holds
// nothing but Debian, and the demo, the page and the completion run from there.
func TestThePackageInstallsOnANewSystem(t *testing.T) {
	debs, _ := filepath.Glob("../../.build/dist/*_linux_" + runtime.GOARCH + ".deb")
	if len(debs) != 1 {
		t.Skip("there is no package: make package builds it")
	}
	if os.Getuid() != 0 {
		t.Skip("only root can enter a system root")
	}
	need.Program(t, "mmdebstrap")
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	must := func(name string, args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	root := filepath.Join(t.TempDir(), "root")
	// A mirror may be older than its lists are said to hold.
	must("mmdebstrap", "--aptopt=Acquire::Check-Valid-Until false", "--variant=minbase", "--mode=root", "--include=man-db,bash-completion", "stable", root)
	must("cp", debs[0], filepath.Join(root, "indoubt.deb"))
	in := func(script string) string {
		t.Helper()
		return must("unshare", "--mount", "--pid", "--fork", "--mount-proc="+filepath.Join(root, "proc"), "chroot", root, "/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "bash", "-c", script)
	}
	in("dpkg -i /indoubt.deb")
	need.Contains(t, in("indoubt demo --seed 4"), "payout 420.00", "TWICE")
	need.Contains(t, in("MANPAGER=cat man indoubt-run"), "Run a command as one recorded write")
	need.Contains(t, in(". /usr/share/bash-completion/bash_completion; _completion_loader indoubt; complete -p indoubt"), "indoubt")
	in("cd /tmp && indoubt run --kind t -- true && indoubt list --json && indoubt doctor")
	in("dpkg -r indoubt && ! command -v indoubt")
	if left := strings.TrimSpace(in("ls -d /usr/share/*/indoubt* /usr/share/man/man1/indoubt* 2>/dev/null; true")); left != "" {
		t.Errorf("the package leaves behind: %s", left)
	}
}
