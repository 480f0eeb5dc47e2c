// Package expr is the expression language of a policy: CEL with the policy's names,
// texts with ${expressions}, and the JSON data that both read and write.
//
// Compile checks an expression against a Scope (the names it may use) and a Type (what
// it must give). Names give the values of one evaluation. ParseTemplate reads a text
// with expressions, and a Rendering writes it. The package knows nothing of
// operations, files and requests, and imports only ledger, for its rules of JSON.
//
// An error is never a value: what cannot be computed exactly, within its limits, is
// an error, and never stands for false, null or an empty list.
package expr

import (
	"cmp"
	"fmt"
	"math"
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

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
)

// An expression that costs more than this, or takes longer, is stopped. The
// cost is CEL's own count of steps; a filter over a thousand effects is about
// twenty thousand of them.
const (
	costLimit   = 2_000_000
	evalTimeout = 2 * time.Second
	maxSource   = 4096
)

// Scope is which names an expression may use.
type Scope int

// The scopes. An expression that must not decide which operation an effect belongs to
// does not see the operation at all.
const (
	ForOperation Scope = iota // title, target, costs
	ForRequest                // a request: also secrets and the cursor
	ForAnswer                 // the answer, and the operation
	ForEffect                 // the same and one candidate, `it`
	ForList                   // the answer alone: the list of candidates
	ForMark                   // the answer and one candidate, `it`: its mark
	ForName                   // the input and the key: the value a mark is compared with
	ForToken                  // the token: the form in which a mark shows it
	ForRow                    // a row of another system, that becomes an operation
)

var (
	operationNames = []string{"input", "token", "key", "op", "attempt", "receipt"}

	// AnswerNames are the names of an answer, whichever way it came.
	AnswerNames = []string{"status", "body", "header", "link", "rows", "exit", "stdout", "stderr", "json", "content", "structured",
		"isError"}
)

var scopeNames = map[Scope][]string{
	ForOperation: operationNames,
	ForRequest:   slices.Concat(operationNames, []string{"cursor", "env", "file"}),
	ForAnswer:    slices.Concat(operationNames, AnswerNames),
	ForEffect:    slices.Concat(operationNames, []string{"it"}, AnswerNames),
	ForList:      AnswerNames,
	ForMark:      slices.Concat([]string{"it"}, AnswerNames),
	ForName:      {"input", "key"},
	ForToken:     {"token"},
	ForRow:       {"row", "header"},
}

// Knows reports whether a name may stand in the scope.
func (s Scope) Knows(name string) bool { return slices.Contains(scopeNames[s], name) }

var nameTypes = map[string]*cel.Type{
	"input": cel.DynType, "token": cel.StringType, "key": cel.StringType, "receipt": cel.StringType,
	"op": cel.MapType(cel.StringType, cel.DynType), "attempt": cel.MapType(cel.StringType, cel.DynType),
	"cursor": cel.DynType, "env": cel.MapType(cel.StringType, cel.StringType), "it": cel.DynType,
	"status": cel.IntType, "body": cel.DynType, "rows": cel.ListType(cel.DynType),
	"exit": cel.IntType, "stdout": cel.StringType, "stderr": cel.StringType, "json": cel.DynType,
	"row": cel.DynType, "content": cel.DynType, "structured": cel.DynType, "isError": cel.BoolType,
}

// calledNames are written like functions, file("/path"), and looked up in a variable
// with lookupMark before its name.
var calledNames = []string{"file", "header", "link"}

const lookupMark = "@"

// language has every function, and no name. It is built once, and takes a millisecond.
var language = sync.OnceValue(func() *cel.Env {
	return built(cel.NewEnv(append([]cel.EnvOption{
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(maxSource),
		cel.ParserRecursionLimit(64),
		ext.Strings(), ext.Math(), ext.Lists(),
		ext.Encoders(ext.EncodersVersion(0)), // base64 alone: its JSON would round large numbers
		cel.Function("parsed", cel.Overload("parsed_dyn", []*cel.Type{cel.DynType}, cel.DynType, cel.UnaryBinding(parsed))),
		cel.Function("money", cel.Overload("money_dyn", []*cel.Type{cel.DynType}, cel.StringType, cel.UnaryBinding(money))),
	}, mixedArithmetic()...)...))
})

// environments are the language with the names of a scope, made when it is first used. One
// that adds a function would have to index all of them again.
var environments = func() (all [ForRow + 1]func() *cel.Env) {
	for s := range all {
		all[s] = sync.OnceValue(func() *cel.Env { return built(language().Extend(declared(scopeNames[Scope(s)])...)) })
	}
	return all
}()

func (s Scope) environment() *cel.Env { return environments[s]() }

func declared(names []string) (options []cel.EnvOption) {
	for _, name := range names {
		if slices.Contains(calledNames, name) {
			options = append(options, cel.Variable(lookupMark+name, cel.MapType(cel.StringType, cel.StringType)),
				cel.Macros(lookupMacro(name)))
			continue
		}
		options = append(options, cel.Variable(name, nameTypes[name]))
	}
	return options
}

func built(env *cel.Env, err error) *cel.Env {
	if err != nil {
		panic("expr: the expression language does not build: " + err.Error()) // a test would show it
	}
	return env
}

// money is money(x): a number as an amount, 12,000.00. Anything else is an error.
func money(v ref.Val) ref.Val {
	d, ok := v.ConvertToType(types.DoubleType).(types.Double)
	if !ok || !isNumber(v) || math.IsNaN(float64(d)) || math.IsInf(float64(d), 0) {
		return types.NewErr("money() takes a number, not %s", v.Type().TypeName())
	}
	return types.String(Cents(float64(d)))
}

// parsed is parsed(x): the JSON in a text. What is no text, or has no JSON in it, stays.
func parsed(v ref.Val) ref.Val {
	text, ok := v.(types.String)
	if !ok {
		return v
	}
	data, err := Decode([]byte(text))
	if err != nil {
		return v
	}
	return types.DefaultTypeAdapter.NativeToValue(data)
}

// lookupMacro writes name(x) as an index into a variable, so that every
// evaluation can bring its own lookup.
func lookupMacro(name string) cel.Macro {
	return cel.GlobalMacro(name, 1, func(f cel.MacroExprFactory, _ ast.Expr, args []ast.Expr) (ast.Expr, *common.Error) {
		return f.NewCall(operators.Index, f.NewIdent(lookupMark+name), args[0]), nil
	})
}

// Type is what an expression must give.
type Type int

const (
	Any Type = iota
	Bool
	List
	Number
)

// Expression is one compiled CEL expression. A nil Expression uses nothing and holds.
type Expression struct {
	Text         string // as it is shown
	Line, Column int    // where it stands in its file, for the caller's own use

	program cel.Program
	names   map[string]bool // variables it uses
	inputs  []string
	chains  []memberChain
	loops   bool // it goes through a list
	plain   Path // the steps of a plain path into `it`; nil: it is not one
}

// Uses reports whether the expression uses any of these names.
func (e *Expression) Uses(names ...string) bool {
	return e != nil && slices.ContainsFunc(names, func(n string) bool { return e.names[n] })
}

// Inputs are the paths into the input that it reads: "order.id", "items.[]" for an
// index, "" for the whole input.
func (e *Expression) Inputs() []string { return e.inputs }

// UsesMember reports whether it reads this member of `op` or `attempt`.
func (e *Expression) UsesMember(of, member string) bool {
	return slices.ContainsFunc(e.chains, func(c memberChain) bool { return c.root == of && len(c.steps) > 0 && c.steps[0] == member })
}

func (e *Expression) Secret() bool { return e.Uses("env", "file") }

func (e *Expression) onlySecret() bool { return e.Secret() && len(e.names) == 1 }

// About says in an error which expression it is of; nil stays nil.
func (e *Expression) About(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", Shorten(e.Text, 60), err)
}

// Problem is why an expression or a template is refused.
type Problem struct {
	Inside  bool // Offset says where, in characters; only on the first line
	Offset  int
	Message string
	Hint    string // what to write instead, "" when there is none
}

func (e *Problem) Error() string { return e.Message }

// scopeHints explain the narrow scopes of the fields that say which operation an effect
// belongs to.
var scopeHints = map[Scope]string{
	ForList: "`list` only says where the candidates are; `mark` says where each shows its mark, which is compared with the token; " +
		"`name`, where each shows its name",
	ForMark:  "this sees one candidate, `it`, and the answer; what it gives is compared with the token or the name, not here",
	ForName:  "a name is made of `input` and `key`",
	ForToken: "the form of a mark is text around ${token}",
	ForRow:   "a mapping sees one row of its source, `row`, and header(\"Name\") where `headers` says which there are",
}

// Compile checks an expression against its scope and type.
func Compile(text string, s Scope, want Type) (*Expression, *Problem) {
	if strings.TrimSpace(text) == "" {
		return nil, &Problem{Message: "the expression is empty"}
	}
	if len(text) > maxSource {
		return nil, &Problem{Message: fmt.Sprintf("the expression is longer than %d characters", maxSource)}
	}
	env := s.environment()
	checked, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, explainIssue(issues, s)
	}
	if p := checkType(checked.OutputType(), want); p != nil {
		return nil, p
	}
	e := &Expression{Text: text, names: map[string]bool{}}
	if p := e.inspect(checked); p != nil {
		return nil, p
	}
	program, err := env.Program(checked, cel.CustomDecoratorV2(checkCalls),
		cel.CostLimit(costLimit), cel.InterruptCheckFrequency(1)) // one step may take long
	if err != nil {
		return nil, &Problem{Message: err.Error()}
	}
	e.program = program
	return e, nil
}

var (
	undeclared = lazyregexp.New(`undeclared reference to '([^']*)'`)
	upperCase  = lazyregexp.New(`^[A-Z][A-Z0-9_]*$`)
)

func explainIssue(issues *cel.Issues, s Scope) *Problem {
	first := issues.Errors()[0]
	p := &Problem{Message: plainSyntax(first.Message), Offset: first.Location.Column(), Inside: first.Location.Line() == 1}
	m := undeclared.FindStringSubmatch(first.Message)
	if m == nil {
		switch {
		case strings.Contains(first.Message, "found no matching overload for '_==_'"):
			p.Hint = "a number never equals a text, nor a list a number: compare values of one type"
		case strings.Contains(p.Message, "ends too early"), strings.HasPrefix(p.Message, "not an expression"):
			p.Hint = "see that each bracket and quote is closed, and that a value follows each operator"
		}
		return p
	}
	name := m[1]
	switch {
	case s >= ForList && ForEffect.Knows(name):
		p.Message = fmt.Sprintf("`%s` may not stand here", name)
		p.Hint = scopeHints[s]
	case name == "env" || name == "file":
		p.Message = fmt.Sprintf("`%s` may stand only in what is sent", name)
		p.Hint = "secrets are never stored or shown, so nothing else may use them"
	case name == "it":
		p.Message = "`it` is one candidate; it is known only in `mark`, `created`, `final`, `same`, `receipt` and `answer`"
	default:
		p.Message = fmt.Sprintf("there is no `%s` here", name)
		if p.Hint = ledger.DidYouMean(name, scopeNames[s]); s == ForRequest && upperCase.MatchString(name) {
			p.Hint = "a variable of the environment is written ${env." + name + "}"
		}
		p.Hint = cmp.Or(p.Hint, "known here: "+strings.Join(scopeNames[s], ", "))
	}
	return p
}

var syntaxInput = lazyregexp.New(`(?:mismatched|extraneous) input ('.*?') expecting`)

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

// wanted are the kinds of CEL value that a type allows, and their name.
var wanted = map[Type]struct {
	kinds []types.Kind
	words string
}{
	Bool:   {[]types.Kind{types.BoolKind}, "true or false"},
	List:   {[]types.Kind{types.ListKind}, "a list of candidates"},
	Number: {[]types.Kind{types.IntKind, types.UintKind, types.DoubleKind}, "a number"},
}

func checkType(t *cel.Type, want Type) *Problem {
	kind := t.Kind()
	if want == Any || kind == types.DynKind || slices.Contains(wanted[want].kinds, kind) {
		return nil
	}
	p := &Problem{Message: fmt.Sprintf("must give %s, but gives %s", wanted[want].words, cmp.Or(typeWords[kind], t.String()))}
	switch {
	case want == List && kind == types.BoolKind:
		p.Hint = "write CONDITION ? [body] : []"
	case want == Bool && kind == types.StringKind:
		p.Hint = `compare it: … == "text"`
	case want == Bool && kind == types.ListKind:
		p.Hint = "write size(…) > 0"
	}
	return p
}

var typeWords = map[types.Kind]string{
	types.BoolKind: "true or false", types.StringKind: "text", types.IntKind: "a number", types.UintKind: "a number",
	types.DoubleKind: "a number", types.ListKind: "a list", types.MapKind: "a mapping", types.NullTypeKind: "null",
}
