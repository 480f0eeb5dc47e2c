package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"indoubt/ledger/need"
)

// What one reader can hold in mind. A file, a type or a function that outgrows
// its limit is split; the limit stays.
const (
	maxFields     = 30  // of a struct
	maxMethods    = 45  // of a type, with the functions of its package that take it first
	maxColumns    = 140 // of a line, a tab being four
	maxLines      = 500 // of a file
	maxTestLines  = 600 // of a test file
	maxBody       = 80  // lines of a function
	maxComplexity = 25  // cyclomatic, of a function
)

// records are the structs that may be wider: each field is a column of the ledger.
var records = []string{
	"ledger.Operation",    // one row of the table operations
	"ledger.BeginRequest", // what a row of operations and one of attempts are made of
}

// large are the types with more methods, and functions that take them first, than one
// reader holds in mind. Each number is what stands.
var large = map[string]int{
	"ledger.Record":      47,
	"ledger/store.Store": 52,
	"ui/console.Root":    91,
}

// long are the lines of the program that are longer than maxColumns, by package. Each
// number is what stands.
var long = map[string]int{
	"ledger":                  46,
	"ledger/digestkey":        2,
	"ledger/ledgertest":       32,
	"ledger/open":             4,
	"ledger/outcome":          4,
	"ledger/postgres":         42,
	"ledger/record":           14,
	"ledger/record/command":   5,
	"ledger/record/httpproxy": 7,
	"ledger/record/mcpproxy":  18,
	"ledger/record/roundtrip": 15,
	"ledger/redact":           13,
	"ledger/sqlite":           10,
	"ledger/wire/curl":        12,
	"ledger/wire/mcpwire":     3,
	"reconcile":               9,
	"reconcile/drill":         6,
	"ui/cli":                  88,
	"ui/clients":              1,
	"ui/console":              41,
	"ui/console/ask":          1,
	"ui/ticket":               23,
}

func TestNothingOutgrowsItsReader(t *testing.T) {
	src := newSurvey()
	need.OK(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return src.file(filepath.ToSlash(name), path, nil)
	}))
	for _, offender := range src.offenders(large, long) {
		t.Error(offender)
	}
	for _, name := range records {
		need.That(t, src.seen[name], "the list of wide records names %s, which is none: take it off the list", name)
	}
	need.That(t, src.files >= 100, "only %d files were read", src.files)
	for _, counted := range []struct {
		name      string
		got, most map[string]int
		above     int
	}{{"large", src.around(), large, maxMethods}, {"long", src.long, long, 0}} {
		for _, name := range slices.Sorted(maps.Keys(counted.got)) {
			if n := counted.got[name]; n > counted.above && n != counted.most[name] {
				t.Errorf("%s: %q: %d,", counted.name, name, n)
			}
		}
		for name := range counted.most {
			need.That(t, counted.got[name] > counted.above, "%s: %q is within the limit of all: take it off the list", counted.name, name)
		}
	}
}

// Each limit is seen to fail, and not to fail at its bound.
func TestLimitsRefuseMore(t *testing.T) {
	of := func(n int, part string) string { return strings.Repeat(part, n) }
	fields := func(n int) string { return "package p\ntype T struct {\n" + of(n-2, "\tX_ int\n") + "\tA, B int\n}\n" }
	methods := func(n int) string { return "package p\ntype T struct{}\n" + of(n, "func (t *T) M() {}\n") }
	around := func(n int) string {
		return "package p\ntype T struct{}\nfunc (T) M() {}\n" + of(n-1, "func f(t *T, n int) {}\n")
	}
	columns := func(n int) string { return "package p\n\t//" + of(n-6, "x") + "\n" }
	inInterface := func(n int) string { return "package p\ntype T interface {\n" + of(n, "\tM()\n") + "}\n" }
	lines := func(n int) string { return "package p\n" + of(n-1, "// one line\n") }
	body := func(n int) string { return "package p\nfunc f() {\n" + of(n-2, "\tg()\n") + "}\n" }
	branches := func(n int) string {
		return "package p\nfunc f() {\n\tif a && b || c {\n\t}\n\tfor range d {\n\t}\n\tgo func() { select {\n\tcase <-e:\n\tdefault:\n\t} }()\n\tswitch {\n" +
			of(n-6, "\tcase true:\n") + "\tdefault:\n\t}\n}\n"
	}
	for _, c := range []struct {
		name, file string
		source     func(int) string
		most       int
	}{
		{"fields", "a.go", fields, maxFields},
		{"methods", "a.go", methods, maxMethods},
		{"functions around a type", "a.go", around, maxMethods},
		{"columns", "a.go", columns, maxColumns},
		{"methods of an interface", "a.go", inInterface, maxMethods},
		{"lines", "a.go", lines, maxLines},
		{"lines of a test", "a_test.go", lines, maxTestLines},
		{"a function's lines", "a.go", body, maxBody},
		{"a function's lines in a test", "a_test.go", body, 0},
		{"a function's lines in a suite", "a.go", func(n int) string { return "package p\nimport \"testing\"\n" + body(n)[len("package p\n"):] }, 0},
		{"branches", "a.go", branches, maxComplexity},
	} {
		for more := range 2 {
			src := newSurvey()
			n := c.most + more
			if c.most == 0 {
				n = maxBody * 2 // bounded in the program only
			}
			need.OK(t, src.file("p/"+c.file, c.file, c.source(n)))
			if found := src.offenders(nil, nil); len(found) != more && c.most != 0 || c.most == 0 && len(found) != 0 {
				t.Errorf("%s: %d of at most %d are refused: %q", c.name, n, c.most, found)
			}
		}
	}
}

// survey is what was read of the source.
type survey struct {
	files   int
	found   []string
	methods map[string]int  // by package and type, with the functions that take it first
	types   map[string]bool // that a package declares
	long    map[string]int  // lines, by package
	seen    map[string]bool // the wide records
}

func newSurvey() *survey {
	return &survey{methods: map[string]int{}, types: map[string]bool{}, long: map[string]int{}, seen: map[string]bool{}}
}

// around are the methods of the types that their own package declares.
func (s *survey) around() map[string]int {
	out := maps.Clone(s.methods)
	maps.DeleteFunc(out, func(name string, _ int) bool { return !s.types[name] })
	return out
}

// file reads one file; source is its text where it is not on disk.
func (s *survey) file(name, path string, source any) error {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, path, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	s.files++
	// What imports testing is a test, whatever its file is called.
	test, most := strings.HasSuffix(name, "_test.go") || slices.ContainsFunc(parsed.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` }), maxLines
	if test {
		most = maxTestLines
	}
	if n := set.File(parsed.FileStart).LineCount(); n > most {
		s.refuse(name, "has %d lines, at most %d are allowed", n, most)
	}
	if test {
		return nil
	}
	if err := s.columns(filepath.Dir(name), path, source); err != nil {
		return err
	}
	at := func(n ast.Node) string { return fmt.Sprintf("%s:%d", name, set.Position(n.Pos()).Line) }
	for _, decl := range parsed.Decls {
		f, is := decl.(*ast.FuncDecl)
		if !is {
			continue
		}
		if n := set.Position(f.End()).Line - set.Position(f.Pos()).Line + 1; n > maxBody {
			s.refuse(at(f), "%s has %d lines, at most %d are allowed", f.Name.Name, n, maxBody)
		}
		if n := complexity(f); n > maxComplexity {
			s.refuse(at(f), "%s has a cyclomatic complexity of %d, at most %d is allowed", f.Name.Name, n, maxComplexity)
		}
		if f.Recv != nil {
			s.methods[filepath.Dir(name)+"."+receiver(f.Recv.List[0].Type)]++
		} else if takes := f.Type.Params.List; len(takes) > 0 {
			s.methods[filepath.Dir(name)+"."+receiver(takes[0].Type)]++
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
			s.types[filepath.Dir(name)+"."+n.Name.Name] = true
			record := parsed.Name.Name + "." + n.Name.Name
			if of, is := n.Type.(*ast.StructType); is && of.Fields.NumFields() > maxFields && slices.Contains(records, record) {
				s.seen[record] = true
				return false
			}
		case *ast.StructType:
			if wide := n.Fields.NumFields(); wide > maxFields {
				s.refuse(at(n), "a struct has %d fields, at most %d are allowed", wide, maxFields)
			}
		case *ast.InterfaceType:
			if wide := n.Methods.NumFields(); wide > maxMethods {
				s.refuse(at(n), "an interface has %d methods, at most %d are allowed", wide, maxMethods)
			}
		}
		return true
	})
	return nil
}

func (s *survey) refuse(at, format string, args ...any) {
	s.found = append(s.found, at+": "+fmt.Sprintf(format, args...))
}

// columns counts the lines of a file that are too long.
func (s *survey) columns(dir, path string, source any) error {
	text, given := source.(string)
	if !given {
		read, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text = string(read)
	}
	for line := range strings.Lines(text) {
		if utf8.RuneCountInString(strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\t", "    ")) > maxColumns {
			s.long[dir]++
		}
	}
	return nil
}

// offenders are what is past its limit, with the types whose methods, and the packages whose
// long lines, were counted over all files.
func (s *survey) offenders(large, long map[string]int) []string {
	found := slices.Clone(s.found)
	for name, n := range s.around() {
		if most := max(maxMethods, large[name]); n > most {
			found = append(found, fmt.Sprintf("%s has %d methods and functions that take it first, at most %d are allowed", name, n, most))
		}
	}
	for dir, n := range s.long {
		if n > long[dir] {
			found = append(found, fmt.Sprintf("%s has %d lines of more than %d columns, at most %d are allowed", dir, n, maxColumns, long[dir]))
		}
	}
	slices.Sort(found)
	return found
}

// receiver is the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// complexity counts the ways through a function and the literals in it.
func complexity(f *ast.FuncDecl) int {
	n := 1
	ast.Inspect(f, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if node.List != nil {
				n++
			}
		case *ast.CommClause:
			if node.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if node.Op == token.LAND || node.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}
