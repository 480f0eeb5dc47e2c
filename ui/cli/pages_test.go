//go:build unix

package cli_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"indoubt/ledger/need"
	"indoubt/policy/mapping"
)

const recordingPage = "ledger/record/README.md"

// Each mistake of the policy's page is found by the check, and each cure is not. A mistake that
// is empty is a cure that is missing.
func TestThePolicyPageKnowsItsMistakes(t *testing.T) {
	const sound = `version: 1
kinds:
  ticket.create:
    match: POST /tickets
    input: ${input.body}
    title: ticket ${input.title}
    lands_within: 30s
    visible_within: 0s
    token: { into: ref }
    read:
      http: { get: "https://tickets.example.com/tickets", query: { ref: "${token}" } }
      list: body.tickets
      mark: it.ref
      final: "true"
      same: it.title == input.title
      complete: "!body.more"
`
	p := newPage(t)
	check := func(text string) (exit int, out string) {
		policyIn(p, text)
		return p.indoubt("--policy", "policy.yaml", "policy", "check")
	}
	exit, out := check(sound)
	need.Must(t, exit == 0 && !strings.Contains(out, "warning: "), "exit %d\n%s", exit, out)
	_, page, _ := strings.Cut(string(need.Get(os.ReadFile("../../policy/README.md"))(t)), "\n| mistake | cure | |\n|---|---|---|\n")
	rows := regexp.MustCompile("(?m)^\\| (?:`([^`]*)` )?\\| `([^`]*)` \\|").FindAllStringSubmatch(page, -1)
	need.Must(t, len(rows) == 4, "%d mistakes", len(rows))
	for _, row := range rows {
		need.Must(t, strings.Count(sound, row[2]) == 1, "%s is not in the policy once", row[2])
		if exit, out := check(strings.Replace(sound, row[2], row[1], 1)); exit == 0 && !strings.Contains(out, "warning: ") {
			t.Errorf("exit %d with %q for %q\n%s", exit, row[1], row[2], out)
		}
	}
}

// Every mapping and every field has its row on the page on imports.
func TestTheImportPageHasEveryField(t *testing.T) {
	text := string(need.Get(os.ReadFile("../../policy/mapping/README.md"))(t))
	for _, name := range append(mapping.Fields(), mapping.Names()...) {
		need.That(t, regexp.MustCompile("(?m)^\\|[^|\n]*`"+name+"`").MatchString(text), "no row names %s", name)
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
	need.OK(t, json.Unmarshal([]byte(blocksOn(t, recordingPage, "json")[0]), &config))
	need.Equal(t, len(config.MCPServers), 2, config)
	for name, server := range config.MCPServers {
		args := server.Args
		need.That(t, filepath.Base(server.Command) == "indoubt" && args[0] == "mcp",
			"%s is started by %s %q", name, server.Command, args)
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
	text := string(need.Get(os.ReadFile("../../" + recordingPage))(t))
	dir := place(t)
	for command, flags := range map[string][]string{
		"run": {"--kind", "--key", "--source", "--wait"}, "begin": {"--wait", "--reconcile"}, "settle": {"--outcome"},
		"mcp": {"--server", "--scope", "--url", "--header-env"}, "http": {"--listen", "--upstream"},
	} {
		_, help, _ := inside(t, dir, command, "--help")
		for _, flag := range flags {
			need.That(t, strings.Contains(help, flag+" ") && strings.Contains(text, flag),
				"%s of %s is not in both", flag, command)
		}
	}
}

// From the page alone: an agent in one command.
func TestThePagePutsAnAgentBehindIndoubt(t *testing.T) {
	p := newPage(t)
	config := filepath.Join(p.dir, ".claude.json")
	text := `{"mcpServers": {"notes": {"command": "cat", "args": []}}}`
	need.OK(t, os.WriteFile(config, []byte(text), 0o600))
	for _, c := range []struct{ word, want string }{{"install", p.dir + "/.local/state/indoubt/ledger.db"}, {"uninstall", text}} {
		line := strings.TrimSpace(strings.Replace(blocksOn(t, recordingPage, "sh-agent")[0], "install", c.word, 1)) + " --yes"
		cmd := exec.Command("sh", "-c", line)
		cmd.Env, cmd.Dir = p.env(), p.dir
		out, err := cmd.CombinedOutput()
		need.OK(t, err, line, string(out))
		need.Contains(t, string(need.Get(os.ReadFile(config))(t)), c.want)
	}
}
