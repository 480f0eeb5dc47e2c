package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

func TestTheConfigurationIsTakenOrSaidToBeWrong(t *testing.T) {
	cases := map[string]string{
		"":                            "",
		"theme: light\nmouse: true\n": "",
		"theme: pink":                 `theme "pink" is none of auto, light, dark, none`,
		"colour: dark":                "colour",
		"theme: [":                    "is not taken",
	}
	page := need.Blocks(t, "../README.md", "yaml")
	need.That(t, len(page) == 1, "%d blocks", len(page))
	for _, b := range page {
		cases[b.Text] = ""
	}
	for text, want := range cases {
		path := filepath.Join(t.TempDir(), "config.yaml")
		need.OK(t, os.WriteFile(path, []byte(text), 0o600))
		c, err := readConfig(path)
		switch {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path)):
			t.Errorf("%q: %v, want %q", text, err, want)
		case want != "" && c.Theme != "":
			t.Errorf("%q: half of it is taken: %+v", text, c)
		case strings.HasPrefix(text, "theme: light") && (c.Theme != "light" || !c.Mouse):
			t.Errorf("%q: %+v", text, c)
		}
	}
	if c, err := readConfig(filepath.Join(t.TempDir(), "none")); err != nil || c.Theme != "" {
		t.Fatal(c, err)
	}
}
