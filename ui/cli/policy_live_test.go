package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// syncBuffer takes what a program that runs on writes.
type syncBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// A headless engine has no banner: it says on standard error what is wrong with
// the policy, and when it is mended, and goes on.
func TestWatchingSaysThatThePolicyIsBroken(t *testing.T) {
	b := newBench(t)
	b.open()
	errOut := &syncBuffer{}
	a := newApp(strings.NewReader(""), errOut, errOut)
	a.env = func(name string) string {
		return map[string]string{"INDOUBT_LEDGER": b.ledger, "INDOUBT_POLICY": b.policy}[name]
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() { ended <- a.run(ctx, []string{"engine", "--metrics", ":0"}) }()
	until := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(patience); !strings.Contains(errOut.String(), want); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%q was not said:\n%s", want, errOut.String())
			}
		}
	}
	until("metrics at") // it has begun
	b.file("policy.yaml", benchPolicy+"    titel: x\n")
	until("the policy is broken, the last good one stays: " + b.policy + ":")
	until("titel: unknown field")
	b.file("policy.yaml", benchPolicy)
	until("the policy is good again")
	b.file("policy.yaml", strings.Replace(benchPolicy, "USD", "EUR", 1))
	until("the policy has changed")
	cancel()
	if exit := <-ended; exit != 0 {
		t.Errorf("exit %d\n%s", exit, errOut.String())
	}
}

// What editors, git and configuration managers do to the file while a console
// is open: the last good policy stays in force until there is a better one.
func TestTheLastGoodPolicyStays(t *testing.T) {
	b := newBench(t)
	good := func(currency string) string { return strings.Replace(benchPolicy, "USD", currency, 1) }
	a := newApp(strings.NewReader(""), os.Stdout, os.Stderr)
	a.policyPath = b.policy
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	live := a.watchPolicy(ctx, nil)
	must := func(err error) {
		t.Helper()
		need.OK(t, err)
	}
	write := func(path, text string) { t.Helper(); must(os.WriteFile(path, []byte(text), 0o600)) }
	until := func(what, currency, problem string) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
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
		{"half of it", func() { write(b.policy, good("CZK")[:200]) }, "PLN", "policy.yaml:"},
		{"no text at all", func() { write(b.policy, "\x00\xff\xfe\x01binary\x00") }, "PLN", "not UTF-8"},
		{"100 MB of it", func() { write(b.policy, ""); must(os.Truncate(b.policy, 100<<20)) }, "PLN", "larger than"},
		{"a directory", func() { must(os.Remove(b.policy)); must(os.Mkdir(b.policy, 0o700)) }, "PLN", "no file in this directory"},
		{"no directory any more", func() { must(os.Remove(b.policy)); write(b.policy, good("CZK")) }, "CZK", ""},
		{"a link to itself", func() { must(os.Symlink("policy.yaml", other)); must(os.Rename(other, b.policy)) }, "CZK", "policy.yaml"},
		{"a directory that is swapped by its link", func() {
			for _, c := range []string{"HUF", "RON"} {
				must(os.Mkdir(filepath.Join(b.dir, c), 0o700))
				write(filepath.Join(b.dir, c, "policy.yaml"), good(c))
			}
			must(os.Symlink("HUF", filepath.Join(b.dir, "data")))
			must(os.Symlink("data/policy.yaml", other))
			must(os.Rename(other, b.policy))
		}, "HUF", ""},
		{"swapped", func() { must(os.Symlink("RON", other)); must(os.Rename(other, filepath.Join(b.dir, "data"))) }, "RON", ""},
		{"something without an end", func() { must(os.Remove(b.policy)); must(os.Symlink("/dev/zero", b.policy)) }, "RON", "policy.yaml"},
		{"mended at last", func() { must(os.Remove(b.policy)); write(b.policy, good("PLN")) }, "PLN", ""},
	} {
		step.do()
		until(step.what, step.currency, step.problem)
	}
}
