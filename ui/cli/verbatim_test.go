package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// A policy is shown as its author wrote it, in every error about it: the text is read
// there, and copied.
func TestAPolicyIsQuotedAsItIsWritten(t *testing.T) {
	b := newBench(t)
	const list = `stdout.split("\n").map(l, l.replace("\t", "\\d")`
	bad := b.file("bad.yaml", "version: 1\nkinds:\n  pay:\n    token: argument\n    read:\n      command: [cat, out]\n      list: "+list+"\n      mark: it.ref\n")
	for _, args := range [][]string{{"policy", "check", bad}, {"policy", "test", "--policy", bad}, {"check", "--policy", bad}, {"policy", "show", "--policy", bad}} {
		need.Contains(t, b.want(1, args...), "      list: "+list+"\n")
	}
	need.Contains(t, b.json(1, "policy", "check", bad).Error.Message, "      list: "+list+"\n")

	const mark, failing = `it.split("\n")[0]`, `size(stdout.split("\n")) > input.rows`
	good := b.file("good.yaml", `version: 1
kinds:
  pay:
    token: argument
    read:
      command: [cat, out]
      valid: `+failing+`
      list: stdout.split("\n")
      mark: `+mark+`
    tests:
      - { name: 'a\nb', answer: { exit: 0, stdout: "x" }, input: {}, want: landed }
`)
	said := b.want(1, "policy", "test", "--policy", good)
	need.Contains(t, said, `a\nb`, failing+": the input has no `rows`")
	need.Lacks(t, said, `\\`)
	var data json.RawMessage = b.json(1, "policy", "test", "--policy", good).Data
	need.Contains(t, strings.ReplaceAll(string(data), `\"`, `"`), `split("\\n")) > input.rows: the input has no`) // JSON's own escape
	need.Contains(t, b.want(0, "policy", "show", "pay", "--policy", good), mark)
}
