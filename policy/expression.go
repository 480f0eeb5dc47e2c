package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
)

// An expression that costs more than this, or takes longer, is stopped. The
// cost is CEL's own count of steps; a filter over a thousand effects is about
// twenty thousand of them.
const (
	costLimit    = 2_000_000
	evalTimeout  = 2 * time.Second
	maxSource    = 4096
	secretEnv    = "env"
	secretFile   = "@file"
	headerLookup = "@header"
	linkLookup   = "@link"
)

// scope is which names an expression may use.
type scope int

const (
	scopeOperation scope = iota // title, target, costs
	scopeRequest                // what is sent: also secrets and the cursor
	scopeAnswer                 // what came back, beside the operation
	scopeEffect                 // the same and one candidate, `it`
	scopeList                   // what came back and nothing else: the candidates
	scopeMark                   // what came back and one candidate, `it`: its mark
	scopeName                   // the input and the key: what a mark is compared with
	scopeToken                  // the token: the form in which a mark shows it
)

var (
	operationNames = []string{"input", "token", "key", "op", "attempt", "receipt"}
	answerNames    = []string{"status", "body", "header", "link", "rows", "affected", "exit", "stdout", "stderr", "json", "content", "structured", "isError"}
)

// scopeNames are the names each scope knows. An expression that must not decide
// whose an effect is does not see the operation at all.
var scopeNames = map[scope][]string{
	scopeOperation: operationNames,
	scopeRequest:   slices.Concat(operationNames, []string{"cursor", "env", "file"}),
	scopeAnswer:    slices.Concat(operationNames, answerNames),
	scopeEffect:    slices.Concat(operationNames, []string{"it"}, answerNames),
	scopeList:      answerNames,
	scopeMark:      slices.Concat([]string{"it"}, answerNames),
	scopeName:      {"input", "key"},
	scopeToken:     {"token"},
}

// nameTypes are the types of the names. header, link and file are asked like
// functions and looked up in a variable of their own.
var nameTypes = map[string]*cel.Type{
	"input": cel.DynType, "token": cel.StringType, "key": cel.StringType, "receipt": cel.StringType,
	"op": cel.MapType(cel.StringType, cel.DynType), "attempt": cel.MapType(cel.StringType, cel.DynType),
	"cursor": cel.DynType, "env": cel.MapType(cel.StringType, cel.StringType), "it": cel.DynType,
	"status": cel.IntType, "body": cel.DynType, "rows": cel.ListType(cel.DynType), "affected": cel.IntType,
	"exit": cel.IntType, "stdout": cel.StringType, "stderr": cel.StringType, "json": cel.DynType,
	"content": cel.DynType, "structured": cel.DynType, "isError": cel.BoolType,
}

var lookups = map[string]string{"file": secretFile, "header": headerLookup, "link": linkLookup}

// environments are built once: each takes a millisecond.
var environments = sync.OnceValue(func() map[scope]*cel.Env {
	out := map[scope]*cel.Env{}
	for s, names := range scopeNames {
		out[s] = newEnvironment(names)
	}
	return out
})

func newEnvironment(names []string) *cel.Env {
	options := append([]cel.EnvOption{
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(maxSource),
		cel.ParserRecursionLimit(64),
		ext.Strings(), ext.Math(), ext.Lists(),
		ext.Encoders(ext.EncodersVersion(1)), // base64 alone: its JSON would round large numbers
		cel.Function("money", cel.Overload("money_dyn", []*cel.Type{cel.DynType}, cel.StringType, cel.UnaryBinding(amount))),
	}, mixedArithmetic()...)
	for _, name := range names {
		if variable, ok := lookups[name]; ok {
			options = append(options, cel.Variable(variable, cel.MapType(cel.StringType, cel.StringType)), cel.Macros(lookupMacro(name, variable)))
			continue
		}
		options = append(options, cel.Variable(name, nameTypes[name]))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		panic("policy: the expression language does not build: " + err.Error()) // a test would show it
	}
	return env
}

// amount is money(x): a number as an amount, 12,000.00. Anything else is an error.
func amount(v ref.Val) ref.Val {
	d, ok := v.ConvertToType(types.DoubleType).(types.Double)
	if !ok || !isNumber(v) || math.IsNaN(float64(d)) || math.IsInf(float64(d), 0) {
		return types.NewErr("money() takes a number, not %s", v.Type().TypeName())
	}
	text := money(float64(d))
	if !strings.Contains(text, ".") {
		text += ".00"
	}
	return types.String(text)
}

// lookupMacro writes name(x) as an index into a variable, so that every
// evaluation can bring its own lookup.
func lookupMacro(name, variable string) cel.Macro {
	return cel.GlobalMacro(name, 1, func(f cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *common.Error) {
		return f.NewCall(operators.Index, f.NewIdent(variable), args[0]), nil
	})
}

// want is what type an expression must have.
type want int

const (
	wantAny want = iota
	wantBool
	wantList
	wantNumber
)

// expression is one compiled CEL expression.
type expression struct {
	place
	text    string
	scope   scope
	program cel.Program
	names   map[string]bool // variables it uses
	inputs  []string        // paths into input it reads, "" for all of it
	members []string        // what it takes of `op` and `attempt`: op.id
	sum     bool            // what it gives is added up
	loops   bool            // it goes through a list
	plain   []any           // the steps of a plain path into `it`: member names and indexes; nil: it is none
}

// uses reports whether the expression uses any of these names.
func (e *expression) uses(names ...string) bool {
	return e != nil && slices.ContainsFunc(names, func(n string) bool { return e.names[n] })
}

// about says in an error which expression it is of; nil stays nil.
func (e *expression) about(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", shorten(e.text, 60), err)
}

func (e *expression) secret() bool { return e.uses(secretEnv, secretFile) }

// onlySecret reports whether a secret is all that the expression uses.
func (e *expression) onlySecret() bool { return e.secret() && len(e.names) == 1 }

// compileProblem is why an expression is refused, with the place inside it.
type compileProblem struct {
	offset  int // in characters, of the first line only
	inside  bool
	message string
	hint    string
}

func (e *compileProblem) Error() string { return e.message }

// ownershipHints say why fields that tell whose an effect is see so little.
var ownershipHints = map[scope]string{
	scopeList:  "`list` only says where the candidates are; `mark` says where each shows whose it is, and the mark is compared with the token or with `mark_is`",
	scopeMark:  "this sees one candidate, `it`, and the answer; the mark is compared with the token or with `mark_is`, not here",
	scopeName:  "`mark_is` is made of `input` and `key`",
	scopeToken: "`mark_as` is text around ${token}",
}

var undeclared = regexp.MustCompile(`undeclared reference to '([^']*)'`)

// compile checks an expression against its scope and type.
func compile(text string, s scope, w want) (*expression, *compileProblem) {
	if strings.TrimSpace(text) == "" {
		return nil, &compileProblem{message: "the expression is empty"}
	}
	if len(text) > maxSource {
		return nil, &compileProblem{message: fmt.Sprintf("the expression is longer than %d characters", maxSource)}
	}
	env := environments()[s]
	checked, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, explainIssue(issues, s)
	}
	if p := checkType(checked.OutputType(), w); p != nil {
		return nil, p
	}
	e := &expression{text: text, scope: s, names: map[string]bool{}}
	if p := e.inspect(checked); p != nil {
		return nil, p
	}
	program, err := env.Program(checked, cel.CustomDecoratorV2(checkCalls),
		cel.CostLimit(costLimit), cel.InterruptCheckFrequency(1)) // one step may take long
	if err != nil {
		return nil, &compileProblem{message: err.Error()}
	}
	e.program = program
	return e, nil
}

func explainIssue(issues *cel.Issues, s scope) *compileProblem {
	first := issues.Errors()[0]
	p := &compileProblem{message: plainSyntax(first.Message), offset: first.Location.Column(), inside: first.Location.Line() == 1}
	m := undeclared.FindStringSubmatch(first.Message)
	if m == nil {
		if strings.Contains(first.Message, "found no matching overload for '_==_'") {
			p.hint = "a number never equals a text, nor a list a number: compare values of one type"
		}
		return p
	}
	name := m[1]
	switch {
	case s >= scopeList && slices.Contains(scopeNames[scopeEffect], name):
		p.message = fmt.Sprintf("`%s` may not stand here", name)
		p.hint = ownershipHints[s]
	case name == "env" || name == "file":
		p.message = fmt.Sprintf("`%s` may stand only in what is sent", name)
		p.hint = "secrets are never stored or shown, so nothing else may use them"
	case name == "it":
		p.message = "`it` is one candidate; it is known only in `mark`, `created`, `final`, `same`, `receipt` and `answer`"
	default:
		p.message = fmt.Sprintf("there is no `%s` here", name)
		if p.hint = didYouMean(name, scopeNames[s]); s == scopeRequest && upperCase.MatchString(name) {
			p.hint = "a variable of the environment is written ${env." + name + "}"
		}
		if p.hint == "" {
			p.hint = "known here: " + strings.Join(scopeNames[s], ", ")
		}
	}
	return p
}

var syntaxInput = regexp.MustCompile(`(?:mismatched|extraneous) input ('.*?') expecting`)

// plainSyntax shortens the parser's complaint, which lists its whole grammar.
func plainSyntax(message string) string {
	text, syntax := strings.CutPrefix(message, "Syntax error: ")
	m := syntaxInput.FindStringSubmatch(text)
	switch {
	case !syntax:
		return text
	case strings.Contains(text, "'<EOF>'"):
		return "the expression ends too early"
	case m != nil:
		return "not an expression: unexpected " + m[1]
	}
	return "not an expression: " + text
}

// wanted are the types that an expression may have, and how they are described.
var wanted = map[want]struct {
	kinds []types.Kind
	words string
}{
	wantBool:   {[]types.Kind{types.BoolKind}, "true or false"},
	wantList:   {[]types.Kind{types.ListKind}, "a list of candidates"},
	wantNumber: {[]types.Kind{types.IntKind, types.UintKind, types.DoubleKind}, "a number"},
}

func checkType(t *cel.Type, w want) *compileProblem {
	kind := t.Kind()
	if w == wantAny || kind == types.DynKind || slices.Contains(wanted[w].kinds, kind) {
		return nil
	}
	p := &compileProblem{message: fmt.Sprintf("must give %s, but gives %s", wanted[w].words, cmp.Or(typeWords[kind], t.String()))}
	switch {
	case w == wantList && kind == types.BoolKind:
		p.hint = "write CONDITION ? [body] : []"
	case w == wantBool && kind == types.StringKind:
		p.hint = `compare it: … == "text"`
	case w == wantBool && kind == types.ListKind:
		p.hint = "write size(…) > 0"
	}
	return p
}

// typeWords say in words what a value is.
var typeWords = map[types.Kind]string{
	types.BoolKind: "true or false", types.StringKind: "text", types.IntKind: "a number", types.UintKind: "a number",
	types.DoubleKind: "a number", types.ListKind: "a list", types.MapKind: "a mapping", types.NullTypeKind: "null",
}

// inspect notes which names and inputs are used and refuses what computes
// something other than it seems to.
func (e *expression) inspect(checked *cel.Ast) (problem *compileProblem) {
	native := checked.NativeRep()
	e.sum = sums(native.Expr())
	if root, steps, values := chain(native.Expr()); values && root.Kind() == ast.IdentKind && root.AsIdent() == "it" {
		e.plain = steps
	}
	part := map[int64]bool{} // of a longer chain, noted with it
	ast.PreOrderVisit(native.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
		switch x.Kind() {
		case ast.ComprehensionKind:
			e.loops = true
		case ast.IdentKind:
			name := x.AsIdent()
			e.names[name] = true
			if (name == secretEnv || name == secretFile) && !part[x.ID()] && problem == nil {
				problem = &compileProblem{message: "a secret is named in the policy itself, not computed", hint: `write env.NAME or file("/path")`}
			}
		case ast.CallKind:
			if args := x.AsCall().Args(); x.AsCall().FunctionName() == operators.Divide && problem == nil && len(args) == 2 && isInt(args[0]) && isInt(args[1]) {
				at := native.SourceInfo().GetStartLocation(x.ID())
				problem = &compileProblem{
					message: "whole numbers divide as whole numbers here: 7 / 2 is 3", hint: "write 7.0 / 2",
					offset: at.Column(), inside: at.Line() == 1,
				}
			}
		}
		if !part[x.ID()] {
			e.noteInput(x, part)
		}
	}))
	return problem
}

// noteInput notes the path of a chain into the input.
func (e *expression) noteInput(x ast.Expr, part map[int64]bool) {
	root, steps, _ := chain(x)
	for of, _ := lastStep(x); of != nil; of, _ = lastStep(of) {
		part[of.ID()] = true
	}
	if root.Kind() != ast.IdentKind {
		return
	}
	if of := root.AsIdent(); knownMembers[of] != nil && len(steps) > 0 {
		e.members = append(e.members, fmt.Sprintf("%s.%v", of, steps[0]))
	}
	if root.AsIdent() != "input" {
		return
	}
	names := make([]string, len(steps))
	for i, step := range steps {
		name, ok := step.(string)
		if names[i] = name; !ok {
			names[i] = "[]"
		}
	}
	e.inputs = append(e.inputs, strings.Join(names, "."))
}

// lastStep is what a step like .a, ["b"] or [0] is taken of, and its member or
// index; of is nil where x is no such step.
func lastStep(x ast.Expr) (of ast.Expr, step any) {
	switch x.Kind() {
	case ast.SelectKind:
		return x.AsSelect().Operand(), x.AsSelect().FieldName()
	case ast.CallKind:
		if args := x.AsCall().Args(); x.AsCall().FunctionName() == operators.Index && args[1].Kind() == ast.LiteralKind {
			return args[0], args[1].AsLiteral().Value()
		}
	}
	return nil, nil
}

// chain takes an expression like it.a["b"][0] apart: its steps, and what they are
// taken of. values reports whether all are plain members and indexes.
func chain(x ast.Expr) (root ast.Expr, steps []any, values bool) {
	of, step := lastStep(x)
	if of == nil {
		return x, []any{}, true
	}
	root, steps, values = chain(of)
	switch step.(type) {
	case string, int64:
	default:
		values = false
	}
	tested := x.Kind() == ast.SelectKind && x.AsSelect().IsTestOnly()
	return root, append(steps, step), values && !tested
}

// sums reports whether an expression's value is a sum or difference.
func sums(x ast.Expr) bool {
	if x.Kind() != ast.CallKind {
		return false
	}
	call := x.AsCall()
	switch call.FunctionName() {
	case operators.Add, operators.Subtract:
		return true
	case operators.Conditional:
		return sums(call.Args()[1]) || sums(call.Args()[2])
	}
	return len(call.Args()) == 1 && sums(call.Args()[0]) // int(…), string(…)
}

func isInt(x ast.Expr) bool {
	return x.Kind() == ast.LiteralKind && x.AsLiteral().Type() == types.IntType
}

// errStopped says that an expression ran too long.
var errStopped = errors.New("the expression took too long and was stopped")

// bounded ends what is computed under it in time. What is bounded already, as
// all that is asked of one page is, shares its time.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if until, ok := ctx.Deadline(); ok && time.Until(until) <= evalTimeout {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, evalTimeout)
}

// eval computes the expression. An error is an error: it never stands for
// false, null or an empty list.
func (e *expression) eval(ctx context.Context, vars *variables) (ref.Val, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	out, _, err := e.program.ContextEval(ctx, vars)
	if err != nil {
		return nil, e.explain(ctx, vars, err)
	}
	if vars.problem != nil {
		return nil, vars.problem
	}
	if out == nil || types.IsError(out) || types.IsUnknown(out) {
		return nil, e.about(fmt.Errorf("%v", out))
	}
	return out, nil
}

// explain turns CEL's words into a plain sentence.
func (e *expression) explain(ctx context.Context, vars *variables, err error) error {
	text := err.Error()
	key, missing := strings.CutPrefix(text, "no such key: ")
	switch {
	case vars.problem != nil:
		return vars.problem // what a lookup of ours found out, e.g. a variable that is not set
	case ctx.Err() != nil, strings.Contains(text, "cost limit"), strings.Contains(text, "interrupted"):
		return e.about(errStopped)
	case e.secret():
		return e.about(errors.New("it cannot be computed")) // CEL's words may quote the secret
	case missing:
		return &missingKeyError{fmt.Sprintf("%s: there is no `%s` in it", shorten(e.text, 60), key)}
	}
	return e.about(errors.New(text))
}

// missingKeyError says that what an expression asks for is not there.
type missingKeyError struct{ text string }

func (e *missingKeyError) Error() string { return e.text }

// truth evaluates an expression that must be true or false.
func (e *expression) truth(ctx context.Context, vars *variables) (bool, error) {
	v, err := e.eval(ctx, vars)
	if err != nil {
		return false, err
	}
	b, ok := v.(types.Bool)
	if !ok {
		return false, e.about(fmt.Errorf("not true or false but %s", typeName(v)))
	}
	return bool(b), nil
}

// holds is truth, and true where there is no expression.
func (e *expression) holds(ctx context.Context, vars *variables) (bool, error) {
	if e == nil {
		return true, nil
	}
	return e.truth(ctx, vars)
}

func shorten(s string, n int) string {
	r := []rune(strings.Join(strings.Fields(s), " "))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "…"
}
