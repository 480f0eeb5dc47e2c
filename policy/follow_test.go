package policy

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"indoubt/ledger/need"
	"indoubt/policy/file"
)

// What editors, git and configuration managers do to a file: the last good policy stays
// until there is a better one.
func TestTheLastGoodPolicyStays(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, ".policy.yaml.swp")
	good := func(currency string) string { return "version: 1\ncurrency: " + currency + "\n" }
	must := func(err error) { t.Helper(); need.OK(t, err) }
	write := func(path, text string) { t.Helper(); must(os.WriteFile(path, []byte(text), 0o600)) }
	f := Follow(path, Default())
	for _, step := range []struct {
		what              string
		do                func()
		currency, problem string
	}{
		{"no file", func() {}, "USD", ""},
		{"written", func() { write(path, good("EUR")) }, "EUR", ""},
		{"a comment", func() { write(path, good("EUR")+"# as ever\n") }, "EUR", ""},
		{"renamed over", func() { write(other, good("CHF")); must(os.Rename(other, path)) }, "CHF", ""},
		{"broken", func() { write(path, good("GBP")+"currancy: EUR\n") }, "CHF", "currancy: unknown field"},
		{"broken in another way", func() { write(path, "version: 1\n\tx") }, "CHF", "not YAML"},
		{"mended", func() { write(path, good("GBP")) }, "GBP", ""},
		{"moved to a backup and written anew", func() { must(os.Rename(path, path+"~")); write(path, good("SEK")) }, "SEK", ""},
		{"deleted", func() { must(os.Remove(path)) }, "SEK", "no such file"},
		{"there again", func() { write(other, good("NOK")); must(os.Rename(other, path)) }, "NOK", ""},
		{"a link to another file", func() {
			write(filepath.Join(dir, "one.yaml"), good("JPY"))
			must(os.Symlink("one.yaml", other))
			must(os.Rename(other, path))
		}, "JPY", ""},
		{"the link leads elsewhere", func() {
			write(filepath.Join(dir, "two.yaml"), good("DKK"))
			must(os.Symlink("two.yaml", other))
			must(os.Rename(other, path))
		}, "DKK", ""},
		{"emptied, as it is for a moment while it is written", func() { write(path, "") }, "DKK", "the file is empty"},
		{"written at last", func() { write(path, good("PLN")) }, "PLN", ""},
		{"no text at all", func() { write(path, "\x00\xff\xfe\x01binary\x00") }, "PLN", "not UTF-8"},
		{"100 MB of it", func() { write(path, ""); must(os.Truncate(path, 100<<20)) }, "PLN", "larger than"},
		{"a directory", func() { must(os.Remove(path)); must(os.Mkdir(path, 0o700)) }, "PLN", "not a regular file"},
		{"no directory any more", func() { must(os.Remove(path)); write(path, good("CZK")) }, "CZK", ""},
		{"a link to itself", func() { must(os.Symlink("policy.yaml", other)); must(os.Rename(other, path)) }, "CZK", "policy.yaml"},
		{"a directory that is swapped by its link", func() {
			for _, c := range []string{"HUF", "RON"} {
				must(os.Mkdir(filepath.Join(dir, c), 0o700))
				write(filepath.Join(dir, c, "policy.yaml"), good(c))
			}
			must(os.Symlink("HUF", filepath.Join(dir, "data")))
			must(os.Symlink("data/policy.yaml", other))
			must(os.Rename(other, path))
		}, "HUF", ""},
		{"swapped", func() { must(os.Symlink("RON", other)); must(os.Rename(other, filepath.Join(dir, "data"))) }, "RON", ""},
		{"something without an end", func() { must(os.Remove(path)); must(os.Symlink("/dev/zero", path)) }, "RON", "policy.yaml"},
		{"mended at last", func() { must(os.Remove(path)); write(path, good("PLN")) }, "PLN", ""},
	} {
		step.do()
		for range 2 { // the same again is no news
			p, err := f.Now()
			need.That(t, p.Currency() == step.currency && (err == nil) == (step.problem == ""), "%s: %s, %v", step.what, p.Currency(), err)
			if err != nil {
				need.Contains(t, err.Error(), step.problem)
			}
		}
	}
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
	var problems file.Errors
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
