//go:build unix

package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"indoubt/ledger/need"
)

// recordingPage is the page that tells which line to change.
func recordingPage(t *testing.T) string {
	t.Helper()
	b := need.Get(os.ReadFile("../../ledger/record/README.md"))(t)
	return string(b)
}

// snippets are its blocks in a language.
func snippets(t *testing.T, language string) []string {
	t.Helper()
	var out []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(recordingPage(t), -1) {
		out = append(out, m[1])
	}
	if len(out) == 0 {
		t.Fatalf("the page has nothing in %s", language)
	}
	return out
}

// page is a place where its snippets run: this program on the PATH, a ledger, and
// an upstream behind the proxy.
type page struct {
	*testing.T
	dir, proxy string
	mu         sync.Mutex
	posts      map[string]int // effects by key
}

func newPage(t *testing.T) *page {
	t.Helper()
	p := &page{T: t, dir: place(t), posts: map[string]int{}}
	need.OK(t, os.Symlink(program, filepath.Join(p.dir, "indoubt")))
	return p
}

func (p *page) env() []string {
	return []string{"HOME=" + p.dir, "PATH=" + p.dir + ":" + os.Getenv("PATH"), "XDG_CONFIG_HOME=" + p.dir + "/config", "INDOUBT_LEDGER=" + p.dir + "/ledger.db"}
}

// serve starts an upstream, and the proxy as the page says, on a free port.
func (p *page) serve() {
	p.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.posts[r.Header.Get("Idempotency-Key")]++
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"said":%q}`, body)
	}))
	p.Cleanup(upstream.Close)
	p.proxy = freeAddress(p.T)
	line := strings.NewReplacer("127.0.0.1:8080", p.proxy, "https://api.example.com", upstream.URL).Replace(snippets(p.T, "sh-proxy")[0])
	words := strings.Fields(line)
	cmd := exec.Command(filepath.Join(p.dir, words[0]), words[1:]...)
	cmd.Env = p.env()
	need.OK(p, cmd.Start())
	p.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	eventually(p.T, "the proxy listens", func() bool {
		conn, err := net.Dial("tcp", p.proxy)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// run runs a snippet just as it stands, at the proxy's own port.
func (p *page) run(source string, program ...string) (exit int, output string) {
	p.Helper()
	cmd := exec.Command(program[0], program[1:]...)
	cmd.Dir, cmd.Env = p.dir, p.env()
	cmd.Stdin = strings.NewReader(strings.ReplaceAll(source, "127.0.0.1:8080", p.proxy))
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		p.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func needs(t *testing.T, program string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skip(program + " is not installed")
	}
	if len(args) > 0 && exec.Command(program, args...).Run() != nil {
		t.Skip(program, args, "does not work here")
	}
}

// TestPageInTheShell runs what stands there for a shell, in order.
func TestPageInTheShell(t *testing.T) {
	p := newPage(t)
	blocks := snippets(t, "sh")
	want := []string{"", "", "deployed\nit is out\n", "B is charged\nC is charged\n", "A is in doubt\nB is charged\nC is charged\n", "credited\ncredited\n", "working\n", "first time\nseen before (9)\n"}
	if len(blocks) != len(want) {
		t.Fatalf("the page has %d snippets for a shell, and %d are known here", len(blocks), len(want))
	}
	for i, block := range blocks {
		if strings.Contains(block, "curl") {
			continue // below
		}
		exit, out := p.run(block, "sh")
		said := regexp.MustCompile(`(?m)^(id |key |attempt |indoubt: |  ).*\n|^[0-9a-f-]{36}  updated  committed\n`).ReplaceAllString(out, "")
		if exit != 0 || said != want[i] {
			t.Errorf("exit %d\n%s---\n%s", exit, block, out)
		}
	}
}

func TestPageWithCurl(t *testing.T) {
	needs(t, "curl")
	p := newPage(t)
	p.serve()
	blocks := snippets(t, "sh")
	for range 2 {
		if exit, out := p.run(blocks[0], "sh"); exit != 0 || out != `{"said":"customer=cus_9&amount=4200"}` {
			t.Errorf("exit %d\n%s", exit, out)
		}
	}
	if p.posts["INV-1042"] != 1 {
		t.Errorf("the upstream has seen %v", p.posts)
	}
	wrapped := strings.ReplaceAll(blocks[1], "https://api.example.com", "http://"+p.proxy)
	for n := range 2 {
		exit, out := p.run(wrapped, "sh")
		if rest, said := strings.CutPrefix(out, `{"said":"customer=cus_9&amount=4200"}`); exit != 0 || !said || strings.HasPrefix(rest, "indoubt: nothing was run") != (n == 1) {
			t.Errorf("exit %d\n%s", exit, out)
		}
	}
}

func TestPageInPython(t *testing.T) {
	needs(t, "python3", "-c", "import requests")
	p := newPage(t)
	p.serve()
	for _, replayed := range []string{"false", "true"} {
		if exit, out := p.run(snippets(t, "python")[0], "python3"); exit != 0 || out != "201 "+replayed+"\n" {
			t.Errorf("exit %d\n%s", exit, out)
		}
	}
	if p.posts["INV-1043"] != 1 {
		t.Errorf("the upstream has seen %v", p.posts)
	}
}

// TestPageConfiguresMCP: the configuration is JSON, and its arguments are those of
// the proxy.
func TestPageConfiguresMCP(t *testing.T) {
	var config struct {
		MCPServers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	need.OK(t, json.Unmarshal([]byte(snippets(t, "json")[0]), &config))
	need.Equal(t, len(config.MCPServers), 2, config)
	for name, server := range config.MCPServers {
		args := server.Args
		if filepath.Base(server.Command) != "indoubt" || args[0] != "mcp" {
			t.Errorf("%s is started by %s %q", name, server.Command, args)
		}
		// A server that ends at once: the proxy takes its arguments, and no call comes.
		for i, arg := range args {
			if arg == "--ledger" {
				args[i+1] = filepath.Join(t.TempDir(), "ledger.db")
			}
			if arg == "--" {
				args = append(args[:i+1:i+1], "true")
			}
		}
		cmd := binary(t.TempDir(), args...)
		cmd.Env = append(cmd.Env, "INDOUBT_HEADER_AUTHORIZATION=x")
		if exit, _, stderr := ends(t, cmd); exit == 2 {
			t.Errorf("%s: %s", name, stderr)
		}
	}
}

// TestPageNamesWhatThereIs: every flag the page names exists.
func TestPageNamesWhatThereIs(t *testing.T) {
	text := recordingPage(t)
	dir := place(t)
	for command, flags := range map[string][]string{
		"run": {"--kind", "--key", "--source", "--wait"}, "begin": {"--once", "--wait", "--reconcile"}, "settle": {"--outcome"},
		"mcp": {"--server", "--scope", "--url", "--header-env"}, "http": {"--listen", "--upstream"},
	} {
		_, help, _ := ends(t, binary(dir, command, "--help"))
		for _, flag := range flags {
			if !strings.Contains(help, flag+" ") || !strings.Contains(text, flag) {
				t.Errorf("%s of %s is not in both", flag, command)
			}
		}
	}
}

// From the page alone: an agent in one command.
func TestThePagePutsAnAgentBehindIndoubt(t *testing.T) {
	p := newPage(t)
	config := filepath.Join(p.dir, ".claude.json")
	text := `{"mcpServers": {"notes": {"command": "cat"}}}`
	need.OK(t, os.WriteFile(config, []byte(text), 0o600))
	for _, c := range []struct{ word, want string }{{"install", p.dir + "/ledger.db"}, {"uninstall", text}} {
		line := strings.TrimSpace(strings.Replace(snippets(t, "sh-agent")[0], "install", c.word, 1)) + " --yes"
		cmd := exec.Command("sh", "-c", line)
		cmd.Env, cmd.Dir = p.env(), p.dir
		out, err := cmd.CombinedOutput()
		need.OK(t, err, line, string(out))
		need.Contains(t, string(need.Get(os.ReadFile(config))(t)), c.want)
	}
}
