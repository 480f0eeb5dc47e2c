package console

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ui/ticket"
)

// Every word in capitals on a golden screen, columns and labels among them, is in
// the glossary.
func TestEveryWordOfTheScreenIsExplained(t *testing.T) {
	known := map[string]bool{}
	for _, w := range strings.Fields("USD CEST POST INV SAM MARKS WRONG DONE") { // units, names and data
		known[w] = true
	}
	capitals, covered := regexp.MustCompile(`[A-Z][A-Z?]{2,}`), regexp.MustCompile(`\S+[│┌└]`) // a dialog covers the rest of a word
	for _, w := range capitals.FindAllString(ticket.Glossary, -1) {
		known[w] = true
	}
	files, err := filepath.Glob("testdata/*.txt")
	need.Must(t, err == nil && len(files) >= 40, "%v %v", len(files), err)
	for _, file := range files {
		screen := need.Get(os.ReadFile(file))(t)
		for _, w := range capitals.FindAllString(covered.ReplaceAllString(string(screen), ""), -1) {
			if !known[w] {
				t.Errorf("%s shows %q, which the glossary does not explain", file, w)
				known[w] = true
			}
		}
	}
}

func TestTheHelpIsSearched(t *testing.T) {
	b := nightBench(t, 80, 24).keys("?").shows("/ search")
	b.keys("/").text("said no").shows("on a person's word, without proof").hides("half a page up")
	b.keys("enter").shows("on a person's word").keys("esc").shows("half a page up")
	b.keys("/").text("zzzz").shows("nothing here says that").keys("esc").shows("half a page up")
	b.keys("esc").shows("▌1 Needs you").keys("?").shows("half a page up")
	need.Must(t, b.m.table.Filter.Text == "", "a word of the help filters the list")
}
