package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// root is the directory of the module, seen from here.
const root = "../.."

// source calls visit for every file of the repository that a person writes.
func source(t *testing.T, visit func(name string)) {
	t.Helper()
	need.OK(t, fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == ".git" || name == ".build" || entry.Name() == "testdata" || entry.Name() == "node_modules"):
			return fs.SkipDir
		case !entry.IsDir():
			visit(name)
		}
		return nil
	}))
}

// text is a file of the repository.
func text(t *testing.T, name string) string {
	t.Helper()
	b := need.Get(os.ReadFile(filepath.Join(root, name)))(t)
	return string(b)
}

// Every test, file and folder that the page for maintainers names is there.
func TestTheArchitectureNamesWhatExists(t *testing.T) {
	files, packages, tests := map[string]bool{}, map[string]bool{}, map[string]bool{}
	source(t, func(name string) {
		for dir := name; dir != "."; dir = path.Dir(dir) {
			files[dir] = true
		}
		if strings.HasSuffix(name, ".go") && name[0] != '.' {
			packages[path.Dir(name)] = true
		}
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		parsed := need.Get(parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution))(t)
		for _, decl := range parsed.Decls {
			if f, is := decl.(*ast.FuncDecl); is {
				tests[f.Name.Name] = true
			}
		}
	})
	for _, page := range []string{".github/ARCHITECTURE.md", ".github/CONTRIBUTING.md"} {
		said := text(t, page)
		for _, name := range regexp.MustCompile(`\bTest[A-Z][A-Za-z0-9]*_?[A-Z][A-Za-z0-9_]+`).FindAllString(said, -1) {
			need.That(t, tests[name], "%s names %s, and there is no such test", page, name)
		}
		for _, name := range regexp.MustCompile(`\b(?:ledger|policy|reconcile|ui)(?:/[A-Za-z0-9_.]+)+\b`).FindAllString(said, -1) {
			need.That(t, files[name], "%s names %s, which is not there", page, name)
		}
	}
	said := text(t, ".github/ARCHITECTURE.md")
	for dir := range packages {
		place := dir
		for !strings.Contains(said, place) && strings.Count(place, "/") > 1 { // below one that is drawn
			place = path.Dir(place)
		}
		need.That(t, strings.Contains(said, place), "the drawing has no place for %s", dir)
	}
	for i := 1; i <= 12; i++ {
		if !regexp.MustCompile(`(?m)^\| \*\*I` + string(rune('0'+i/10)) + `?` + string(rune('0'+i%10)) + `\*\* .* ` + "`Test").MatchString(said) {
			t.Errorf("the page names no test of invariant %d", i)
		}
	}
}

// Every link between the pages leads somewhere: to a file, and to a heading in it.
func TestLinksLeadSomewhere(t *testing.T) {
	pages := 0
	source(t, func(name string) {
		if !strings.HasSuffix(name, ".md") {
			return
		}
		pages++
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(text(t, name), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, heading, _ := strings.Cut(m[1], "#")
			to := name
			if file != "" {
				to = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s links to %s, which is not there", name, m[1])
				continue
			}
			if heading != "" && !anchors(text(t, to))[heading] {
				t.Errorf("%s links to %s, and there is no such heading", name, m[1])
			}
		}
	})
	need.That(t, pages >= 7, "only %d pages were read", pages)
}

// anchors are the headings of a page as links name them.
func anchors(page string) map[string]bool {
	out := map[string]bool{}
	page = regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(page, "")
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		plain := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		out[strings.ReplaceAll(strings.TrimSpace(plain), " ", "-")] = true
	}
	return out
}
