//go:build soak

package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// The units that are shipped, with the drop-in of the page, are those systemd takes.
func TestTheUnitsOfSystemd(t *testing.T) {
	p := newPage(t)
	t.Run("that dumps", theUnitThatDumps)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		need.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		need.OK(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "/usr/local/bin/indoubt", program)), 0o644))
		return path
	}
	started := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/indoubt (.*)$`)
	var units []string
	for _, path := range need.Get(filepath.Glob("../../reconcile/indoubt*.*"))(t) {
		name, text := filepath.Base(path), string(need.Get(os.ReadFile(path))(t))
		units = append(units, filepath.Join(dir, strings.Replace(name, "@.", "@stripe.", 1)))
		write(name, text)
		if name != "indoubt-dump.service" && strings.HasSuffix(name, ".service") {
			m := started.FindStringSubmatch(text)
			need.Must(t, m != nil, "%s starts nothing", name)
			if exit, out := p.indoubt(append(strings.Fields(m[1]), "--help")...); exit != 0 {
				t.Errorf("%s: exit %d of %q\n%s", name, exit, m[1], out)
			}
			write(name+".d/ledger.conf", blocksOn(t, "reconcile/README.md", "ini")[0])
		}
	}
	need.Equal(t, len(units), 6, units)
	need.Program(t, "systemd-analyze")
	out, err := exec.Command("systemd-analyze", append([]string{"verify", "--man=no", "--recursive-errors=no"}, units...)...).CombinedOutput()
	need.That(t, err == nil && !strings.Contains(string(out), dir), "%v\n%s", err, out)
	// It sees a mistake at all.
	wrong := write("wrong.service", "[Service]\nExecStart=/usr/local/bin/indoubt\nProtectSystems=strict\n")
	if out, _ := exec.Command("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", wrong).CombinedOutput(); !strings.Contains(string(out), "ProtectSystems") {
		t.Errorf("a mistake passes: %s", out)
	}
}

// theUnitThatDumps makes dumps that can be restored. What a kill left goes, and so do the oldest once it was read back.
func theUnitThatDumps(t *testing.T) {
	need.Program(t, "pg_dump", "pg_restore", "xargs")
	s := bareSite(t)
	s.ledger = pgtest.URL(t)
	s.env = append(s.env, "INDOUBT_LEDGER="+s.ledger)
	s.must(0, "init")
	text := string(need.Get(os.ReadFile("../../reconcile/indoubt-dump.service"))(t))
	_, script, _ := strings.Cut(text, "ExecStart=/bin/sh -ec '")
	script, _, _ = strings.Cut(script, "'\n")
	script = strings.NewReplacer("\\\n", "\n", "$$", "$", "%%", "%").Replace(script)
	in := t.TempDir()
	for n := range 14 {
		need.OK(t, os.WriteFile(filepath.Join(in, fmt.Sprintf("ledger-202001%02dT031500Z.dump", n+1)), nil, 0o600))
	}
	need.OK(t, os.WriteFile(filepath.Join(in, "ledger-20200130T031500Z.dump.part"), nil, 0o600))
	dump := func(ledger string) error {
		cmd := exec.Command("/bin/sh", "-ec", script)
		cmd.Dir, cmd.Env = in, append(s.env, "PATH="+os.Getenv("PATH"), "INDOUBT_LEDGER="+ledger, "KEEP=14")
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		return err
	}
	need.That(t, dump("postgres://nobody@127.0.0.1:1/none") != nil, "a dump of what is not there")
	made := need.Get(filepath.Glob(filepath.Join(in, "ledger-2020*.dump")))(t)
	need.Equal(t, len(made), 14, "old ones go for one that failed")
	need.OK(t, dump(s.ledger))
	made = need.Get(filepath.Glob(filepath.Join(in, "*")))(t)
	need.That(t, len(made) == 14 && strings.HasSuffix(made[0], "ledger-20200102T031500Z.dump"), "there are %v", made)
	out := need.Get(exec.Command("pg_restore", "--list", made[13]).Output())(t)
	need.Contains(t, string(out), "TABLE DATA indoubt ev")
}

// The image holds one static file, and is not root's.
func TestTheImage(t *testing.T) {
	text := string(need.Get(os.ReadFile("../../reconcile/Dockerfile"))(t))
	_, last, found := strings.Cut(text, "\nFROM scratch\n")
	if !found || strings.Contains(last, "FROM ") || strings.Contains(last, "RUN ") || !strings.Contains(last, "\nUSER 65532:65532\n") {
		t.Fatalf("it is not made of nothing, or is root's:\n%s", text)
	}
	words := func(instruction string) (args []string) {
		m := regexp.MustCompile(`(?m)^` + instruction + ` (\[.*\])$`).FindStringSubmatch(last)
		need.Must(t, m != nil && json.Unmarshal([]byte(m[1]), &args) == nil, "%s: %q", instruction, m)
		return args
	}
	env := regexp.MustCompile(`(?m)^ENV (.*)$`).FindStringSubmatch(last)
	if os.Geteuid() != 0 {
		t.Skip("only root may enter another root directory")
	}
	root := place(t)
	openToAll(root)
	for _, dir := range []string{"ledger", "proc"} {
		need.OK(t, os.Mkdir(filepath.Join(root, dir), 0o755))
	}
	need.OK(t, os.Chown(filepath.Join(root, "ledger"), 65532, 65532))
	need.OK(t, exec.Command("cp", program, filepath.Join(root, "indoubt")).Run()) // a file that this process writes may be open in a child of another test, and busy
	inside := func(args ...string) (int, string) {
		cmd := exec.Command(words("ENTRYPOINT")[0], args...)
		cmd.Env, cmd.Dir = strings.Fields(env[1]), "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		out, err := cmd.CombinedOutput()
		need.Must(t, cmd.ProcessState != nil, "%v", err)
		return cmd.ProcessState.ExitCode(), string(out)
	}
	for _, c := range []struct {
		exit int
		says string
		args []string
	}{
		{0, "made a ledger at /ledger/ledger.db", []string{"init"}},
		{0, "handle", []string{"begin", "--kind", "post", "--key", "k"}},
		{0, "post", []string{"list"}},
		{0, "Usage", append(words("CMD"), "--help")},
	} {
		if exit, out := inside(c.args...); exit != c.exit || !strings.Contains(out, c.says) {
			t.Errorf("%q: exit %d\n%s", c.args, exit, out)
		}
	}

	if out, err := exec.Command("docker", "info").CombinedOutput(); err != nil {
		t.Logf("the image itself is not built: %v\n%s", err, out)
		return
	}
	need.OK(t, os.Mkdir(filepath.Join(root, "context"), 0o755))
	need.OK(t, os.Link(filepath.Join(root, "indoubt"), filepath.Join(root, "context", "indoubt")))
	out := need.Get(exec.Command("docker", "build", "-q", "-f", "../../reconcile/Dockerfile", filepath.Join(root, "context")).Output())(t)
	image := strings.TrimSpace(string(out))
	defer func() { _ = exec.Command("docker", "rmi", image).Run() }()
	if out, err := exec.Command("docker", "run", "--rm", image, "init").CombinedOutput(); err != nil || !strings.Contains(string(out), "made a ledger") {
		t.Errorf("%v %s", err, out)
	}
}
