package lazyregexp

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// TestEveryExpressionCompiles: none of the program panics at its first use.
func TestEveryExpressionCompiles(t *testing.T) {
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "New" || name(f.X) != "lazyregexp" {
				return true
			}
			if expression := constant(call.Args[0]); expression != "" {
				found++
				if _, err := regexp.Compile(expression); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
			return true
		})
		return nil
	})
	need.That(t, err == nil && found >= 40, "%d expressions, %v", found, err)
}

func name(x ast.Expr) string {
	if id, ok := x.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// constant is the text of a literal or of several that are added, "" of anything else.
func constant(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(x.Value)
		return text
	case *ast.BinaryExpr:
		if left, right := constant(x.X), constant(x.Y); left != "" && right != "" {
			return left + right
		}
	}
	return ""
}
