package house

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/constant"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// lane counts what makes tests slow or red by chance. Each number only goes down: what
// is above it is refused, and what is below it is written down here.
type lane struct {
	soak   int // tests in the slow lane
	starts int // tests of the fast lane that start processes
	pauses int // sleeps of more than 200 ms in the fast lane
}

var lanes = map[string]lane{
	"ledger/open":             {4, 0, 0},
	"ledger/postgres":         {58, 0, 0},
	"ledger/postgres/pgtest":  {2, 0, 0},
	"ledger/record/command":   {17, 26, 0},
	"ledger/record/httpproxy": {1, 0, 0},
	"ledger/record/mcpproxy":  {1, 2, 0},
	"ledger/record/roundtrip": {1, 0, 0},
	"ledger/sqlite":           {16, 2, 0},
	"ledger/wire/mcpwire":     {0, 7, 0},
	"ledger/wire/procgroup":   {0, 7, 0},
	"reconcile":               {6, 3, 0},
	"reconcile/connect":       {10, 2, 3},
	"reconcile/drill":         {1, 1, 0},
	"ui/cli":                  {80, 162, 0},
	"ui/console/feed":         {1, 0, 0},
	"ui/house":                {0, 2, 0},
}

// Tests that start processes, sleep, or stand in the slow lane become fewer. A start is
// found where a test calls os/exec, also through functions, of other packages too, and
// through methods that test files declare, which are known by their name alone.
func TestTheSlowGrowsFewer(t *testing.T) {
	found := surveyLanes(t)
	need.That(t, len(found) >= 20, "%d packages with tests are few", len(found))
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		got, most := found[dir], lanes[dir]
		for _, c := range []struct {
			what      string
			got, most int
		}{
			{"tests in the slow lane", got.soak, most.soak},
			{"tests of the fast lane start processes", got.starts, most.starts},
			{"real pauses of more than 200 ms", got.pauses, most.pauses},
		} {
			switch {
			case c.got > c.most:
				t.Errorf("%s: %d %s, at most %d are allowed", dir, c.got, c.what, c.most)
			case c.got < c.most:
				t.Errorf("%s: %d %s, fewer than the %d that lanes allows: write that down", dir, c.got, c.what, c.most)
			}
		}
	}
	for dir := range lanes {
		if _, there := found[dir]; !there {
			t.Errorf("lanes names %s, which has no tests", dir)
		}
	}
	if t.Failed() {
		for _, dir := range slices.Sorted(maps.Keys(found)) {
			if l := found[dir]; l != (lane{}) {
				t.Logf("%q: {%d, %d, %d},", dir, l.soak, l.starts, l.pauses)
			}
		}
	}
}

// lanesSurvey is what was read of a module's functions.
type lanesSurvey struct {
	calls  map[string]map[string]bool // what a function calls, by package and name
	tests  map[string][]string        // top-level tests of the fast lane, by package
	pauses map[string]int             // sleeps of more than 200 ms in the fast lane, by package and function
	counts map[string]lane
}

func surveyLanes(t *testing.T) map[string]lane {
	s := lanesSurvey{calls: map[string]map[string]bool{}, tests: map[string][]string{}, pauses: map[string]int{}, counts: map[string]lane{}}
	source(t, func(name string) {
		if strings.HasSuffix(name, ".go") && name[0] != '.' {
			s.file(t, name)
		}
	})
	starts := s.reach("os/exec.Command", "os/exec.CommandContext", "os.StartProcess")
	bubbles := s.reach("testing/synctest.Test") // no time passes there
	for f, n := range s.pauses {
		if dir := f[:strings.LastIndexByte(f, '.')]; !bubbles[f] {
			l := s.counts[dir]
			l.pauses += n
			s.counts[dir] = l
		}
	}
	for dir, tests := range s.tests {
		l := s.counts[dir]
		for _, name := range tests {
			if starts[dir+"."+name] {
				l.starts++
			}
		}
		s.counts[dir] = l
	}
	return s.counts
}

// reach returns the functions that call one of some, directly or through others.
func (s *lanesSurvey) reach(some ...string) map[string]bool {
	found := map[string]bool{}
	for _, f := range some {
		found[f] = true
	}
	for grown := true; grown; {
		grown = false
		for f, to := range s.calls {
			if !found[f] && slices.ContainsFunc(slices.Collect(maps.Keys(to)), func(c string) bool { return found[c] }) {
				found[f], grown = true, true
			}
		}
	}
	return found
}

func (s *lanesSurvey) file(t *testing.T, name string) {
	t.Helper()
	parsed := need.Get(parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ParseComments|parser.SkipObjectResolution))(t)
	dir, test, soak := path.Dir(name), strings.HasSuffix(name, "_test.go"), isSoak(parsed)
	l := s.counts[dir]
	for _, decl := range parsed.Decls {
		f, is := decl.(*ast.FuncDecl)
		if !is || f.Body == nil {
			continue
		}
		if f.Recv != nil && !test {
			continue // its name alone does not say whose method it is
		}
		isTest := test && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain"
		switch {
		case isTest && soak:
			l.soak++
		case isTest:
			s.tests[dir] = append(s.tests[dir], f.Name.Name)
		}
		if soak {
			continue
		}
		calls, pauses := callsOf(parsed, dir, f)
		key := dir + "." + f.Name.Name
		if test {
			s.pauses[key] += pauses
		}
		if s.calls[key] == nil {
			s.calls[key] = map[string]bool{}
		}
		maps.Copy(s.calls[key], calls)
	}
	if test {
		s.counts[dir] = l
	}
}

// isSoak reports whether a file is compiled for the slow lane alone.
func isSoak(f *ast.File) bool {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if expr, err := constraint.Parse(c.Text); err == nil && c.Pos() < f.Package {
				return !expr.Eval(func(tag string) bool { return tag != "soak" })
			}
		}
	}
	return false
}

// callsOf returns the functions that one calls, and how often it sleeps for more than
// 200 ms.
func callsOf(file *ast.File, dir string, f *ast.FuncDecl) (calls map[string]bool, pauses int) {
	imports := map[string]string{}
	for _, i := range file.Imports {
		to, _ := strconv.Unquote(i.Path.Value)
		as := path.Base(to)
		if i.Name != nil {
			as = i.Name.Name
		}
		imports[as] = strings.TrimPrefix(to, "indoubt/")
	}
	calls = map[string]bool{}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is {
			return true
		}
		switch fun := call.Fun.(type) {
		case *ast.Ident:
			calls[dir+"."+fun.Name] = true
		case *ast.SelectorExpr:
			x, plain := fun.X.(*ast.Ident)
			if plain && imports[x.Name] != "" {
				to := imports[x.Name] + "." + fun.Sel.Name
				calls[to] = true
				if to == "time.Sleep" && seconds(call.Args[0]) > 0.2 {
					pauses++
				}
			} else {
				calls[dir+"."+fun.Sel.Name] = true
			}
		}
		return true
	})
	return calls, pauses
}

// seconds returns a duration that is written as a constant, and 0 for any other.
func seconds(e ast.Expr) float64 {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return map[string]float64{"Millisecond": 1e-3, "Second": 1, "Minute": 60, "Hour": 3600}[e.Sel.Name]
	case *ast.BasicLit:
		v, _ := constant.Float64Val(constant.ToFloat(constant.MakeFromLiteral(e.Value, e.Kind, 0)))
		return v
	case *ast.BinaryExpr:
		x, y := seconds(e.X), seconds(e.Y)
		switch e.Op {
		case token.MUL:
			return x * y
		case token.QUO:
			if y != 0 {
				return x / y
			}
		case token.ADD:
			return x + y
		}
	case *ast.ParenExpr:
		return seconds(e.X)
	}
	return 0
}

// The counting itself is seen to count.
func TestTheLanesAreRead(t *testing.T) {
	read := func(text string) *ast.File {
		return need.Get(parser.ParseFile(token.NewFileSet(), "x_test.go", text, parser.ParseComments))(t)
	}
	for text, want := range map[string]bool{"//go:build soak\n\npackage p": true, "//go:build soak && linux\n\npackage p": true,
		"//go:build linux\n\npackage p": false, "package p": false, "//go:build !soak\n\npackage p": false} {
		need.Equal(t, isSoak(read(text)), want, text)
	}
	for text, want := range map[string]string{
		`exec.Command("x")`:                      "1 0",
		`time.Sleep(time.Second)`:                "0 1",
		`time.Sleep(2 * 150 * time.Millisecond)`: "0 1",
		`time.Sleep(200 * time.Millisecond)`:     "0 0",
	} {
		file := read("package p\nimport (\"os/exec\"; \"time\")\nfunc f() { " + text + " }")
		calls, pauses := callsOf(file, "p", file.Decls[1].(*ast.FuncDecl))
		starts := 0
		if calls["os/exec.Command"] {
			starts = 1
		}
		need.Equal(t, fmt.Sprint(starts, pauses), want, text)
	}
}
