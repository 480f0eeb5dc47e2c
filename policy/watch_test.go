package policy

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"indoubt/ledger/need"
)

type seen struct {
	p   *Policy
	err error
}

func TestWatchTellsEveryChangeOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "policy.yaml")
	write := func(text string) {
		t.Helper()
		need.OK(t, os.WriteFile(path+".new", []byte(text), 0o644))
		need.OK(t, os.Rename(path+".new", path)) // as editors and git do
	}
	write("version: 1\n")
	have := need.Get(Load(path))(t)
	ctx, cancel := context.WithCancel(context.Background())
	changes, ended := make(chan seen, 10), make(chan error, 1)
	go func() { ended <- Watch(ctx, path, have, func(p *Policy, err error) { changes <- seen{p, err} }) }()
	next := func(what string) seen {
		t.Helper()
		select {
		case s := <-changes:
			return s
		case <-time.After(20 * time.Second):
			t.Fatalf("%s was not noticed", what)
			return seen{}
		}
	}
	write("version: 1\ncurrency: EUR\n") // whether or not it has begun
	s := next("a change")
	need.That(t, s.err == nil && s.p.Currency() == "EUR", "%+v", s)
	write("version: 1\ncurrancy: EUR\n")
	s = next("a broken file")
	need.That(t, s.err != nil && s.p == nil, "%+v", s)
	need.OK(t, os.Remove(path))
	s = next("the end of the file")
	need.That(t, s.err != nil, "%+v", s)
	write("version: 1\ncurrency: CHF\n")
	s = next("a file again")
	need.That(t, s.err == nil && s.p.Currency() == "CHF", "%+v", s)
	need.OK(t, os.WriteFile(filepath.Join(dir, "other.yaml"), []byte("x"), 0o644))
	select {
	case s := <-changes:
		t.Errorf("another file is none of its business: %+v", s)
	case <-time.After(3 * settleTime):
	}
	cancel()
	err := <-ended
	need.That(t, err == nil, "%v", err)
}

func TestWatchTellsWhatIsNewerThanTheCallers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	for _, c := range []struct {
		name, text string
		have       *Policy
		want       string // currency, "error", or "" for nothing to tell
	}{
		{"no file, as the caller knows", "", Default(), ""},
		{"a file by now", "version: 1\ncurrency: EUR\n", Default(), "EUR"},
		{"another one by now", "version: 1\ncurrency: CHF\n", must(t, "version: 1\n"), "CHF"},
		{"the same", "version: 1 # as ever\n", must(t, "version: 1\n"), ""},
		{"broken by now", "version: 2\n", must(t, "version: 1\n"), "error"},
		{"nothing to compare with", "version: 1\n", nil, ""},
	} {
		if c.text != "" {
			need.OK(t, os.WriteFile(path, []byte(c.text), 0o644))
		}
		got := ""
		w := &watched{path: path, onChange: func(p *Policy, err error) {
			if got = "error"; err == nil {
				got = p.Currency()
			}
		}}
		w.begin(c.have)
		if w.look(); got != c.want {
			t.Errorf("%s: told %q, want %q", c.name, got, c.want)
		}
	}
}

func TestWatchNeedsADirectory(t *testing.T) {
	err := Watch(context.Background(), filepath.Join(t.TempDir(), "no", "policy.yaml"), nil, nil)
	need.That(t, err != nil, "no error")
}

func TestLoadSaysWhatIsWrongWithTheFile(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "missing.yaml")} {
		_, err := Load(path)
		need.That(t, err != nil, "%s: no error", path)
	}
	path := filepath.Join(dir, "policy.yaml")
	need.OK(t, os.WriteFile(path, []byte("version: 3\n"), 0o644))
	_, err := Load(path)
	var problems Errors
	need.That(t, errors.As(err, &problems) && len(problems) == 1 && problems[0].File == path, "%v", err)
}

func BenchmarkPrice(b *testing.B) {
	p := need.Get(Parse("policy.yaml", Example()))(b)
	rec := doubt("stripe.charge")
	rec.Operation.Input = []byte(`{"customer":"cus_9","amount":42000,"currency":"usd","invoice":"INV-1"}`)
	b.ReportAllocs()
	for b.Loop() {
		p.Kind("stripe.charge").Price(rec)
	}
}
func BenchmarkAdvise(b *testing.B) {
	p := need.Get(Parse("policy.yaml", Example()))(b)
	rec := doubt("stripe.charge")
	b.ReportAllocs()
	for b.Loop() {
		p.Kind("stripe.charge").Advise(rec, noon)
	}
}
