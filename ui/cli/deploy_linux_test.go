//go:build soak

package cli_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"indoubt/ledger/need"
)

// The units that are shipped, with the drop-in of the page, are those systemd takes.
func TestTheUnitsOfSystemd(t *testing.T) {
	p := newPage(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		need.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		need.OK(t, os.WriteFile(path, []byte(strings.ReplaceAll(text, "/usr/local/bin/indoubt", program)), 0o644))
		return path
	}
	started := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/indoubt (.*)$`)
	var units []string
	for name, as := range map[string]string{"indoubt.service": "indoubt.service", "indoubt-http@.service": "indoubt-http@stripe.service"} {
		text := string(need.Get(os.ReadFile("../../reconcile/" + name))(t))
		m := started.FindStringSubmatch(text)
		need.Must(t, m != nil, "%s starts nothing", name)
		if exit, out := p.indoubt(append(strings.Fields(m[1]), "--help")...); exit != 0 {
			t.Errorf("%s: exit %d of %q\n%s", name, exit, m[1], out)
		}
		write(name, text)
		write(name+".d/ledger.conf", blocksOn(t, "reconcile/README.md", "ini")[0])
		units = append(units, filepath.Join(dir, as))
	}
	need.Program(t, "systemd-analyze")
	out, err := exec.Command("systemd-analyze", append([]string{"verify", "--man=no", "--recursive-errors=no"}, units...)...).CombinedOutput()
	need.That(t, err == nil && !strings.Contains(string(out), dir), "%v\n%s", err, out)
	// It sees a mistake at all.
	wrong := write("wrong.service", "[Service]\nExecStart=/usr/local/bin/indoubt\nProtectSystems=strict\n")
	if out, _ := exec.Command("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", wrong).CombinedOutput(); !strings.Contains(string(out), "ProtectSystems") {
		t.Errorf("a mistake passes: %s", out)
	}
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
