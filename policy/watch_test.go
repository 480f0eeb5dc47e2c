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
		if err := os.Rename(path+".new", path); err != nil { // as editors and git do
			t.Fatal(err)
		}
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
	if s := next("a change"); s.err != nil || s.p.Currency() != "EUR" {
		t.Errorf("%+v", s)
	}
	write("version: 1\ncurrancy: EUR\n")
	if s := next("a broken file"); s.err == nil || s.p != nil {
		t.Errorf("%+v", s)
	}
	need.OK(t, os.Remove(path))
	if s := next("the end of the file"); s.err == nil {
		t.Errorf("%+v", s)
	}
	write("version: 1\ncurrency: CHF\n")
	if s := next("a file again"); s.err != nil || s.p.Currency() != "CHF" {
		t.Errorf("%+v", s)
	}
	need.OK(t, os.WriteFile(filepath.Join(dir, "other.yaml"), []byte("x"), 0o644))
	select {
	case s := <-changes:
		t.Errorf("another file is none of its business: %+v", s)
	case <-time.After(3 * settleTime):
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
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
	if err := Watch(context.Background(), filepath.Join(t.TempDir(), "no", "policy.yaml"), nil, nil); err == nil {
		t.Error("no error")
	}
}

func TestLoadSaysWhatIsWrongWithTheFile(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "missing.yaml")} {
		if _, err := Load(path); err == nil {
			t.Errorf("%s: no error", path)
		}
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
