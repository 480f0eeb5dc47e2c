package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy/recipes"
)

// rates would only make the tests slow.
var rates = regexp.MustCompile(`rate: \d+/[sm]`)

// recipe makes a recipe the policy of the bench, with other words in places of
// its own: an address, a path.
func (b *bench) recipe(name string, swap ...string) {
	b.Helper()
	r, ok := recipes.Get(name)
	need.Must(b, ok, "no recipe %s", name)
	for i := 0; i < len(swap); i += 2 {
		if !strings.Contains(string(r.Text), swap[i]) {
			b.Fatalf("%s does not say %q", name, swap[i])
		}
	}
	text := rates.ReplaceAllString(strings.NewReplacer(swap...).Replace(string(r.Text)), "rate: 1000/s")
	b.policy, b.sees = b.file(name+".yaml", text), true
}

// known records the n-th operation as committed by its own answer.
func (b *bench) known(n int, kind, input, receipt string) {
	b.Helper()
	b.begin(n, kind, input)
	b.settle(n, ledger.SettleRequest{Outcome: ledger.OutcomeCommitted, Receipt: receipt, Status: -1})
	b.now = b.now.Add(time.Minute)
}

// checked lets the engine look for the n-th operation, and gives its verdict.
func (b *bench) checked(n int) (ledger.Verdict, string) {
	b.Helper()
	b.now = b.now.Add(time.Second)
	b.run("check", id(n))
	var last ledger.Read
	for _, r := range b.rec(n).Reads {
		if r.BeganAt.After(last.BeganAt) {
			last = r
		}
	}
	return last.Verdict, last.Reason
}

func (b *bench) token(n int) string { return b.rec(n).Operation.Token }

// script makes a program of that name.
func (b *bench) script(name, text string) (path string) {
	b.Helper()
	path = filepath.Join(b.dir, "bin", name)
	need.OK(b, os.MkdirAll(filepath.Dir(path), 0o755))
	need.OK(b, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755))
	return path
}

// program puts a program of that name first on the path.
func (b *bench) program(name, text string) {
	b.Helper()
	b.Setenv("PATH", filepath.Dir(b.script(name, text))+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func (b *bench) wantVerdict(what string, n int, want ledger.Verdict, because string) {
	b.Helper()
	if got, why := b.checked(n); got != want || !strings.Contains(why, because) {
		b.Errorf("%s: %s (%s), want %s (%s)", what, got, why, want, because)
	}
}
