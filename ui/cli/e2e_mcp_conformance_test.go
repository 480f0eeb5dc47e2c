//go:build soak

package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// suite is one revision of the official MCP conformance suite, and how the
// gateway before the server must be started for it.
type suite struct {
	name    string // package
	args    []string
	gateway []string
	proxies int // at least so many are started
}

var suites = map[string]suite{
	"2025-11-25": {"conformance", []string{"--suite", "all"}, []string{"--stateful"}, 25},
	"2026-07-28": {"conformance-next", []string{"--requirements", "2026-07-28"}, []string{"--protocolVersion", "2026-07-28"}, 1},
}

// The suite calls the first of these again although it never answered its question
// the first time, and the second although its error left it in doubt: just what the
// proxy is there to hold back.
const conformancePolicy = anyPolicy + `kinds:
  mcp.everything.test_input_required_result_elicitation: { repeat: allow }
  mcp.everything.failing_job: { repeat: allow }
`

// The official conformance suite, against a server of the Go SDK over stdio with
// a gateway before it, must say the same with the proxy in between. All proxies
// share one ledger.
func TestConformanceIsTheSameBehindTheProxy(t *testing.T) {
	box := npm(t)
	s := newMCPSite(t, conformancePolicy)
	server := s.conformanceServer()
	commands := map[string]string{"direct": server, "behind": strings.Join(proxied("everything", []string{server}), " ")}
	t.Run("runs", func(t *testing.T) {
		for revision, suite := range suites {
			t.Run(revision, func(t *testing.T) {
				t.Parallel()
				differ := map[string]string{} // by scenario
				seen := map[string]map[string][]string{"direct": {}, "behind": {}}
				for range 3 { // some scenarios wait for a time that is too short on a busy machine
					for way, command := range commands {
						started := filepath.Join(t.TempDir(), "started")
						found := s.conformance(t, box, suite, "echo started >>"+started+"; exec "+command)
						if n := len(readLines(t, started)); n < suite.proxies || len(found) < 20 {
							t.Errorf("%s: %d servers were started, want %d; %d scenarios", way, n, suite.proxies, len(found))
						}
						for scenario, said := range found {
							seen[way][scenario] = append(seen[way][scenario], said)
						}
					}
					if differ = differences(seen["direct"], seen["behind"]); len(differ) == 0 {
						return
					}
					t.Logf("the results differ: %v", differ)
				}
				t.Errorf("the results differ each time: %v", differ)
			})
		}
	})
	if n := len(s.recorded()); n == 0 {
		t.Error("nothing was recorded")
	}
}

// conformanceServer is the Go SDK's.
func (s *site) conformanceServer() string {
	s.Helper()
	server := filepath.Join(s.dir, "everything-server")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", server, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // whose packages are built already
	if out, err := build.CombinedOutput(); err != nil {
		s.Skipf("the Go SDK's conformance server cannot be built: %v\n%s", err, out)
	}
	return server
}

// conformance runs the suite against a command behind the gateway, and gives what the
// checks of each scenario said.
func (s *site) conformance(t *testing.T, box toolbox, suite suite, command string) map[string]string {
	t.Helper()
	port := freePort(t)
	base := "http://127.0.0.1:" + port
	s.serve(t, base+"/healthz", append([]string{box.node, box.path(".bin", "supergateway"), "--stdio", command,
		"--outputTransport", "streamableHttp", "--healthEndpoint", "/healthz", "--logLevel", "none", "--port", port}, suite.gateway...)...)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dir := t.TempDir()
	argv := append([]string{box.path("@modelcontextprotocol", suite.name, "dist", "index.js"), "server", "--url", base + "/mcp", "-o", dir}, suite.args...)
	cmd := exec.CommandContext(ctx, box.node, argv...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = s.env, dir, time.Second
	out, err := cmd.CombinedOutput() // it fails where a check does, which some do without a proxy too
	scenarios, _ := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
	need.Must(t, ctx.Err() == nil && len(scenarios) != 0, "the suite did not run: %v\n%s", err, out)
	return checks(t, dir, scenarios)
}

var (
	dated   = regexp.MustCompile(`-\d{4}-\d\d-\d\dT[-\d]+Z$`)
	varying = regexp.MustCompile(`localhost:\d+|127\.0\.0\.1:\d+|[0-9a-f]{8}-[0-9a-f-]{27}|\b\d+(\.\d+)? ?ms\b`)
)

func checks(t *testing.T, dir string, files []string) map[string]string {
	all := map[string]string{}
	for _, file := range files {
		text := need.Get(os.ReadFile(file))(t)
		var list []struct{ ID, Status, ErrorMessage string }
		need.OK(t, json.Unmarshal(text, &list))
		scenario := dated.ReplaceAllString(filepath.Base(filepath.Dir(file)), "")
		for _, c := range list {
			all[scenario] += fmt.Sprintf("%s %s %s\n", c.ID, c.Status, varying.ReplaceAllString(c.ErrorMessage, "…"))
		}
	}
	return all
}

// differences are the scenarios that never said the same in both ways, with what they
// said: each by itself, as a slow one must not spoil a run of all others.
func differences(direct, behind map[string][]string) map[string]string {
	differ := map[string]string{}
	for _, scenario := range slices.Concat(slices.Collect(maps.Keys(direct)), slices.Collect(maps.Keys(behind))) {
		d, b := direct[scenario], behind[scenario]
		if !slices.ContainsFunc(d, func(said string) bool { return slices.Contains(b, said) }) {
			differ[scenario] = fmt.Sprintf("without %q, with %q", d, b)
		}
	}
	return differ
}
