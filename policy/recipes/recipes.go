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
	"sort"
	"strings"
	"sync"

	"indoubt/ledger/lazyregexp"
	"indoubt/policy"
)

//go:embed *.yaml
var files embed.FS

// Recipe is one ready policy.
type Recipe struct {
	Name  string // as it is asked for: "stripe"
	Title string // one line
	Text  []byte // a policy file
}

// Names are all recipes, sorted.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // embedded
	}
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	sort.Strings(out)
	return out
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

// UnknownError names a recipe that does not exist.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string { return fmt.Sprintf("there is no recipe %q", e.Name) }

// Merge writes one policy file from several recipes, comments kept, after the
// head that every file begins with. What two of them say in the same words is
// said once. Errors: *UnknownError; a downstream or kind that two recipes say
// differently.
func Merge(names ...string) ([]byte, error) {
	sections := []string{"downstreams", "kinds"}
	said := map[string]string{} // section.name → text
	from := map[string]string{}
	body := map[string]string{}
	for _, name := range names {
		r, ok := Get(name)
		if !ok {
			return nil, &UnknownError{name}
		}
		parts, err := split(string(r.Text))
		if err != nil {
			return nil, fmt.Errorf("recipe %s: %w", name, err)
		}
		for _, section := range sections {
			for i, e := range parts.entries[section] {
				key := section + "." + e.name
				if text, twice := said[key]; twice {
					if strings.TrimSpace(text) != strings.TrimSpace(e.text) {
						return nil, fmt.Errorf("the recipes %s and %s both say %s, in different words", from[key], name, key)
					}
					continue
				}
				said[key], from[key] = e.text, name
				if section == "kinds" && i == 0 {
					body[section] += "\n" + indented(parts.head)
				}
				body[section] += e.text
			}
		}
	}
	var out strings.Builder
	out.WriteString(head())
	for _, section := range sections {
		if body[section] != "" {
			out.WriteString("\n" + section + ":\n" + strings.TrimPrefix(body[section], "\n"))
		}
	}
	return []byte(out.String()), nil
}

// head is the beginning of the example: what holds for every kind.
func head() string {
	text := string(policy.Example())
	i := strings.Index(text, "\ndownstreams:")
	return strings.TrimRight(text[:i], "\n") + "\n"
}

// pieces are the parts of a recipe: the comment at its head and, by section,
// every entry with the comments above it.
type pieces struct {
	head    []string
	entries map[string][]piece
}

type piece struct{ name, text string }

// split cuts a recipe at its sections and their entries by indentation, which is
// two spaces.
func split(text string) (pieces, error) {
	p := pieces{entries: map[string][]piece{}}
	section, comments, begun := "", "", false
	for i, line := range strings.SplitAfter(text, "\n") {
		plain := strings.TrimRight(line, " \r\n")
		switch {
		case !begun && strings.HasPrefix(plain, "#"):
			p.head = append(p.head, plain)
		case plain == "" || strings.HasPrefix(plain, "#"):
			comments += line
		case !strings.HasPrefix(plain, " "):
			begun, comments = true, strings.ReplaceAll("\n"+strings.TrimSpace(comments), "\n#", "\n  #")
			comments = strings.TrimPrefix(comments+"\n", "\n")
			if strings.TrimSpace(comments) == "" {
				comments = ""
			}
			section, _, _ = strings.Cut(plain, ":")
			if section != "version" && plain != "downstreams:" && plain != "kinds:" {
				return p, fmt.Errorf("line %d: only version, downstreams and kinds stand at the top", i+1)
			}
		case strings.HasPrefix(plain, "  ") && !strings.HasPrefix(plain, "   "):
			name, _, _ := strings.Cut(strings.TrimSpace(plain), ": ")
			if strings.HasPrefix(plain, "  #") { // above the entry that follows
				comments += line
				continue
			}
			list := p.entries[section]
			p.entries[section] = append(list, piece{strings.TrimSuffix(name, ":"), comments + line})
			comments = ""
		default:
			list := p.entries[section]
			if len(list) == 0 {
				return p, fmt.Errorf("line %d: is not indented by two spaces", i+1)
			}
			list[len(list)-1].text += comments + line
			comments = ""
		}
	}
	return p, nil
}

// indented is a recipe's head as a comment inside `kinds:`.
func indented(lines []string) string {
	var b strings.Builder
	for _, line := range lines {
		b.WriteString("  " + line + "\n")
	}
	return b.String()
}
