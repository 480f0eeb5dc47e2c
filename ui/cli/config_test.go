package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

func TestTheConfigurationIsTakenOrSaidToBeWrong(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"theme: light\nfilter: -source:test kind:stripe.*\ncolumns: [kind, what, never, do]\nmouse: false\n": "",
		"theme: pink":      `theme "pink" is none of auto, light, dark, none`,
		"columns: [price]": `column "price" is none of kind, what,`,
		"filter: 'x:1'":    `there is no filter field "x"`,
		"colour: dark":     "colour",
		"theme: [":         "is not taken",
	} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		need.OK(t, os.WriteFile(path, []byte(text), 0o600))
		c, err := readConfig(path)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path)):
			t.Errorf("%q: %v, want %q", text, err, want)
		case want != "" && (c.Theme != "" || c.Filter != "" || c.Columns != nil):
			t.Errorf("%q: half of it is taken: %+v", text, c)
		case strings.Contains(text, "light") && (c.Theme != "light" || c.Filter != "-source:test kind:stripe.*" || len(c.Columns) != 4 || c.Mouse == nil || *c.Mouse):
			t.Errorf("%q: %+v", text, c)
		}
	}
	if c, err := readConfig(filepath.Join(t.TempDir(), "none")); err != nil || c.Theme != "" {
		t.Fatal(c, err)
	}
}

func TestFiltersAreRemembered(t *testing.T) {
	p := pastFilters(filepath.Join(t.TempDir(), "state", "filters"))
	if got := p.read(); got != nil {
		t.Fatal(got)
	}
	want := []string{"source:billing", `"INV 1042" state:uncertain`}
	need.OK(t, p.write(want))
	if got := p.read(); !slices.Equal(got, want) {
		t.Fatalf("%q", got)
	}
	if info, err := os.Stat(string(p)); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info.Mode(), err)
	}
	need.OK(t, os.WriteFile(string(p), []byte("nonsense:1\nkind:x\n"), 0o600))
	if got := p.read(); !slices.Equal(got, []string{"kind:x"}) {
		t.Fatalf("%q", got)
	}
}
