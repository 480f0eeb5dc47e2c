package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What editors, git and configuration managers do to the file while a console
// is open: the last good policy stays in force until there is a better one.
func TestTheLastGoodPolicyStays(t *testing.T) {
	b := newBench(t)
	good := func(currency string) string { return strings.Replace(benchPolicy, "USD", currency, 1) }
	a := newApp(strings.NewReader(""), os.Stdout, os.Stderr)
	a.policyPath = b.policy
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	live := a.watchPolicy(ctx)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(path, text string) { t.Helper(); must(os.WriteFile(path, []byte(text), 0o600)) }
	until := func(what, currency, problem string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			said := ""
			if err := live.problem(); err != nil {
				said = err.Error()
			}
			if live.inForce().Currency() == currency && (said == "") == (problem == "") && strings.Contains(said, problem) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %s is in force, problem %q; want %s, %q", what, live.inForce().Currency(), said, currency, problem)
			}
		}
	}
	until("at first", "USD", "")
	other := filepath.Join(b.dir, ".policy.yaml.swp")
	for _, step := range []struct {
		what              string
		do                func()
		currency, problem string
	}{
		{"written in place", func() { write(b.policy, good("EUR")) }, "EUR", ""},
		{"renamed over", func() { write(other, good("CHF")); must(os.Rename(other, b.policy)) }, "CHF", ""},
		{"broken", func() { write(b.policy, good("GBP")+"    titel: x\n") }, "CHF", "titel: unknown field"},
		{"broken in another way", func() { write(b.policy, "version: 1\n\tx") }, "CHF", "not YAML"},
		{"mended", func() { write(b.policy, good("GBP")) }, "GBP", ""},
		{"moved to a backup and written anew", func() { must(os.Rename(b.policy, b.policy+"~")); write(b.policy, good("SEK")) }, "SEK", ""},
		{"deleted", func() { must(os.Remove(b.policy)) }, "SEK", "no such file"},
		{"there again", func() { write(other, good("NOK")); must(os.Rename(other, b.policy)) }, "NOK", ""},
		{"a link to another file", func() {
			write(filepath.Join(b.dir, "one.yaml"), good("JPY"))
			must(os.Symlink("one.yaml", other))
			must(os.Rename(other, b.policy))
		}, "JPY", ""},
		{"the link leads elsewhere", func() {
			write(filepath.Join(b.dir, "two.yaml"), good("DKK"))
			must(os.Symlink("two.yaml", other))
			must(os.Rename(other, b.policy))
		}, "DKK", ""},
		{"emptied, as it is for a moment while it is written", func() { write(b.policy, "") }, "DKK", "the file is empty"},
		{"written at last", func() { write(b.policy, good("PLN")) }, "PLN", ""},
	} {
		step.do()
		until(step.what, step.currency, step.problem)
	}
}
