//go:build soak

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// memoryPolicy is how a team that uses the memory server would write it, with
// short bounds. Without its check, nothing can settle a doubt.
const memoryPolicy = `
version: 1
defaults: { deadline: 20s, cost: { duplicate: high, miss: medium } }
downstreams:
  memory:
    mcp:
      command: ["@NODE@", "@SERVER@"]
      env: { MEMORY_FILE_PATH: "${env.MEMORY_FILE_PATH}" }
kinds:
  mcp.memory.create_entities:
    downstream: memory
    token: { append: "entities[0].observations" }
`

const memoryCheck = `    lands_within: 300ms
    visible_within: 0s
    read:
      mcp: { tool: search_nodes, arguments: { query: "${token}" } }
      list: structured.entities
      mark: it.observations
      complete: "true"
      consistent: true
      receipt: it.name
`

// usualDeaths are tried by default. INDOUBT_TEST_MATRIX=all tries every client with each.
var usualDeaths = map[string]string{"raw JSON-RPC": "hangs", "Go SDK": "before", "TypeScript SDK 2": "after"}

// A server that dies in the middle of a call, or hangs, leaves it in doubt, whichever side
// of the effect it was on; whatever the client, the agent is told; the same call again is
// held; the policy's check tells the two sides apart; and then there is one effect.
func TestI2_AServerKilledInTheMiddleOfACallLeavesItInDoubt(t *testing.T) {
	box := npm(t)
	for client, agent := range agents {
		for when, wantState := range map[string]string{"before": "failed", "after": "committed", "hangs": "committed"} {
			if os.Getenv("INDOUBT_TEST_MATRIX") == "all" || usualDeaths[client] == when {
				t.Run(client+" "+when, func(t *testing.T) { killedInTheMiddle(t, box, agent, when, wantState) })
			}
		}
	}
}

func killedInTheMiddle(t *testing.T, box toolbox, agent agentSession, when, wantState string) {
	s := newMCPSite(t, "")
	policy := strings.NewReplacer("@NODE@", box.node, "@SERVER@", box.memory()[1]).Replace(memoryPolicy)
	if when == "hangs" {
		policy = strings.Replace(policy, "deadline: 20s", "deadline: 4s", 1)
	}
	s.writePolicy(policy)
	once, effects, preload := filepath.Join(s.dir, "once"), filepath.Join(s.dir, "effects"), filepath.Join(s.dir, "kill.mjs")
	text, err := os.ReadFile("testdata/mcp/kill.mjs")
	if err == nil {
		err = os.WriteFile(preload, text, 0o644)
	}
	need.OK(t, err)
	s.env = append(s.env, "KILL_ONCE="+once, "EFFECTS="+effects)
	server := proxied("memory", append([]string{box.node, "--import", preload}, box.memory()[1:]...))
	ask := func(name string) string {
		return agent(s, box, server, toolCall{"create_entities", object{"entities": []object{{"name": name, "entityType": "thing", "observations": []string{"made by a test"}}}}})[0]
	}
	const unknown = "not known whether this call took effect"

	// One that lands, for the check to find later.
	if said := ask("known"); strings.Contains(said, unknown) {
		t.Fatal(said)
	}
	need.OK(t, os.WriteFile(once, []byte(when), 0o644))
	said := ask("doubted")
	if _, err := os.Stat(once); err == nil {
		t.Fatal("the server was not killed")
	}
	wantRecorded(t, s.recorded(), map[string]int{"mcp.memory.create_entities committed": 1, "mcp.memory.create_entities uncertain": 1})
	wantAsked(t, effects, 2)
	op := s.doubted("uncertain")
	need.That(t, strings.Contains(said, unknown) && strings.Contains(said, op.ID), "the client was told %s", said)

	// An agent that starts again and repeats itself.
	said = ask("doubted")
	need.That(t, strings.Contains(said, unknown) && strings.Contains(said, op.ID), "the call in doubt was answered with %s", said)
	wantAsked(t, effects, 2)

	s.writePolicy(policy + memoryCheck)
	var got operation
	s.eventually("a check after lands_within settles it as "+wantState, func() bool {
		s.do("check", op.ID)
		got = s.show(op.ID)
		return got.State == wantState
	})
	if when != "before" && (got.Receipt == nil || *got.Receipt != "doubted") {
		t.Errorf("receipt %v", got.Receipt)
	}
	wantAsked(t, effects, 2)

	// Now that it is settled: what landed is answered from the record, and what did not is
	// sent.
	said = ask("doubted")
	asked := 2
	if when == "before" {
		asked = 3
	}
	need.That(t, !strings.Contains(said, unknown), "the settled call was answered with %s", said)
	wantAsked(t, effects, asked)
	if n := strings.Count(strings.Join(readLines(t, filepath.Join(s.dir, "memory.jsonl")), "\n"), `"name":"doubted"`); n != 1 {
		t.Errorf("it is there %d times", n)
	}
}

// doubted is the one operation of the ledger in that state.
func (s *site) doubted(state string) operation {
	s.Helper()
	var found []operation
	for _, op := range s.list() {
		if op.State == state {
			found = append(found, op)
		}
	}
	need.Must(s, len(found) == 1, "%d operations are %s", len(found), state)
	return s.show(found[0].ID)
}

// wantAsked checks how many calls the server took up.
func wantAsked(t *testing.T, file string, want int) {
	t.Helper()
	if got := len(readLines(t, file)); got != want {
		t.Errorf("the server was asked %d times, want %d", got, want)
	}
}
