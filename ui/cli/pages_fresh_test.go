//go:build soak

package cli_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// Who comes with nothing but Go, git and make builds indoubt and sees the demonstration, and then
// every command of the pages runs, with what that program built. INDOUBT_FRESH=1 for this;
// INDOUBT_FRESH=long also lints, tests and measures there.
func TestThePagesOnANewSystem(t *testing.T) {
	how := os.Getenv("INDOUBT_FRESH")
	if how != "1" && how != "long" {
		t.Skip("it takes minutes: INDOUBT_FRESH=1")
	}
	need.Program(t, "mmdebstrap")
	need.That(t, os.Getuid() == 0, "only root can enter a system root")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
	defer cancel()
	must := func(name string, args ...string) string {
		t.Helper()
		began := time.Now()
		out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
		t.Logf("%s: %.60q", time.Since(began).Round(time.Second), args[len(args)-1])
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	root := filepath.Join(t.TempDir(), "root")
	must("mmdebstrap", "--aptopt=Acquire::Check-Valid-Until false", "--variant=minbase", "--mode=root", "--include=git,make,ca-certificates", "stable", root)
	env := strings.Fields(must("go", "env", "GOROOT", "GOMODCACHE"))
	// Go and what the module proxy gave are lent, read-only: they are the same everywhere.
	enter := "mount --bind -o ro " + env[0] + " $0/usr/local/go && mount --bind -o ro " + env[1] + "/cache/download $0/proxy && mount -t proc proc $0/proc && " +
		`exec chroot $0 /usr/bin/env -i PATH=/usr/local/go/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 INDOUBT_FRESH=inside ` +
		`INDOUBT_TEST_PROGRAM=/root/.local/bin/indoubt GOFLAGS=-modcacherw GOPROXY=file:///proxy,https://proxy.golang.org bash -ec "$1"`
	in := func(script string) string {
		t.Helper()
		return must("unshare", "--mount", "--pid", "--fork", "bash", "-c", enter, root, script)
	}
	for _, dir := range []string{"usr/local/go", "proxy"} {
		need.OK(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	// The page's clone is of this checkout.
	must("git", "clone", "-q", "--bare", "../..", filepath.Join(root, "src/indoubt"))
	in("git config --global safe.directory '*' && git config --global url.file:///src/.insteadOf https://git.example.com/")
	for _, page := range append(pages, pagesOfOthers...) {
		for _, b := range need.Blocks(t, "../../"+page, "") {
			if b.Language == "sh-make" || b.Language == "sh-long" && how == "long" {
				at := "cd ~/indoubt\n"
				if strings.HasPrefix(b.Text, "git clone ") {
					at = "cd ~\n"
				}
				t.Logf("%s:%d\n%s", page, b.Line, in(at+b.Text))
			}
		}
	}
	// The rest calls what a page names: curl, Python and SQLite's shell.
	must("cp", "/etc/resolv.conf", filepath.Join(root, "etc"))
	in("apt-get -qq -o Acquire::Check-Valid-Until=false update && apt-get -qq install -y --no-install-recommends curl python3 python3-requests sqlite3")
	must("cp", need.Get(os.Executable())(t), filepath.Join(root, "root/cli.test"))
	said := in("cd ~/indoubt/ui/cli && ~/cli.test -test.v -test.run '^TestThePagesRun$'")
	need.That(t, !strings.Contains(said, "--- SKIP") && strings.Count(said, "--- PASS") == len(pages)+1, "%s", said)
}
