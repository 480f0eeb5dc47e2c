package drill

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// keepTable lets the market show what is to be seen in a SQLite file, and take
// what is written there.
func (d *market) keepTable(t testing.TB, path string) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`
		CREATE TABLE things (id TEXT, ref TEXT, key TEXT, "to" TEXT, amount INTEGER, created INTEGER);
		CREATE TABLE sent (n INTEGER PRIMARY KEY, op TEXT, ref TEXT, key TEXT, "to" TEXT, amount INTEGER);
		CREATE TRIGGER shown AFTER INSERT ON sent BEGIN
			INSERT INTO things VALUES ('s_' || new.n, new.ref, new.key, new."to", new.amount, 1e12);
		END`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	d.table = db
}

// fillTable shows what is to be seen now.
func (d *market) fillTable(u *wide) {
	if d.table == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	tx, err := d.table.Begin()
	u.must(err, "begin")
	defer tx.Rollback()
	_, err = tx.Exec(`DELETE FROM things`)
	u.must(err, "empty the table")
	for _, t := range d.visible(url.Values{}) {
		_, err = tx.Exec(`INSERT INTO things VALUES (?, ?, ?, ?, ?, ?)`, t.ID, t.Ref, t.Key, t.To, t.Amount, t.At.Add(d.off).Unix())
		u.must(err, "fill the table")
	}
	u.must(tx.Commit(), "fill the table")
}

// takeTable enters into the journal what engines wrote.
func (d *market) takeTable(u *wide) {
	if d.table == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	rows, err := d.table.Query(`SELECT n, op, ref, key, "to", amount FROM sent WHERE n > ?`, d.pages)
	u.must(err, "read what was written")
	defer rows.Close()
	for rows.Next() {
		var t thing
		var n int
		u.must(rows.Scan(&n, &t.Op, &t.Ref, &t.Key, &t.To, &t.Amount), "read what was written")
		t.ID, d.pages = fmt.Sprint("s_", n), n
		d.posts[t.Op]++
		d.bookLocked(t, 0)
	}
	u.must(rows.Err(), "read what was written")
}

// marketServer is this program as an MCP server in front of the market.
func marketServer(base string) {
	s := mcp.NewServer(&mcp.Implementation{Name: "market", Version: "1"}, nil)
	tool := func(name string, a *mcp.ToolAnnotations, do func(args map[string]any) (*http.Response, error)) {
		s.AddTool(&mcp.Tool{Name: name, Annotations: a, InputSchema: map[string]any{"type": "object"}},
			func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				var args map[string]any
				_ = json.Unmarshal(r.Params.Arguments, &args)
				res, err := do(args)
				if err != nil {
					return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: err.Error()}}}, nil
				}
				defer res.Body.Close()
				body, err := io.ReadAll(res.Body)
				if err != nil || res.StatusCode >= 300 {
					return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: res.Status}}}, nil
				}
				if !json.Valid(body) {
					return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(body)}}}, nil
				}
				return &mcp.CallToolResult{Content: []mcp.Content{}, StructuredContent: json.RawMessage(body)}, nil
			})
	}
	tool("find", &mcp.ToolAnnotations{ReadOnlyHint: true}, func(args map[string]any) (*http.Response, error) {
		q := url.Values{}
		for name, v := range args {
			q.Set(name, fmt.Sprint(v))
		}
		return http.Get(base + "/things?" + q.Encode())
	})
	tool("write", nil, func(args map[string]any) (*http.Response, error) {
		body, _ := json.Marshal(args)
		req, err := http.NewRequest(http.MethodPost, base+"/things", bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("X-Op", fmt.Sprint(args["op"]))
		client := http.Client{Timeout: 5 * time.Second}
		return client.Do(req)
	})
	_ = s.Run(context.Background(), &mcp.StdioTransport{})
}
