//go:build unix

package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// blocksOn are the blocks of a page in a language.
func blocksOn(t *testing.T, page, language string) []string {
	t.Helper()
	text := need.Get(os.ReadFile(filepath.Join("../..", page)))(t)
	var out []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```").FindAllStringSubmatch(string(text), -1) {
		out = append(out, m[1])
	}
	if len(out) == 0 {
		t.Fatalf("%s has nothing in %s", page, language)
	}
	return out
}

// policyIn writes a policy into the place where a page's snippets run, with the
// server of the test where the page has one of its own.
func policyIn(p *page, text string) {
	p.Helper()
	need.OK(p, os.WriteFile(filepath.Join(p.dir, "policy.yaml"), []byte(text), 0o600))
}

// indoubt runs the program there.
func (p *page) indoubt(args ...string) (exit int, output string) {
	p.Helper()
	return p.run("", append([]string{filepath.Join(p.dir, "indoubt")}, args...)...)
}

// sh runs a block of a page, and fails with it.
func (p *page) sh(block string) string {
	p.Helper()
	exit, out := p.run("set -e\nexport TICKETS_TOKEN=t INDOUBT_POLICY=policy.yaml\n"+block, "sh")
	if exit != 0 {
		p.Errorf("exit %d\n%s---\n%s", exit, block, out)
	}
	return out
}

// The walk of the policy's page: from an empty file to a write that a check has
// settled.
func TestThePolicyPageWalks(t *testing.T) {
	needs(t, "curl")
	p := newPage(t)
	var tickets []map[string]any
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			ticket := map[string]any{"id": fmt.Sprintf("T-%d", 100+len(tickets))}
			body, _ := io.ReadAll(r.Body)
			if err := json.Unmarshal(body, &ticket); err != nil {
				t.Error(err)
			}
			tickets = append(tickets, ticket)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"tickets": tickets, "more": false})
	}))
	t.Cleanup(api.Close)
	here := strings.NewReplacer("https://tickets.example.com", api.URL)
	policyIn(p, here.Replace(blocksOn(t, "policy/README.md", "yaml")[0]))
	said := ""
	for _, block := range blocksOn(t, "policy/README.md", "sh") {
		said = p.sh(here.Replace(block))
	}
	exit, list := p.indoubt("list", "--json")
	if exit != 0 || !strings.Contains(list, `"state":"committed"`) || !strings.Contains(list, `"receipt":"T-100"`) || len(tickets) != 1 {
		t.Errorf("%d tickets\n%s\n%s", len(tickets), said, list)
	}
}

// Each mistake of the policy's page is found by the check, and each cure is not.
func TestThePolicyPageKnowsItsMistakes(t *testing.T) {
	p := newPage(t)
	mistakes, cures := blocksOn(t, "policy/README.md", "yaml-mistake"), blocksOn(t, "policy/README.md", "yaml-cure")
	if len(mistakes) != 5 || len(cures) != 5 {
		t.Fatalf("%d mistakes and %d cures", len(mistakes), len(cures))
	}
	for i, text := range mistakes {
		policyIn(p, text)
		if exit, out := p.indoubt("--policy", "policy.yaml", "policy", "check"); exit == 0 && !strings.Contains(out, "warning: ") {
			t.Errorf("exit %d\n%s---\n%s", exit, text, out)
		}
		policyIn(p, cures[i])
		if exit, out := p.indoubt("--policy", "policy.yaml", "policy", "check"); exit != 0 || strings.Contains(out, "warning: ") {
			t.Errorf("exit %d\n%s---\n%s", exit, cures[i], out)
		}
	}
}

// The runbook, from the hold to its release, on a ledger of its own.
func TestTheRunbookRuns(t *testing.T) {
	p := newPage(t)
	policyIn(p, "version: 1\n"+blocksOn(t, "reconcile/README.md", "yaml")[0])
	blocks := blocksOn(t, "reconcile/README.md", "sh")
	backup := strings.ReplaceAll(blocks[0], "/tmp/", p.dir+"/")
	said := p.sh("export ONCALL_HOOK=a-hook\n" + strings.Join(append(blocks[1:], backup), "\n"))
	need.Contains(t, said, "report.mail", "committed", "oncall is told tenfold", "logger -t indoubt 'example: an outage since")
	if exit, list := p.indoubt("list", "--json", "state:committed"); exit != 0 || !strings.Contains(list, `"receipt":"m-771"`) {
		t.Errorf("exit %d\n%s", exit, list)
	}
	if exit, held := p.indoubt("hold", "--json"); exit == 0 {
		t.Errorf("a hold of nothing: %s", held)
	}
	if exit, list := p.indoubt("--ledger", "ledger-copy.db", "list", "--read-only"); exit != 0 || !strings.Contains(list, "report.mail") {
		t.Errorf("exit %d\n%s", exit, list)
	}
}
