package reconcile

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// TestI5_NoPathOfTheEngineSends follows who names whom in this package. Any name counts
// as a call, of each function that has it, so no path is missed. What transmits is reached
// by the person's retry and by the notifier, which sends what its own policy makes of a notice
// and no operation.
func TestI5_NoPathOfTheEngineSends(t *testing.T) {
	names, bodies := map[string]map[string]bool{}, map[string]string{}
	files := token.NewFileSet()
	for _, entry := range need.Get(os.ReadDir("."))(t) {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		text := need.Get(os.ReadFile(entry.Name()))(t)
		file := need.Get(parser.ParseFile(files, entry.Name(), text, parser.SkipObjectResolution))(t)
		for _, d := range file.Decls {
			f, is := d.(*ast.FuncDecl)
			if !is {
				continue
			}
			if names[f.Name.Name] == nil {
				names[f.Name.Name] = map[string]bool{}
			}
			bodies[f.Name.Name] += string(text[files.Position(f.Pos()).Offset:files.Position(f.End()).Offset])
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if s, is := n.(*ast.SelectorExpr); is {
					if ofKind(s.X) {
						return false
					}
					if of, is := s.X.(*ast.Ident); is {
						names[f.Name.Name][of.Name+"."+s.Sel.Name] = true
					}
				}
				if id, is := n.(*ast.Ident); is {
					names[f.Name.Name][id.Name] = true
				}
				return true
			})
		}
	}
	users := func(of string) string {
		var out []string
		for name := range names {
			if name != of && names[name][of] {
				out = append(out, name)
			}
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	// What transmits, from the wire up to the two that may.
	need.Equal(t, users("Send"), "sendOnce", "what has a connector send")
	need.Equal(t, users("connect.Command"), "Read sendOnce", "what runs a command")
	need.Equal(t, users("sendOnce"), "carryOut sendNotice", "what transmits")
	need.Equal(t, users("carryOut"), "sendAndSettle", "what has it transmit")
	// The person's retry.
	for _, step := range [][2]string{{"sendAndSettle", "transmit"}, {"transmit", "retry"}, {"retry", "Retry"}, {"handBack", "retry"}} {
		need.Equal(t, users(step[0]), step[1], "what leads to %s", step[0])
	}
	need.Equal(t, users("Retry"), "", "what retries by itself")
	// The notifier sends what it made of a notice.
	need.Equal(t, users("sendNotice"), "send", "what sends a notice")
	need.Equal(t, users("send"), "tell", "what has it sent")
	need.Contains(t, bodies["sendNotice"], "req, err := n.Request(event.ID, event.Detail)")
	// No permission is given but to these.
	need.Equal(t, users("Allow"), "handBack sendAndSettle", "what gives a permission")
}

// ofKind reports whether an expression is a kind of the policy, which has words of its own
// that are called Send and Retry.
func ofKind(x ast.Expr) bool {
	if s, is := x.(*ast.SelectorExpr); is {
		return s.Sel.Name == "k"
	}
	id, is := x.(*ast.Ident)
	return is && id.Name == "k"
}
