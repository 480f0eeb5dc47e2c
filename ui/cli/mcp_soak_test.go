//go:build soak

package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"indoubt/ledger/need"
)

// TestMCPHoldsWhatIsInDoubt: a server that only echoes never answers.
func TestMCPHoldsWhatIsInDoubt(t *testing.T) {
	need.Program(t, "cat")
	s := newSite(t)
	s.writePolicy("version: 1\nkinds:\n  mcp.cat.say: { effect: once, deadline: 2s }\n")
	a := s.agent("--source", "agent@7", "--", "cat")
	outcome, line := a.call(1, "say")
	need.Must(t, outcome == "unknown", "answer: %s", line)
	op := s.only()
	s.wantState(op, "uncertain")
	b := s.agent("--", "cat") // another session of the same server
	if outcome, line := b.call(1, "say"); outcome != "unknown" || !strings.Contains(line, op.ID) {
		t.Errorf("answer: %s", line)
	}
	// The policy is followed as it changes.
	s.writePolicy("version: 1\nkinds:\n  mcp.cat.say: { effect: once, deadline: 2s, repeat: allow }\n")
	s.eventually("the call is exempt", func() bool {
		_, line := b.call(2, "say")
		return !strings.Contains(line, op.ID)
	})
	for _, agent := range []*agent{a, b} {
		if exit := agent.leave(); exit != 0 {
			t.Errorf("exit %d\n%s", exit, agent.err.String())
		}
	}
}

// TestI4_AServersNameIsItsIdentity: where a name or a scope is given, a call in doubt
// is known however the server is started; another scope is another server. Without them
// it is the command as it is written.
func TestI4_AServersNameIsItsIdentity(t *testing.T) {
	need.Program(t, "cat")
	s := newSite(t)
	s.writePolicy("version: 1\nkinds:\n  mcp.s.say: { effect: once, deadline: 2s }\n  mcp.*: { effect: once, deadline: 2s }\n")
	first := map[string]string{}
	for _, c := range []struct {
		args     []string
		identity string
	}{
		{[]string{"--server", "s", "--", "cat"}, "s"}, {[]string{"--server", "s", "--", "sh", "-c", "exec cat"}, "s"},
		{[]string{"--scope", "a", "--", "cat"}, "a"}, {[]string{"--scope", "a", "--", "cat", "-u"}, "a"},
		{[]string{"--scope", "b", "--", "cat"}, "b"},
		{[]string{"--", "cat"}, "command"}, {[]string{"--", "cat"}, "command"}, {[]string{"--", "/bin/cat"}, "path"}, {[]string{"--", "cat", "-u"}, "flag"},
	} {
		a := s.agent(c.args...)
		outcome, line := a.call(1, "say")
		id := operationIn(t, line)
		need.Must(t, outcome == "unknown", "%q: %s", c.args, line)
		known, again := first[c.identity]
		need.That(t, !again || known == id, "%q: the call in doubt is not known", c.args)
		for other, known := range first {
			need.That(t, again || known != id, "%q is taken for the server of %s", c.args, other)
		}
		first[c.identity] = id
		a.leave()
	}
}

// operationIn is the operation that an answer of the proxy's own names.
func operationIn(t *testing.T, line string) string {
	t.Helper()
	var answer struct {
		Result struct {
			Meta struct {
				Outcome struct{ Operation string } `json:"indoubt/outcome"`
			} `json:"_meta"`
		}
	}
	if err := json.Unmarshal([]byte(line), &answer); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return answer.Result.Meta.Outcome.Operation
}
