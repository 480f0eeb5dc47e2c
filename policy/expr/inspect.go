package expr

import (
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// inspect notes which names and inputs are used, and refuses an expression that
// computes something other than it seems to.
func (e *Expression) inspect(checked *cel.Ast) (problem *Problem) {
	native := checked.NativeRep()
	if root, steps, values := chain(native.Expr()); values && root.Kind() == ast.IdentKind && root.AsIdent() == "it" {
		e.plain = steps
	}
	part := map[int64]bool{} // of a longer chain, noted with it
	ast.PreOrderVisit(native.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		switch x.Kind() {
		case ast.ComprehensionKind:
			e.loops = true
		case ast.IdentKind:
			name := strings.TrimPrefix(x.AsIdent(), lookupMark)
			e.names[name] = true
			if (name == "env" || name == "file") && !part[x.ID()] && problem == nil {
				problem = &Problem{Message: "a secret is named in the policy itself, not computed", Hint: `write env.NAME or file("/path")`}
			}
		case ast.CallKind:
			args, divides := x.AsCall().Args(), x.AsCall().FunctionName() == operators.Divide
			if problem == nil && divides && len(args) == 2 && isInt(args[0]) && isInt(args[1]) {
				at := native.SourceInfo().GetStartLocation(x.ID())
				problem = &Problem{
					Message: "whole numbers divide as whole numbers here: 7 / 2 is 3", Hint: "write 7.0 / 2",
					Offset: at.Column(), Inside: at.Line() == 1,
				}
			}
		}
		if !part[x.ID()] {
			e.noteInput(x, part)
		}
	}))
	return problem
}

func (e *Expression) noteInput(x ast.Expr, part map[int64]bool) {
	root, steps, _ := chain(x)
	for of, _ := lastStep(x); of != nil; of, _ = lastStep(of) {
		part[of.ID()] = true
	}
	if root.Kind() != ast.IdentKind {
		return
	}
	e.chains = append(e.chains, memberChain{root.AsIdent(), steps})
	if root.AsIdent() != "input" {
		return
	}
	names := make([]string, len(steps))
	for i, step := range steps {
		name, ok := step.(string)
		if names[i] = name; !ok {
			names[i] = anyIndex
		}
	}
	e.inputs = append(e.inputs, strings.Join(names, "."))
}

// anyIndex is how Inputs writes an index.
const anyIndex = "[]"

// InputPath is one of Inputs as a Path.
func InputPath(input string) (path Path) {
	if input == "" {
		return nil
	}
	for _, step := range strings.Split(input, ".") {
		if step == anyIndex {
			path = append(path, Each)
		} else {
			path = append(path, step)
		}
	}
	return path
}

// lastStep is the operand of a step like .a, ["b"] or [0], and its member or index; of
// is nil where x is not such a step.
func lastStep(x ast.Expr) (of ast.Expr, step any) {
	switch x.Kind() {
	case ast.SelectKind:
		return x.AsSelect().Operand(), x.AsSelect().FieldName()
	case ast.CallKind:
		if args := x.AsCall().Args(); x.AsCall().FunctionName() == operators.Index && args[1].Kind() == ast.LiteralKind {
			step = args[1].AsLiteral().Value()
			if i, ok := step.(int64); ok {
				step = int(i)
			}
			return args[0], step
		}
	}
	return nil, nil
}

// chain takes an expression like it.a["b"][0] apart: its steps, and what they are
// taken of. values reports whether all are plain members and indexes.
func chain(x ast.Expr) (root ast.Expr, steps Path, values bool) {
	of, step := lastStep(x)
	if of == nil {
		return x, Path{}, true
	}
	root, steps, values = chain(of)
	switch step.(type) {
	case string, int:
	default:
		values = false
	}
	tested := x.Kind() == ast.SelectKind && x.AsSelect().IsTestOnly()
	return root, append(steps, step), values && !tested
}

func isInt(x ast.Expr) bool {
	return x.Kind() == ast.LiteralKind && x.AsLiteral().Type() == types.IntType
}
