package mcpproxy_test

import (
	"strings"
	"sync"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// TestAChangeOfTheServerIsSaid: where a name has come to stand for another command,
// and where a command by itself has; to who runs it, in the ledger and to an agent
// that asks. What was there before is not news.
func TestAChangeOfTheServerIsSaid(t *testing.T) {
	w := newWorld(t)
	n := 0
	for _, c := range []struct{ scope, way, says string }{
		{"mcp:name", "mcp:1", ""}, {"mcp:name", "mcp:1", ""}, {"mcp:name", "mcp:2", "reached otherwise"}, {"mcp:name", "mcp:2", ""}, {"mcp:name", "mcp:1", "reached otherwise"},
		{"mcp:1", "mcp:1", "another one than at its last calls"}, {"mcp:1", "mcp:1", ""}, {"mcp:3", "mcp:3", "another one than at its last calls"}, {"mcp:1", "mcp:1", ""},
	} {
		n++
		var mu sync.Mutex
		var logged []string
		o := w.options()
		o.Scope, o.Way = c.scope, c.way
		o.Log = func(line string) {
			mu.Lock()
			defer mu.Unlock()
			logged = append(logged, line)
		}
		said := func() string {
			mu.Lock()
			defer mu.Unlock()
			return strings.Join(logged, "\n")
		}
		cl := w.clientWith(o)
		if c.says != "" {
			w.eventually("it is said: "+c.says, func() bool { return strings.Contains(said(), c.says) })
		}
		cl.ask("1", "put", `{"n":`+strings.Repeat("1", n)+`}`).wantDone(t, "put")
		cl.ask("2", "put", `{"n":`+strings.Repeat("2", n)+`}`).wantDone(t, "put")
		text := cl.ask("3", "indoubt_status_scripted", `{}`).Result.Content[0].Text
		need.OK(t, cl.leave())
		remarked := 0
		ops := w.operations()
		for _, op := range ops[len(ops)-2:] {
			events := need.Get(w.store.History(t.Context(), ledger.HistoryQuery{Operation: op.ID, Limit: 10}))(t)
			if strings.Contains(events[0].Reason, "the server scripted") {
				remarked++
			}
		}
		want := 0
		if c.says != "" {
			want = 1
		}
		if strings.Count(said(), "the server scripted") != want || strings.Contains(text, "Note: the server") != (want == 1) || remarked != want {
			t.Errorf("start %d (%s, %s): it says %q, to an agent %q, and %d calls say so", n, c.scope, c.way, said(), text, remarked)
		}
	}
}
