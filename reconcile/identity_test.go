package reconcile

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// good is one thing that a shop shows.
type good struct {
	ID      string `json:"id"`
	Ref     string `json:"ref"`
	Note    string `json:"note"`
	Key     string `json:"key"`
	Name    string `json:"name"`
	Created int64  `json:"created"`
	Done    bool   `json:"done"`
}

// shop is what all connectors are asked about; it is kept in a file, so that
// programs of their own can be asked.
type shop struct {
	Echo bool   `json:"echo"` // it shows what it is asked for, whether or not that is there
	Data []good `json:"data"`
}

// askShop is the shop's search.
func askShop(path, by, ref, key, name string) (string, error) {
	var s shop
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return "", err
	}
	shown := slices.DeleteFunc(s.Data, func(g good) bool {
		return by == "ref" && g.Ref != ref || by == "key" && g.Key != key || by == "name" && g.Name != name
	})
	if s.Echo {
		shown = append(shown, good{"echo", ref, "<!-- " + ref + " -->", key, name, time.Now().Add(time.Hour).Unix(), true})
	}
	out, err := json.Marshal(map[string]any{"data": append([]good{}, shown...)})
	return string(out), err
}

// shopServer is the shop as an MCP server in a process of its own.
func shopServer(path string) {
	s := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "find", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}, InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			var a struct{ By, Ref, Key, Name string }
			if err := json.Unmarshal(r.Params.Arguments, &a); err != nil {
				return nil, err
			}
			text, err := askShop(path, a.By, a.Ref, a.Key, a.Name)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}, StructuredContent: json.RawMessage(text)}, err
		})
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
}

// identities are the ways to recognise an effect: what the shop is asked by, and
// the rest of the read. DATA is where the candidates are.
var identities = map[string]struct{ by, rules string }{
	"token":   {"all", "list: DATA, mark: it.ref, created: it.created, final: it.done"},
	"form":    {"all", `list: DATA, mark: { it.note: "<!-- ${token} -->" }, created: it.created, final: it.done`},
	"key":     {"key", "list: DATA, name: it.key, created: it.created, final: it.done"},
	"name":    {"name", `list: DATA, name: { it.name: "${input.name}" }, created: it.created, final: it.done`},
	"unique":  {"name", `list: DATA, name: { it.name: "${input.name}" }, unique: true, created: it.created, final: it.done`},
	"asked":   {"ref", "list: DATA, mark: asked, created: it.created, final: it.done"},
	"state":   {"all", `state: "DATA.exists(x, x.name == input.name)"`},
	"nothing": {"all", "list: DATA"},
}

// shopPolicy has a kind for each identity.
func shopPolicy(via, ask, data, downstreams string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\ndownstreams:\n%skinds:\n", downstreams)
	for name, identity := range identities {
		rules := strings.ReplaceAll(identity.rules, "DATA", data)
		fmt.Fprintf(&b, "  %s:\n    token: { into: ref }\n    lands_within: 1h\n    visible_within: 0s\n", name)
		if via != "command" {
			b.WriteString("    downstream: shop\n")
		}
		if name == "state" {
			b.WriteString("    effect: safe\n    target: ${input.name}\n")
		} else {
			rules += `, complete: "true", receipt: it.id`
		}
		fmt.Fprintf(&b, "    read: { %s, %s }\n", strings.ReplaceAll(ask, "BY", identity.by), rules)
	}
	return b.String()
}

// shopOver is the policy for one connector, and what makes the shop known to it.
func shopOver(t *testing.T, via, path string) (text string, keep func(shop)) {
	keep = func(s shop) {
		text, _ := json.Marshal(s)
		need.OK(t, os.WriteFile(path, text, 0o600))
	}
	const names = `ref: "${token}", key: "${key}", name: "${input.name}", by: BY`
	switch via {
	case "http":
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			text, err := askShop(path, q.Get("by"), q.Get("ref"), q.Get("key"), q.Get("name"))
			need.That(t, err == nil, "%v", err)
			fmt.Fprint(w, text)
		}))
		t.Cleanup(server.Close)
		return shopPolicy(via, "http: { get: /find, query: { "+names+" } }", "body.data", "  shop: { base: "+server.URL+" }\n"), keep
	case "mcp":
		return shopPolicy(via, "mcp: { tool: find, arguments: { "+names+" } }", "structured.data",
			fmt.Sprintf("  shop: { mcp: { command: [%q], env: { RECONCILE_TEST_SHOP: %q } } }\n", os.Args[0], path)), keep
	case "command":
		return shopPolicy(via, fmt.Sprintf(`command: { argv: [%q, BY, "${token}", "${key}", "${input.name}"], env: { RECONCILE_TEST_SHOP_ASKED: %q } }`, os.Args[0], path),
			"json.data", "  other: { base: http://127.0.0.1:9 }\n"), keep
	}
	table := filepath.Join(filepath.Dir(path), "shop.db")
	db := need.Get(sql.Open("sqlite", table))(t)
	t.Cleanup(func() { db.Close() })
	need.Get(db.Exec(`CREATE TABLE goods (id, ref, note, key, name, created INTEGER, done BOOLEAN); CREATE TABLE echo (on_)`))(t)
	query := `SELECT id, ref, note, key, name, created, done = 1 AS done FROM goods WHERE 'BY' = 'all' OR 'BY' = 'ref' AND ref = ?1 OR 'BY' = 'key' AND key = ?2 OR 'BY' = 'name' AND name = ?3 ` +
		`UNION ALL SELECT 'echo', ?1, '<!-- ' || ?1 || ' -->', ?2, ?3, 4000000000, 1 FROM echo`
	keep = func(s shop) {
		run := func(query string, args ...any) {
			need.Get(db.Exec(query, args...))(t)
		}
		run(`DELETE FROM goods; DELETE FROM echo`)
		for _, g := range s.Data {
			run(`INSERT INTO goods VALUES (?, ?, ?, ?, ?, ?, ?)`, g.ID, g.Ref, g.Note, g.Key, g.Name, g.Created, g.Done)
		}
		if s.Echo {
			run(`INSERT INTO echo VALUES (1)`)
		}
	}
	text = shopPolicy(via, fmt.Sprintf(`sql: { query: %q, args: ["${token}", "${key}", "${input.name}"] }`, query), "rows", fmt.Sprintf("  shop: { sql: { sqlite: %q } }\n", table))
	return strings.ReplaceAll(text, "it.done", "it.done == 1"), keep
}

// TestI6_NothingForeignSettlesAnything goes through everything that may stand at
// the other side, for every way to recognise an effect and every connector. What
// is not the operation's own settles nothing, but for a state, where the name is
// the effect.
func TestI6_NothingForeignSettlesAnything(t *testing.T) {
	type want struct {
		verdict ledger.Verdict
		cause   ledger.Cause
	}
	landed, none := want{verdict: ledger.Landed}, want{ledger.CannotTell, ledger.CauseNone}
	unsure := func(c ledger.Cause) want { return want{ledger.CannotTell, c} }
	others := unsure(ledger.CauseIncomplete) // asked for the token, it shows what has another
	for _, situation := range []struct {
		name    string
		there   func(own good) shop
		usual   want            // of the identities that are not named
		but     map[string]want // by identity
		receipt string
	}{
		{"own", func(own good) shop { return shop{Data: []good{own}} }, landed,
			map[string]want{"nothing": unsure(ledger.CauseUnidentified)}, "own"},
		{"foreign", func(own good) shop { return shop{Data: []good{foreign(own)}} }, none,
			map[string]want{"nothing": unsure(ledger.CauseUnidentified), "state": unsure(ledger.CauseNotSo), "token": others, "form": others}, ""},
		{"both", func(own good) shop { return shop{Data: []good{foreign(own), own}} }, landed,
			map[string]want{"nothing": unsure(ledger.CauseUnidentified)}, "own"},
		{"none", func(good) shop { return shop{} }, none, map[string]want{"state": unsure(ledger.CauseNotSo)}, ""},
		{"older", func(own good) shop { own.Created -= 86400; return shop{Data: []good{own}} }, unsure(ledger.CauseOlder),
			map[string]want{"nothing": unsure(ledger.CauseUnidentified), "state": landed}, ""},
		{"quoted", func(own good) shop {
			return shop{Data: []good{{"quoting", own.Ref + "X", "see " + own.Ref + ", please", own.Key + "X", own.Name + " too", own.Created, true}}}
		}, none, map[string]want{"nothing": unsure(ledger.CauseUnidentified), "state": unsure(ledger.CauseNotSo), "token": others, "form": others}, ""},
		{"unfinished", func(own good) shop { own.Done = false; return shop{Data: []good{own}} }, unsure(ledger.CauseUnfinished),
			map[string]want{"nothing": unsure(ledger.CauseUnidentified), "state": landed}, ""},
		{"an echo", func(good) shop { return shop{Echo: true} }, unsure(ledger.CauseEcho), map[string]want{"nothing": unsure(ledger.CauseUnidentified)}, ""},
		{"an echo beside it", func(own good) shop { return shop{Echo: true, Data: []good{foreign(own)}} }, unsure(ledger.CauseEcho),
			map[string]want{"nothing": unsure(ledger.CauseUnidentified)}, ""},
	} {
		for _, via := range []string{"http", "mcp", "sql", "command"} {
			t.Run(situation.name+" over "+via, func(t *testing.T) {
				w := newWorld(t, payPolicy)
				text, keep := shopOver(t, via, filepath.Join(t.TempDir(), "shop.json"))
				w.policy(text)
				defer w.engine.Close()
				for identity := range identities {
					b := w.beginAs(identity, map[string]any{"name": fmt.Sprint("name of ", identity)}, nil)
					o := b.Operation
					keep(situation.there(good{"own", o.Token, "made by <!-- " + o.Token + " -->", o.Key, "name of " + identity, w.now().Unix(), true}))
					o = w.settle(b, ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Status: -1})
					r := w.read(o.ID)
					wanted, named := situation.but[identity]
					if !named {
						wanted = situation.usual
					}
					receipt := situation.receipt
					if identity == "state" || wanted.verdict != ledger.Landed {
						receipt = ""
					}
					state := map[bool]ledger.State{true: ledger.Committed, false: ledger.Uncertain}[wanted.verdict == ledger.Landed]
					if r.Read.Verdict != wanted.verdict || r.Read.Cause != wanted.cause || r.Operation.State != state || r.Operation.Receipt() != receipt {
						t.Errorf("%s: %s %s (%s), %s %v; want %s %s", identity, r.Read.Verdict, r.Read.Cause, r.Read.Reason, r.Operation.State, r.Operation.Receipts, wanted.verdict, wanted.cause)
					}
				}
			})
		}
	}
}

func foreign(own good) good {
	return good{"theirs", "indoubt-SOMEBODYELSES", "<!-- indoubt-SOMEBODYELSES -->", "their key", "their name", own.Created, true}
}
