package recipes

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/outcome"
	"indoubt/policy"
)

// general is the outcome rule that every sender uses.
func general(ctx context.Context, k *policy.Kind, rec ledger.Record, answer ledger.Answer) ledger.Outcome {
	return outcome.Judge(ctx, k.JudgeAnswer, rec, answer).Outcome
}

func TestRecipesLoadAndPassTheirTests(t *testing.T) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			r, _ := Get(name)
			need.That(t, r.Title != "" && strings.HasPrefix(string(r.Text), "# "), "the first line does not say what it is for")
			examine(t, name+".yaml", r.Text)
		})
	}
}

// An MCP server is known by its package, and its kinds have the name that it is given then.
func TestMCPServersAreKnownByTheirPackages(t *testing.T) {
	known := map[string]string{}
	for _, s := range servers() {
		known[s.recipe] = s.word
		r, _ := Get(s.recipe)
		need.That(t, ServerName(s.word) == s.name && ForServer(s.word) == s.recipe && ForServer(s.name) == s.recipe, s.word)
		for _, kind := range need.Get(policy.Parse(s.recipe, r.Text))(t).Kinds() {
			need.That(t, strings.HasPrefix(kind, "mcp."+s.name+"."), "%s is not of %s", kind, s.name)
		}
	}
	for _, name := range Names() {
		need.That(t, !strings.HasPrefix(name, "mcp-") || known[name] != "", "%s says no package", name)
	}
	need.That(t, ServerName("@modelcontextprotocol/server-memory@2026.1") == "memory" && ServerName("mcp-server-git==1.0") == ServerName("mcp-server-git"), "a version hides a package")
	need.That(t, len(known) >= 10 && ServerName("left-pad") == "" && ForServer("") == "", "%v", known)
}

// All together are one policy, so none stands in another's way.
func TestRecipesMerge(t *testing.T) {
	text := need.Get(Merge(Names()...))(t)
	p := examine(t, "all.yaml", text)
	kinds := 0
	for _, name := range Names() {
		r, _ := Get(name)
		one := need.Get(policy.Parse(name, r.Text))(t)
		for _, kind := range one.Kinds() {
			need.That(t, p.Kind(kind).Known, "%s is lost", kind)
			kinds++
		}
		need.That(t, strings.Contains(string(text), "  # "+r.Title), "the comment of %s is lost", name)
	}
	if len(p.Kinds()) > kinds {
		t.Errorf("%d kinds of %d", len(p.Kinds()), kinds)
	}
	_, err := Merge("no-such")
	need.That(t, err != nil, "no error")
}

// examine parses a policy and runs its cases.
func examine(t *testing.T, name string, text []byte) *policy.Policy {
	t.Helper()
	p, err := policy.Parse(name, text)
	need.Must(t, err == nil, "refused:\n%v", err)
	for _, w := range p.Warnings() {
		t.Errorf("a warning:\n%s", w.Error())
	}
	for _, kind := range p.Kinds() {
		k := p.Kind(kind)
		need.That(t, len(k.Tests) != 0 || k.Read == nil, "%s has no tests", kind)
		for _, r := range k.RunTests(context.Background(), general) {
			need.That(t, r.OK, "%s, %q (line %d): got %s (%s), want %s", kind, r.Test.Name, r.Test.Line, r.Got, r.Why, r.Test.Want)
		}
	}
	return p
}

// The usual mistakes of agents are refusals, and what may have acted is none.
func TestMistakesOfAgentsAreRefusals(t *testing.T) {
	for _, c := range []struct {
		kind, said string
		want       ledger.Outcome
	}{
		{"mcp.filesystem.write_file", "ENOENT: no such file or directory, open '/srv/notes/a/b'", ledger.OutcomeFailed},
		{"mcp.filesystem.write_file", "Access denied - path outside allowed directories: /x not in /srv/notes", ledger.OutcomeFailed},
		{"mcp.filesystem.write_file", "ENOSPC: no space left on device, write", ledger.OutcomeUncertain},
		{"mcp.filesystem.edit_file", "Could not find exact match for edit:\nENOSPC: x", ledger.OutcomeFailed},
		{"mcp.filesystem.edit_file", "EIO: i/o error, write", ledger.OutcomeUncertain},
		{"mcp.filesystem.move_file", "Destination already exists: /srv/notes/b", ledger.OutcomeFailed},
		{"mcp.filesystem.move_file", "EXDEV: cross-device link not permitted", ledger.OutcomeUncertain},
		{"mcp.memory.add_observations", "Entity with name Ada not found", ledger.OutcomeFailed},
		{"mcp.memory.add_observations", "ENOSPC: no space left on device, write", ledger.OutcomeUncertain},
		{"mcp.git.git_commit", "Error: Git commit failed: Exit Code: 1\nStderr: \nStdout: On branch main\nnothing to commit, working tree clean\n", ledger.OutcomeFailed},
		{"mcp.git.git_commit", "Error: Git commit failed: Exit Code: 1\nStderr: the hook says no\nStdout: ", ledger.OutcomeUncertain},
		{"mcp.git.git_commit", "Error: Git status failed: Exit Code: 128\nStdout: nothing to commit", ledger.OutcomeUncertain},
		{"mcp.git.git_push", "Error: Git push failed: Exit Code: 128\nStderr: fatal: The current branch main has no upstream branch.\n", ledger.OutcomeFailed},
		{"mcp.git.git_push", "Error: Git push failed: Exit Code: 128\nStderr: fatal: the remote end hung up unexpectedly", ledger.OutcomeUncertain},
	} {
		text := need.Get(Merge("mcp-filesystem", "mcp-memory", "mcp-git"))(t)
		p := need.Get(policy.Parse("p.yaml", text))(t)
		result := need.Get(json.Marshal(map[string]any{"isError": true, "content": []map[string]string{{"type": "text", "text": c.said}}}))(t)
		answer := ledger.Answer{Via: "mcp", Sent: true, RPC: &ledger.RPCAnswer{Result: result}}
		need.Equal(t, general(context.Background(), p.Kind(c.kind), ledger.Record{}, answer), c.want, c.kind, c.said)
	}
}

// What is to be filled in is told when a recipe is written.
func TestWhatIsToBeFilledIn(t *testing.T) {
	for name, want := range map[string]string{"mcp-memory": "the same command and MEMORY_FILE_PATH that your agent's server has.", "mcp-postgres": "", "dry-run": ""} {
		r, _ := Get(name)
		need.Equal(t, r.FillIn(), want, name)
	}
	r, _ := Get("mcp-filesystem")
	need.That(t, strings.HasSuffix(r.FillIn(), "instead of /srv/notes."), "%s", r.FillIn())
}
