package policy

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// Several files are one policy; what stands twice is refused, with both places.
func TestSeveralFilesAreOnePolicy(t *testing.T) {
	dir := t.TempDir()
	main, beside := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "policy.d")
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		need.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		need.OK(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("policy.yaml", "version: 1\nwords: { dire: 900 }\nkinds:\n  a.one: { cost: { duplicate: 1, miss: dire } }\n")
	write("policy.d/20-b.yml", "# the team's\nkinds:\n  b.two:\n    downstream: shop\n    cost: { duplicate: 2, miss: 3 }\n    deadline: 7m\n")
	write("policy.d/10-shop.yaml", "version: 1\ndownstreams:\n  shop: { base: https://shop.example }\n")
	write("policy.d/.hidden.yaml", "nonsense: [")
	write("policy.d/README.md", "nonsense: [")
	p := need.Get(Load(main))(t)
	need.Equal(t, strings.Join(p.Kinds(), " "), "a.one b.two")
	k := p.Kind("b.two")
	need.That(t, k.Downstream != nil && k.Downstream.Name == "shop" && filepath.Base(k.File) == "20-b.yml" && k.Line == 3, "%+v", k.Entry)
	need.Equal(t, k.Origin("deadline"), "20-b.yml:6")
	need.Equal(t, filepath.Base(k.Downstream.File), "10-shop.yaml")
	whole := need.Get(Load(beside + "/../policy.yaml"))(t)
	need.Equal(t, whole.Digest(), p.Digest())
	write("all/one.yaml", "version: 1\nkinds: { a.one: { cost: { duplicate: 1, miss: dire } }, b.two: { downstream: shop, cost: { duplicate: 2, miss: 3 }, deadline: 7m } }\n")
	write("all/two.yaml", "words: { dire: 900 }\ndownstreams: { shop: { base: https://shop.example } }\n")
	need.Equal(t, need.Get(Load(filepath.Join(dir, "all")))(t).Digest(), p.Digest(), "a directory")

	for text, says := range map[string]string{
		"kinds:\n  c: {}\n  a.one: { deadline: 1m }\n":  "20-b.yml:3:3: kinds.a.one: stands in policy.yaml:4, too",
		"currency: EUR\nwords:\n  dire: 7\n":            "20-b.yml:3:3: words.dire: stands in policy.yaml:2, too",
		"version: 2\n":                                  "20-b.yml:1:1: version: stands in policy.yaml:1, too",
		"downstreams: { shop: { base: http://other } }": "20-b.yml:1:16: downstreams.shop: stands in 10-shop.yaml:3, too",
		"kinds:\n  c: { dedline: 1m }\n":                "20-b.yml:2:8: kinds.c.dedline: unknown field",
		"kinds: [\n":                                    "20-b.yml:",
		"- a\n":                                         "20-b.yml:1",
	} {
		write("policy.d/20-b.yml", text)
		_, err := Load(main)
		var all Errors
		need.That(t, errors.As(err, &all) && strings.Contains(all.Error(), says), "%q: %v, want %s", text, err, says)
		for _, one := range all {
			need.That(t, one.Hint != "" || strings.Contains(one.Message, "not YAML"), "%q: %v has no hint", text, one)
		}
	}
	write("policy.d/20-b.yml", "")
	need.Get(Load(main))(t)
	need.OK(t, os.Remove(main))
	need.Equal(t, need.Get(Load(main))(t).Downstreams()[0], "shop", "only files beside one that is missing")
	need.OK(t, os.RemoveAll(beside))
	_, err := Load(main)
	need.That(t, errors.Is(err, fs.ErrNotExist), "%v", err)
	need.OK(t, os.Mkdir(beside, 0o700))
	_, err = Load(beside)
	need.That(t, err != nil && strings.Contains(err.Error(), "no file in this directory"), "%v", err)
}
