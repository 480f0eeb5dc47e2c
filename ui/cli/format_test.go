package cli

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// Every list has every form, made from its JSON.
func TestListsHaveAllForms(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	b.doubt(2, "other", `{"sum":"=1+1","n":-5,"two":"a\nb,\"c\""}`)
	b.want(0, "deny", b.at(1), b.at(2), "--reason", "=not there")
	for _, c := range []struct {
		line string
		says []string
	}{
		{"list -o csv", []string{"id,version,created_at,state,lane,kind", id(1) + ",3,"}},
		{"list -o name --order oldest", []string{id(1) + "\n" + id(2) + "\n"}},
		{"list -o csv --columns id,what,pipeline,odds.p kind:other", []string{"id,what,pipeline,odds.p\n" + id(2) + ",", ",billing,\n"}},
		{"list -o csv --columns input.sum,input.n,input.two kind:other", []string{`'=1+1,-5,"a\nb,""c"""` + "\n"}},
		{"list --columns kind,source.pipeline kind:other", []string{"KIND   SOURCE.PIPELINE\nother  billing\n"}},
		{"list -o wide", []string{"ID@VERSION", b.at(1)}},
		{"list -o csv kind:none", []string{"id,version,"}},
		{"log -o csv --verb deny", []string{"seq,at,operation,verb,from,to,actor.name,reason", ",uncertain,failed,maya,'=not there"}},
		{"runs --all -o csv", []string{"id,created_at,state,verb", ",done,deny,2,0,maya,'=not there"}},
		{"runs --all -o wide", []string{"ID ", "CREATED_AT"}},
		{"incident list -o name", []string{}},
		{"policy show -o csv", []string{"name,", "stripe.charge"}},
		{"show " + id(1) + " -o csv", []string{"id,version,created_at", id(1)}},
		{"note " + id(1) + " --reason r -o name", []string{id(1)}},
		{"doctor -o csv", []string{"check,level"}},
	} {
		out := b.wantOut(strings.Fields(c.line)...)
		for _, part := range c.says {
			need.Contains(t, out, part)
		}
		if strings.Contains(c.line, "csv") {
			all := need.Get(csv.NewReader(strings.NewReader(out)).ReadAll())(t) // of equal length each
			need.That(t, len(all) > 0, "%s", c.line)
		}
	}
	for _, line := range []string{"list", "log", "runs --all"} {
		for _, text := range strings.Split(strings.TrimSpace(b.wantOut(strings.Fields(line+" -o jsonl")...)), "\n") {
			need.That(t, json.Valid([]byte(text)) && strings.HasPrefix(text, "{"), "%s: %s", line, text)
		}
	}
	need.Equal(t, b.wantOut("list", "-o", "json"), b.wantOut("list", "--json"))
	need.Contains(t, b.wantOut("list", "-ojson"), `{"format":1,"ok":true`)
	_, out, said := b.run("list", "-o", "csv", "--limit", "1")
	need.That(t, strings.Count(out, "\n") == 2 && strings.HasPrefix(said, "1 shown, there are more: --limit, or --after "), "%s%s", out, said)
	need.Contains(t, b.completes("list", "-o", ""), "jsonl", "name")
	need.Contains(t, b.completes("list", "--columns", "id,k"), "id,kind", "id,key")
	before := b.lastEvent()
	for _, line := range []string{"list -o cvs", "list --columns whta", "list --json -o csv", "list -o name --columns id", "note " + id(1) + " --reason r --columns id", "log --follow -o csv"} {
		exit, out, said := b.run(strings.Fields(line)...)
		need.That(t, exit == exitUsage && out == "" && strings.Contains(said, "\n  "), "%s: exit %d, %s%s", line, exit, out, said)
	}
	need.Equal(t, b.lastEvent(), before)
}

// wantOut is what a command line prints on standard output.
func (b *bench) wantOut(args ...string) string {
	b.Helper()
	exit, out, said := b.run(args...)
	need.That(b, exit == 0, "indoubt %s: exit %d\n%s", strings.Join(args, " "), exit, said)
	return out
}
