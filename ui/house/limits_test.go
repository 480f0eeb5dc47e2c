package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// What one reader can hold in mind. A file, a type or a function that outgrows
// its limit is split; the limit stays.
const (
	maxFields     = 30  // of a struct
	maxMethods    = 45  // of a type
	maxLines      = 500 // of a file
	maxTestLines  = 600 // of a test file
	maxBody       = 80  // lines of a function
	maxComplexity = 25  // cyclomatic, of a function
)

// records are the structs that may be wider: each field is a column of the ledger.
var records = []string{
	"ledger.Operation",    // one row of the table operations
	"ledger.Attempt",      // one row of the table attempts
	"ledger.BeginRequest", // what the two rows are made of
}

func TestNothingOutgrowsItsReader(t *testing.T) {
	src := survey{methods: map[string]int{}, seen: map[string]bool{}}
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
	for _, offender := range src.offenders() {
		t.Error(offender)
	}
	for _, name := range records {
		need.That(t, src.seen[name], "the list of wide records names %s, which is none: take it off the list", name)
	}
	need.That(t, src.files >= 100, "only %d files were read", src.files)
}

// Each limit is seen to fail, and not to fail at its bound.
func TestLimitsRefuseMore(t *testing.T) {
	of := func(n int, part string) string { return strings.Repeat(part, n) }
	fields := func(n int) string { return "package p\ntype T struct {\n" + of(n-2, "\tX_ int\n") + "\tA, B int\n}\n" }
	methods := func(n int) string { return "package p\ntype T struct{}\n" + of(n, "func (t *T) M() {}\n") }
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
		{"methods of an interface", "a.go", inInterface, maxMethods},
		{"lines", "a.go", lines, maxLines},
		{"lines of a test", "a_test.go", lines, maxTestLines},
		{"a function's lines", "a.go", body, maxBody},
		{"a function's lines in a test", "a_test.go", body, 0},
		{"a function's lines in a suite", "a.go", func(n int) string { return "package p\nimport \"testing\"\n" + body(n)[len("package p\n"):] }, 0},
		{"branches", "a.go", branches, maxComplexity},
	} {
		for more := range 2 {
			src := survey{methods: map[string]int{}, seen: map[string]bool{}}
			n := c.most + more
			if c.most == 0 {
				n = maxBody * 2 // bounded in the program only
			}
			need.OK(t, src.file("p/"+c.file, c.file, c.source(n)))
			if found := src.offenders(); len(found) != more && c.most != 0 || c.most == 0 && len(found) != 0 {
				t.Errorf("%s: %d of at most %d are refused: %q", c.name, n, c.most, found)
			}
		}
	}
}

// survey is what was read of the source.
type survey struct {
	files   int
	found   []string
	methods map[string]int  // by package and type
	seen    map[string]bool // the wide records
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
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.TypeSpec:
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

// offenders are what is past its limit, with the types whose methods were counted
// over all files of their package.
func (s *survey) offenders() []string {
	found := slices.Clone(s.found)
	for name, n := range s.methods {
		if n > maxMethods {
			found = append(found, fmt.Sprintf("%s has %d methods, at most %d are allowed", name, n, maxMethods))
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
