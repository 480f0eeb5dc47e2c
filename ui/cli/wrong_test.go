package cli

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// goText is text that the language or its libraries wrote, and no person reads.
var goText = regexp.MustCompile(`strconv|invalid syntax|parsing "|json: cannot|yaml: line|unmarshal|invalid character|unexpected end of|net/url|first path segment|dial tcp|lookup |sql: [a-z]+ing|pflag|cobra|arg\(s\)|shorthand|%!|<nil>|0x[0-9a-f]{6}|\[\]byte|interface|goroutine`)

// Each wrong command line is answered by what is wrong and what to do next.
func TestEveryWrongCommandLineHasANextStep(t *testing.T) {
	b := newBenchAlone(t)
	b.doubt(1, "stripe.charge", charge)
	b.env = map[string]string{"XDG_CONFIG_HOME": b.dir, "XDG_STATE_HOME": b.dir}
	before := b.lastEvent()
	bad := b.file("bad.json", "{\"a\":")
	at := b.at(1)
	var out strings.Builder
	n := 0
	for _, line := range strings.Split(strings.TrimSpace(wrongLines), "\n") {
		words := []string{}
		for _, w := range strings.Fields(strings.NewReplacer("#1", at, "BAD", bad, "DIR", b.dir).Replace(line)) {
			words = append(words, strings.ReplaceAll(w, "_", " "))
		}
		exit, stdout, said := b.run(words...)
		said = strings.NewReplacer(b.dir, "DIR", id(1), "ID").Replace(said)
		need.That(t, exit != 0 && stdout == "", "indoubt %s: exit %d, %s%s", line, exit, stdout, said)
		need.That(t, strings.Contains(said, "\n  "), "indoubt %s says no next step:\n%s", line, said)
		need.That(t, !strings.Contains(said, "doctor` says"), "indoubt %s leads to doctor, who knows nothing of it:\n%s", line, said)
		need.That(t, !goText.MatchString(said), "indoubt %s speaks Go: %s\n%s", line, goText.FindString(said), said)
		fmt.Fprintf(&out, "$ indoubt %s\n%s[%d]\n\n", line, said, exit)
		n++
	}
	need.That(t, n >= 80, "%d lines", n)
	need.Equal(t, b.lastEvent(), before, "a refused command line changed something")
	golden(t, "wrong_lines.txt", []byte(out.String()))
}

const wrongLines = `
lst
lists
delete
hodl --all
policy chekc
outage shwo
outage list extra
runs resum x
-x
--nothing
--ledger
--ledger= list
--ledger DIR/none.db list
--ledger DIR list
--ledger postgres://u:secret@h/db list
--ledger mysql://h/db list
--policy DIR/none.yaml policy check
--as checks confirm #1 --reason r
list -o jsonk
list -state:committed
list --limit abc
list --limit 0
list --limit 99999
list since:soon
list since:2026-13-01
list kind:a_OR
list (kind:a
list NOT_kind:a
list stat:uncertain
list state:uncertian
list state:
list age:30m
list age>soon
list cost>much
list since:never
list lane:nowhere
list parked:perhaps
show
show 01
show ffffffff
show a b
log --limit 0
log ffffffff
report --since never
report nope --since 8h
confirm
confirm #1
confirm ffffffff@1 --reason r
confirm 019808a1 --reason r
confirm #1 #1 --reason r
confirm 0198@x --reason r
deny #1 --reason
park #1
park #1 --until yesterday
ack #1 --truth perhaps
undo #1 --reason r
retry #1 --request-digest
abandon #1
hold --all
hold stripe.chrage --reason r
hold --downstream strip --reason r
hold stripe.charge --all --reason r
hold --all --until yesterday --reason r
release
run -- true
run --kind k
run --kind bad! -- true
run --kind k --key= -- true
run --kind k --key -- true
run --kind --ledger DIR/x.db -- true
begin --kind k --input {} --key --dry-run
note #1 --reason --as=ann
run --ledger= --kind k -- true
run -o xml --kind k -- true
run --kind k --deadline soon -- true
run --kind k --deadline 1ns -- true
run --kind k --input {a -- true
run --kind k --input @DIR/none -- true
begin --kind k
begin --kind k --input [1,
begin --kind k --input @BAD
begin --input {}
settle
settle nope --outcome committed
settle nope --outcome maybe
settle nope --outcome failed
settle nope --outcome committed --proof refused
mcp
mcp --url not_a_url
mcp --url http://x -- cmd
http
http --upstream ://x
http --upstream http://127.0.0.1:1 --listen nowhere
engine --metrics nowhere
engine ffffffff
check --watch
check ffffffff
backup
policy test nope
policy try
policy try stripe.charge
policy try stripe.charge --input {a
completion
completion tcsh
init extra
adopt extra
demo --seed -1
demo --at noon
demo --dir BAD
help nothing
help run extra
help policy chekc
outage show zz
outage take zz
outage close zz
report zz
confirm #1 --reason r --idempotency-key=
hold bad!kind --reason r
hold new.kind --reason r
run --kind k --deadline 999d -- true
begin --kind k --key a --deadline 0s
begin --kind k --input {"a":1e999}
begin --kind k --input {"a":1,"a":2}
import DIR/none
mcp -- DIR/none
http --upstream http://127.0.0.1:1 --listen 127.0.0.1:99999
backup DIR/none/x
init --ledger BAD
list --ledger postgres://u@127.0.0.1:1/x
list --ledger postgres://u@/x?host=DIR/none
adopt --home x
12345678
`

// Each broken policy is answered by where it is broken and what to write instead.
func TestEveryBrokenPolicyHasANextStep(t *testing.T) {
	b := newBenchAlone(t)
	var out strings.Builder
	for n, text := range brokenPolicies {
		b.policy = b.file("policy.yaml", text)
		exit, stdout, said := b.run("policy", "check")
		need.That(t, exit == 1 && stdout == "", "%q is taken: exit %d %s", text, exit, stdout)
		said = strings.ReplaceAll(said, b.dir, "DIR")
		need.That(t, strings.Contains(said, "policy.yaml:") && strings.Contains(said, "\n  "), "%q: no place or no next step:\n%s", text, said)
		need.That(t, strings.Contains(said, "hint:") || strings.Contains(said, ": must be ") || strings.Contains(said, "a cost is a number"), "%q: no hint:\n%s", text, said)
		need.That(t, !goText.MatchString(said), "%q speaks Go: %s\n%s", text, goText.FindString(said), said)
		fmt.Fprintf(&out, "# %d\n%s\n---\n%s\n", n+1, strings.TrimRight(text, "\n"), said)
	}
	need.That(t, len(brokenPolicies) >= 40, "%d policies", len(brokenPolicies))
	golden(t, "broken_policies.txt", []byte(out.String()))
}

var brokenPolicies = append([]string{
	"",
	"# nothing\n",
	"kinds: {}\n",
	"version: 2\n",
	"version: one\n",
	"- a\n- b\n",
	"version: 1\nkind: { a: {} }\n",
	"version: 1\nkinds: []\n",
	"version: 1\nkinds: { a: 5 }\n",
	"version: 1\nkinds:\n  a: {}\n  a: {}\n",
	"version: 1\nkinds: { a: [ }\n",
	"version: 1\n\tkinds: {}\n",
	"version: 1\nkinds: &x { a: {} }\n",
	"version: 1\nkinds: { a: !secret x }\n",
	"version: 1\n---\nversion: 1\n",
	"version: 1\ncurrency: [EUR]\n",
	"version: 1\ncurrency: a very long currency\n",
	"version: 1\nwords: { big: much }\n",
	"version: 1\nwords: [big]\n",
	"version: 1\ndownstreams: { shop: { base: shop.example } }\n",
	"version: 1\ndownstreams: { shop: { bsae: 'https://shop.example' } }\n",
	"version: 1\nkinds: { 'bad kind!': {} }\n",
}, kindsOf(
	"look: {}",
	"dedline: 1m",
	"deadline: soon",
	"deadline: -1m",
	"lands_within: 5",
	"cost: { duplicate: huge, miss: 1 }",
	"cost: { duplicate: -1, miss: 1 }",
	"cost: 5",
	"cost: { duplicate: '${input.amuont', miss: 1 }",
	"title: '${nput.customer}'",
	"title: '${input.a +}'",
	"effect: both",
	"repeat: never",
	"retry: { max: many }",
	"retry: { max: -2 }",
	"redact: { a: b }",
	"read: {}",
	"read: { http: { get: /x }, list: 'body.data[' }",
	"read: { http: { post: /x }, list: body.data, mark: it.id }",
	"token: { into: }",
	"key: { from: uuid, window: 1h }",
	"tests: [ { want: perhaps } ]",
	"resend: 5",
)...)

// kindsOf are policies with one kind each.
func kindsOf(fields ...string) (out []string) {
	for _, field := range fields {
		out = append(out, "version: 1\ndownstreams: { shop: { base: 'https://shop.example' } }\nkinds:\n  a:\n    downstream: shop\n    "+field+"\n")
	}
	return out
}
