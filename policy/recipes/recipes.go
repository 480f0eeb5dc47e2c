// Package recipes holds ready policies for well-known downstreams, each with
// cases that show what it reads in their answers.
//
// A recipe is a whole policy file: `version: 1`, then `downstreams:` and
// `kinds:`, nothing else at the top. Its first comment line says in a few words
// what it is for; the comments below that line, up to the first key, go with it.
package recipes

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/policy"
)

//go:embed *.yaml
var files embed.FS

type Recipe struct {
	Name  string // as it is asked for: "stripe"
	Title string // one line
	Text  []byte // a policy file
}

// Names are all recipes, sorted, as ReadDir has them.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // embedded
	}
	return ledger.Each(entries, func(e fs.DirEntry) string { return strings.TrimSuffix(e.Name(), ".yaml") })
}

// Get is the recipe of that name; ok is false when there is none.
func Get(name string) (r Recipe, ok bool) {
	if strings.ContainsAny(name, `/\`) {
		return Recipe{}, false
	}
	text, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return Recipe{}, false
	}
	title, _, _ := strings.Cut(string(text), "\n")
	return Recipe{Name: name, Title: strings.TrimSpace(strings.TrimLeft(title, "# ")), Text: text}, true
}

// FillIn is what the recipe leaves to be filled in, on one line; "" for nothing.
func (r Recipe) FillIn() string {
	_, rest, _ := strings.Cut(string(r.Text), "\n# Fill in: ")
	var words []string
	for line := range strings.Lines("# " + rest) {
		text, comment := strings.CutPrefix(strings.TrimSpace(line), "# ")
		if !comment {
			break
		}
		words = append(words, text)
	}
	if text := strings.Join(words, " "); !strings.HasPrefix(text, "nothing") {
		return text
	}
	return ""
}

// servers are the MCP servers that recipes know: the words that start or reach one (a
// package, a program, a URL), with its name in kinds and its recipe.
var servers = sync.OnceValue(func() (out []server) {
	for _, name := range Names() {
		r, _ := Get(name)
		for line := range strings.Lines(string(r.Text)) {
			if words, ok := strings.CutPrefix(line, "# Known by: "); ok {
				for _, word := range strings.Split(strings.TrimSpace(words), ", ") {
					out = append(out, server{word, strings.TrimPrefix(name, "mcp-"), name})
				}
			}
		}
	}
	return out
})

type server struct{ word, name, recipe string }

// ServerName is the name in kinds that a recipe gives the MCP server of this package,
// program or URL, "" where none does.
func ServerName(word string) string {
	word = version.ReplaceAllString(word, "$1")
	for _, s := range servers() {
		if s.word == word {
			return s.name
		}
	}
	return ""
}

// version is that of a package, as npx and uvx take it.
var version = lazyregexp.New(`(.)(?:@|==)[^/@]*$`)

// ForServer is the recipe for the MCP server of this name or package, "" for none.
func ForServer(word string) string {
	for _, s := range servers() {
		if s.name == word || s.word == word {
			return s.recipe
		}
	}
	return ""
}

type UnknownError struct{ Name string }

func (e *UnknownError) Error() string { return fmt.Sprintf("there is no recipe %q", e.Name) }

// Merge writes one policy file from several recipes, comments kept, after the
// head that every file begins with: what holds for every kind in the example. Errors: *UnknownError.
func Merge(names ...string) ([]byte, error) {
	head, _, _ := strings.Cut(string(policy.Example()), "\ndownstreams:")
	downstreams, kinds := "", ""
	for i, name := range names {
		r, ok := Get(name)
		switch {
		case !ok:
			return nil, &UnknownError{name}
		case slices.Contains(names[:i], name):
			continue
		}
		about, body, _ := strings.Cut(string(r.Text), "version: 1\n")
		before, own, _ := strings.Cut(body, "\nkinds:\n")
		_, shared, _ := strings.Cut(before, "\ndownstreams:\n")
		downstreams += strings.TrimLeft(shared, "\n")
		kinds += "\n  " + strings.TrimSpace(strings.ReplaceAll(about, "\n", "\n  ")) + "\n" + own
	}
	if downstreams != "" {
		downstreams = "\ndownstreams:\n" + downstreams
	}
	return []byte(strings.TrimRight(head, "\n") + "\n" + downstreams + "\nkinds:\n" + strings.TrimPrefix(kinds, "\n")), nil
}
