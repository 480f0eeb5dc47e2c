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
		{"list -o csv", []string{"id@version,created_at,state,lane,kind", b.at(1) + ","}},
		{"list -o csv kind:none", []string{"id@version,"}},
		{"log -o csv --verb deny", []string{"seq,at,operation,verb,from,to,actor.name,reason", ",uncertain,failed,maya,'=not there"}},
		{"runs --all -o csv", []string{"id,created_at,state,verb", ",done,deny,2,0,maya,'=not there"}},
		{"policy show -o csv", []string{"name,", "stripe.charge"}},
		{"show " + id(1) + " -o csv", []string{"id@version,created_at", b.at(1)}},
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
	need.Contains(t, b.completes("list", "-o", ""), "jsonl", "csv")
	before := b.lastEvent()
	for _, line := range []string{"list -o cvs", "list --json -o csv", "log --follow -o csv"} {
		exit, out, said := b.run(strings.Fields(line)...)
		need.That(t, exit == exitUsage && out == "" && strings.Contains(said, "\n  "), "%s: exit %d, %s%s", line, exit, out, said)
	}
	need.Equal(t, b.lastEvent(), before)
}

// The first column of a list of operations is what the deciding commands take.
func TestTheCSVOfAListIsDecided(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "other", charge)
	b.doubt(2, "other", unlike(2))
	rows := need.Get(csv.NewReader(strings.NewReader(b.wantOut("list", "-o", "csv", "state:uncertain"))).ReadAll())(t)
	need.Equal(t, len(rows), 3)
	b.want(0, "confirm", rows[1][0], rows[2][0], "--reason", "seen there")
	need.Equal(t, string(b.rec(1).Operation.State)+" "+string(b.rec(2).Operation.State), "committed committed")
}

// wantOut is what a command line prints on standard output.
func (b *bench) wantOut(args ...string) string {
	b.Helper()
	exit, out, said := b.run(args...)
	need.That(b, exit == 0, "indoubt %s: exit %d\n%s", strings.Join(args, " "), exit, said)
	return out
}
