package cli

import (
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
	for _, line := range []string{"list", "log", "runs --all", "policy show", "show " + id(1), "doctor"} {
		for _, text := range strings.Split(strings.TrimSpace(b.wantOut(strings.Fields(line+" -o jsonl")...)), "\n") {
			need.That(t, json.Valid([]byte(text)) && strings.HasPrefix(text, "{"), "%s: %s", line, text)
		}
	}
	need.Equal(t, b.wantOut("list", "-o", "json"), b.wantOut("list", "--json"))
	need.Contains(t, b.wantOut("list", "-ojson"), `{"format":1,"ok":true`)
	_, out, said := b.run("list", "-o", "jsonl", "--limit", "1")
	need.That(t, strings.Count(out, "\n") == 1 && strings.HasPrefix(said, "1 shown, there are more: --limit, or --all"), "%s%s", out, said)
	before := b.lastEvent()
	for _, line := range []string{"list -o jsonk", "list --json -o jsonl"} {
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
