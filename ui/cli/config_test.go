package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

func TestTheConfigurationIsTakenOrSaidToBeWrong(t *testing.T) {
	cases := map[string]string{
		"": "",
		"theme: light\nfilter: -source:test kind:stripe.*\ncolumns: [kind, what, never, do]\nmouse: false\n": "",
		"theme: pink":                         `theme "pink" is none of auto, light, dark, none`,
		"columns: [price]":                    `column "price" is none of kind, what,`,
		"filter: 'x:1'":                       `there is no filter field "x"`,
		"colour: dark":                        "colour",
		"theme: [":                            "is not taken",
		"context: prod":                       `there is no context "prod"`,
		"contexts: { a: { policy: p.yaml } }": "context a names no ledger",
		"contexts: { a: { ledger: l, filter: 'x:1' } }": "filter of context a",
	}
	page := need.Blocks(t, "../README.md", "yaml")
	need.That(t, len(page) == 2, "%d blocks", len(page))
	for _, b := range page {
		cases[b.Text] = ""
	}
	for text, want := range cases {
		path := filepath.Join(t.TempDir(), "config.yaml")
		need.OK(t, os.WriteFile(path, []byte(text), 0o600))
		c, err := readConfig(path)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path)):
			t.Errorf("%q: %v, want %q", text, err, want)
		case want != "" && (c.Theme != "" || c.Filter != "" || c.Columns != nil):
			t.Errorf("%q: half of it is taken: %+v", text, c)
		case strings.HasPrefix(text, "theme: light") && (c.Theme != "light" || c.Filter != "-source:test kind:stripe.*" || len(c.Columns) != 4 || c.Mouse == nil || *c.Mouse):
			t.Errorf("%q: %+v", text, c)
		}
	}
	if c, err := readConfig(filepath.Join(t.TempDir(), "none")); err != nil || c.Theme != "" {
		t.Fatal(c, err)
	}
}

// A context is a ledger with its policy. What names a ledger comes before one, and one that
// cannot be found is never another ledger.
func TestAContextIsALedgerWithItsPolicy(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	b.env = map[string]string{"XDG_CONFIG_HOME": b.dir, "INDOUBT_LEDGER": "", "INDOUBT_POLICY": ""}
	config := filepath.Join(b.dir, "indoubt", "config.yaml")
	need.OK(t, os.MkdirAll(filepath.Dir(config), 0o700))
	write := func(text string) { need.OK(t, os.WriteFile(config, []byte(text), 0o600)) }
	write("contexts:\n  prod: { ledger: ../" + filepath.Base(b.ledger) + ", policy: " + b.policy + ", read_only: true }\n  stage: { ledger: /none/stage.db }\n")
	need.Contains(t, b.want(0, "list", "-c", "prod"), id(1))
	need.Contains(t, b.want(0, "policy", "check", "--context", "prod"), b.policy)
	need.Contains(t, b.want(5, "-c", "prod", "deny", b.at(1), "--reason", "r"), "the context `prod` is read_only", "config.yaml")
	need.Contains(t, b.want(3, "list", "-c", "stage"), "/none/stage.db")
	for args, says := range map[string]string{
		"list -c prdo": "there is no context `prdo`; did you mean `prod`?", "list -c prod --ledger x.db": "--context and --ledger both name a ledger", "list -c": "needs a value",
	} {
		need.Contains(t, b.want(2, strings.Fields(args)...), says)
	}
	b.env["INDOUBT_CONTEXT"] = "prod"
	need.Contains(t, b.want(0, "list"), id(1))
	b.env["INDOUBT_LEDGER"] = "/none/other.db"
	need.Contains(t, b.want(3, "list"), "/none/other.db")
	need.Contains(t, b.want(0, "list", "-c", "prod"), id(1))
	b.env["INDOUBT_LEDGER"], b.env["INDOUBT_CONTEXT"] = "", ""
	write("context: prod\ncontexts:\n  prod: { ledger: " + b.ledger + " }\n")
	need.Contains(t, b.want(0, "list"), id(1))
	need.Contains(t, b.completes("list", "-c", ""), "prod")
	write("context: prod\ncontexts:\n  prod: { ledgr: " + b.ledger + " }\n")
	need.Contains(t, b.want(1, "list"), "is not taken", "--ledger")
}

func TestFiltersAreRemembered(t *testing.T) {
	p := pastFilters(filepath.Join(t.TempDir(), "state", "filters"))
	if got := p.read(); got != nil {
		t.Fatal(got)
	}
	want := []string{"source:billing", `"INV 1042" state:uncertain`}
	need.OK(t, p.write(want))
	if got := p.read(); !slices.Equal(got, want) {
		t.Fatalf("%q", got)
	}
	if info, err := os.Stat(string(p)); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info.Mode(), err)
	}
	need.OK(t, os.WriteFile(string(p), []byte("nonsense:1\nkind:x\n"), 0o600))
	if got := p.read(); !slices.Equal(got, []string{"kind:x"}) {
		t.Fatalf("%q", got)
	}
}
