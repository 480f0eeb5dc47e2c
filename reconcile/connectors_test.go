package reconcile

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

const connectedPolicy = `
version: 1
defaults: { deadline: 10s, retry: { max: 3 } }
downstreams:
  books: { sql: { sqlite: %q } }
  notes: { mcp: { command: [%q], env: { RECONCILE_TEST_NOTES: %q } } }
kinds:
  book:
    downstream: books
    token: { into: token }
    lands_within: 20s
    visible_within: 10s
    read:
      sql: { query: "SELECT id, token, amount FROM charges WHERE token = ?", args: ["${token}"] }
      list: rows
      mark: it.token
      complete: "true"
      consistent: true
      same: it.amount == input.amount
      receipt: it.id
    resend: here
  mcp.notes.add:
    downstream: notes
    token: { into: token }
    lands_within: 20s
    visible_within: 10s
    read:
      mcp: { tool: find, arguments: { token: "${token}" } }
      list: structured.notes
      mark: asked
      complete: "true"
      consistent: true
      same: it.amount == input.amount
      receipt: it.id
    resend: here
`

// noteServer is an MCP server in a process of its own, with its notes in a file.
func noteServer(path string) {
	s := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	tool := func(name string, a *mcp.ToolAnnotations, do func(args map[string]any) string) {
		s.AddTool(&mcp.Tool{Name: name, Annotations: a, InputSchema: map[string]any{"type": "object"}},
			func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				var args map[string]any
				_ = json.Unmarshal(r.Params.Arguments, &args)
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}, StructuredContent: json.RawMessage(do(args))}, nil
			})
	}
	tool("find", &mcp.ToolAnnotations{ReadOnlyHint: true}, func(args map[string]any) string {
		found := []string{}
		for _, line := range notes(path) {
			if strings.Contains(line, fmt.Sprintf("%q", args["token"])) {
				found = append(found, line)
			}
		}
		return `{"notes":[` + strings.Join(found, ",") + `]}`
	})
	tool("add", nil, func(args map[string]any) string {
		note(path, fmt.Sprint(args["token"]), fmt.Sprint(args["amount"]))
		return `{"effect":"created"}`
	})
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
}

func notes(path string) (lines []string) {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	for scan := bufio.NewScanner(f); scan.Scan(); {
		lines = append(lines, scan.Text())
	}
	return lines
}

func note(path, token, amount string) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	fmt.Fprintf(f, `{"id":"note-%d","token":%q,"amount":%s}`+"\n", len(notes(path))+1, token, amount)
}

// Databases and MCP servers are asked as HTTP services are: by the same verdicts and
// the same proof. A recorded call is made again; a row is its pipeline's.
func TestDatabasesAndMCPServers(t *testing.T) {
	dir := t.TempDir()
	db := need.Get(sql.Open("sqlite", filepath.Join(dir, "books.db")))(t)
	defer db.Close()
	need.Get(db.Exec(`PRAGMA journal_mode = WAL; CREATE TABLE charges (id INTEGER PRIMARY KEY, token TEXT NOT NULL, amount INTEGER NOT NULL)`))(t)
	file := filepath.Join(dir, "notes.jsonl")
	w := newWorld(t, payPolicy)
	w.policy(fmt.Sprintf(connectedPolicy, filepath.Join(dir, "books.db"), os.Args[0], file))
	defer w.engine.Close()
	book := func(token string, amount int) {
		need.Get(db.Exec(`INSERT INTO charges (token, amount) VALUES (?, ?)`, token, amount))(t)
	}
	for kind, act := range map[string]func(token string, amount int){"book": book, "mcp.notes.add": func(token string, amount int) { note(file, token, fmt.Sprint(amount)) }} {
		t.Run(kind, func(t *testing.T) {
			w.sender = map[string]string{"book": "pipeline", "mcp.notes.add": "mcp"}[kind]
			known := w.begin(kind, 7)
			act(known.Operation.Token, 7)
			w.settle(known, ledger.SettleRequest{Outcome: ledger.OutcomeCommitted})
			doubt := func(really ...int) ledger.Operation {
				b := w.begin(kind, 420)
				for _, amount := range really {
					act(b.Operation.Token, amount)
				}
				return w.settle(b, ledger.SettleRequest{Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassEOF, Status: -1})
			}
			landed, not, twice, other := doubt(420), doubt(), doubt(420, 420), doubt(99)
			if r := w.read(not.ID); r.Read.Verdict != ledger.CannotTell || !strings.Contains(r.Read.Reason, "too early: proof possible in ") {
				t.Errorf("%s: %s", r.Read.Verdict, r.Read.Reason)
			}
			w.pass(pastProof)
			for _, tc := range []struct {
				o       ledger.Operation
				verdict ledger.Verdict
				state   ledger.State
			}{{landed, ledger.Landed, ledger.Committed}, {not, ledger.NotThere, ledger.Failed}, {twice, ledger.Twice, ledger.Committed}, {other, ledger.Different, ledger.Uncertain}} {
				r := w.read(tc.o.ID)
				need.That(t, r.Read.Verdict == tc.verdict && r.Operation.State == tc.state,
					"%s (%s), %s; want %s, %s", r.Read.Verdict, r.Read.Reason, r.Operation.State, tc.verdict, tc.state)
				ev := string(w.get(tc.o.ID).Reads[0].Evidence)
				need.That(t, tc.verdict != ledger.Landed || strings.Contains(ev, "420"), "evidence: %s", ev)
			}
			not = w.get(not.ID).Operation
			plan, err := w.engine.Plan(w.ctx, not.ID)
			need.Must(t, err == nil && plan.Refused == nil && plan.WillSend != "", "%+v %v", plan, err)
			res, err := w.retry(RetryRequest{ID: not.ID, Version: not.Version, Basis: ledger.BasisProof})
			if kind == "book" {
				need.That(t, err == nil && res.Did == DidAllow, "%+v %v", res, err)
				return
			}
			if err != nil || res.Did != DidSend || res.Operation.State != ledger.Committed || !res.Attempt.TokenSent || res.Operation.Conflict != ledger.NoConflict {
				t.Errorf("%+v %v", res, err)
			}
		})
	}
	w.engine.Close()
	o := w.doubt("book", 1)
	r := w.read(o.ID).Read
	need.That(t, r.Verdict == ledger.CannotTell, "after closing: %s: %s", r.Verdict, r.Reason)
}
