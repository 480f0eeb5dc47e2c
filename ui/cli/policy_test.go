package cli

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger/need"
	"indoubt/policy/recipes"
)

// file writes a file of the bench and gives its path.
func (b *bench) file(name, content string) string {
	b.Helper()
	path := filepath.Join(b.dir, name)
	need.OK(b, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// answering has the bench's Stripe answer with these headers and this body.
func (b *bench) answering(headers map[string]string, body string) {
	b.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		fmt.Fprint(w, body)
	}))
	b.Cleanup(s.Close)
	b.policy = b.file("answering.yaml", strings.ReplaceAll(benchPolicy, "http://127.0.0.1:9", s.URL))
}

func TestPolicyTrySaysWhatAnAnswerShows(t *testing.T) {
	b := newBenchAlone(t)
	t.Setenv("STRIPE_KEY", "sk_live_1")
	input := `{"customer":"cus_9","amount":4200,"currency":"usd","invoice":"INV-1"}`
	found := `{"object":"list","has_more":false,"data":[{"id":"pi_1","amount":AMOUNT,"metadata":{"indoubt":"indoubt-test"}}]}`
	with := func(amount string) string { return strings.Replace(found, "AMOUNT", amount, 1) }
	const none = `{"object":"list","has_more":false,"data":[]}`
	for _, c := range []struct {
		headers map[string]string
		body    string
		want    []string
	}{
		{nil, with("4200"), []string{"/v1/payment_intents?", "created%5Bgte%5D=", "limit=100", "Bearer ${env.STRIPE_KEY}", "status 200", "LIST", "OWN", "SAME", "VERDICT   landed"}},
		{map[string]string{"Age": "600"}, with("4200"), []string{"VERDICT   landed"}}, // what an old answer shows was there
		{map[string]string{"Age": "600"}, none, []string{"VERDICT   cannot tell: answer came from a cache, 600 s old"}},
		{nil, with("4300"), []string{"VERDICT   landed, but different: found one, but it is not what was asked: pi_1"}},
		{nil, none, []string{"none found, which proves it only where the same check finds another operation"}},
		{map[string]string{"X-Cache": "HIT"}, none, []string{"VERDICT   cannot tell: answer came from a cache (X-Cache: HIT)"}},
		{nil, "<html>log in</html>", []string{"VERDICT   cannot tell: answer is HTML, not JSON"}},
	} {
		b.answering(c.headers, c.body)
		out := b.want(0, "policy", "try", "stripe.charge", "--input", input)
		for _, want := range c.want {
			need.That(t, strings.Contains(out, want), "%s: %q is missing:\n%s", c.body, want, out)
		}
		need.Lacks(t, out, "sk_live")
	}
	b.answering(nil, with("4300"))
	a := b.json(0, "policy", "try", "stripe.charge", "--input", input)
	need.That(t, strings.Contains(string(a.Data), `"same":false`), "%s", a.Data)
	b.doubt(1, "stripe.charge", charge)
	b.answering(nil, none)
	need.Contains(t, b.want(0, "policy", "try", "stripe.charge", "--op", id(1)), "VERDICT   cannot tell: none found")
	b.failing(2, "usage", "policy", "try", "stripe.charge", "--input", "{")
	b.failing(2, "usage", "policy", "try", "stripe.charge", "--op", id(1), "--input", "{}")
}

func TestPolicyTryADatabase(t *testing.T) {
	b := newBench(t)
	path := filepath.Join(b.dir, "books.db")
	db := need.Get(sql.Open("sqlite", path))(t)
	defer db.Close()
	need.Get(db.Exec(`CREATE TABLE charges (id TEXT, token TEXT, amount INTEGER); INSERT INTO charges VALUES ('c1', 'tok''1', 4200), ('c2', 'x', 1)`))(t)
	b.policy = b.file("sql.yaml", `version: 1
downstreams: { books: { sql: { sqlite: "`+path+`" } } }
kinds:
  book:
    downstream: books
    token: { into: token }
    lands_within: 5s
    visible_within: 0s
    read:
      sql: { query: "SELECT id, token, amount FROM charges WHERE token = ?", args: ["${token}"] }
      list: rows
      mark: it.token
      complete: "true"
      same: it.amount == input.amount
      receipt: it.id
`)
	for token, want := range map[string]string{"tok'1": "VERDICT   landed", "' OR 1=1 --": "none found"} {
		out := b.want(0, "policy", "try", "book", "--input", `{"amount":4200}`, "--token", token)
		if landed := strings.Contains(want, "landed"); landed != strings.Contains(out, "found c1, which counts only with a control") || !strings.Contains(out, "RECOGNISES it.token with its token\n") {
			t.Errorf("%s:\n%s", token, out)
		}
		need.That(t, strings.Contains(out, want) && strings.Contains(out, "SQL books (sqlite)") && strings.Contains(out, "WHERE token = ?"), "%s:\n%s", token, out)
	}
}

func TestPolicyTestSaysWhatFails(t *testing.T) {
	b := newBench(t)
	b.policy = b.file("cases.yaml", benchPolicy+`    tests:
      - { name: a server error, answer: { status: 503 }, want: uncertain }
      - { name: no check, want: landed }
`)
	exit, out, _ := b.run("policy", "test")
	for _, want := range []string{"ok    legacy.charge: a server error\n", "FAIL  legacy.charge: no check  (line ", "        wanted landed, got cannot_tell: the kind has no read\n"} {
		need.That(t, strings.Contains(out, want), "%q is missing:\n%s", want, out)
	}
	need.That(t, exit == 1, "exit %d\n%s", exit, out)
	a := b.json(1, "policy", "test", "legacy.charge")
	need.That(t, a.Error.Code == "bad_policy" && strings.Contains(string(a.Data), `"failed":1`), "%+v %s", a.Error, a.Data)
	b.want(0, "policy", "test", "stripe.charge")
}

func TestPolicyInitFromRecipes(t *testing.T) {
	b := newBench(t)
	if out := b.want(0, "policy", "init", "--list"); strings.Count(out, "\n") != len(recipes.Names()) {
		t.Error(out)
	}
	path := filepath.Join(b.dir, "all.yaml")
	need.Equal(t, b.json(0, append([]string{"policy", "init", path}, recipes.Names()...)...).Effect, "created")
	need.Equal(t, b.json(0, append([]string{"policy", "init", path}, recipes.Names()...)...).Effect, "noop")
	text, err := os.ReadFile(path)
	need.That(t, err == nil && strings.Contains(string(text), "# yaml-language-server: $schema="),
		"no hint for editors %v", err)
	b.want(0, "policy", "check", path)
	need.Contains(t, b.want(0, "--policy", path, "policy", "test"), "all good")
	// A further recipe goes beside the policy that is there, without what that one says already.
	beside := b.json(4, "policy", "init", "mcp-memory", path).Error
	hint := strings.Fields(beside.Hint)
	need.That(t, beside.Code == "exists" && strings.HasSuffix(beside.Hint, "policy init mcp-memory "+hint[len(hint)-1]), "%+v", beside)
	main := filepath.Join(b.dir, "main.yaml")
	b.want(0, "policy", "init", main)
	b.want(0, "policy", "init", "mcp-memory", filepath.Join(b.dir, "main.d", "memory.yaml"))
	b.want(0, "policy", "check", main)
	if e := b.json(2, "policy", "init", "no-such-recipe", filepath.Join(b.dir, "x.yaml")).Error; !strings.Contains(e.Hint, recipes.Names()[0]) {
		t.Errorf("%+v", e)
	}
	b.failing(2, "usage", "policy", "init", "./a.yaml", "./b.yaml")
}

func TestPolicySchemaIsJSON(t *testing.T) {
	b := newBench(t)
	if out := b.want(0, "policy", "schema"); !json.Valid([]byte(out)) || !strings.Contains(out, "lands_within") {
		t.Error(out)
	}
}
