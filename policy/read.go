package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"indoubt/ledger"
)

// NoneFound begins the reason of a read that was valid and found nothing but
// proves nothing either (yet). Such reads lower the odds; other inconclusive
// reads do not.
const NoneFound = "none found"

// Blind begins the reason of a read that found nothing with a check that was not
// seen to find what exists. It lowers no odds, and neither do the reads before it.
const Blind = NoneFound + ", but the check may be blind: "

// NotThereNow begins the reason of a read that proves that nothing is there of
// what was said to have landed. It contradicts, and it settles nothing (I12).
const NotThereNow = "not there now"

// maxEffects bounds what is looked at; more than two are a duplicate anyway.
const maxEffects = 1000

// Read is how an operation's effect is looked for.
type Read struct {
	Line    int
	MaxBody int64 // bytes of an answer that are kept

	kind      *Kind
	transport transport
	valid     *expression
	found     *expression
	complete  *expression
	next      *paging
	same      *expression
	receipt   *expression
}

// Via is how the read asks: http, command, mcp or sql.
func (r *Read) Via() string { return r.transport.via() }

// SearchesByToken tells whether the read finds an effect by its token, so that
// finding none can be a proof, and a token that was never sent makes it blind
// (I6): the request or `found` asks for it. What only judges or names an effect
// that was found otherwise (`same`, `receipt`, `valid`) looks for nothing, and
// neither does a header.
func (r *Read) SearchesByToken() bool {
	if r.found.uses("token") {
		return true
	}
	for _, t := range r.transport.questions() {
		if t.uses("token") {
			return true
		}
	}
	return r.toldToken()
}

// toldToken tells whether a command gets the token on its standard input, as it
// does where the policy says nothing else, and nothing beside it to look for.
// Whether it looks at it is not known here; a kind that states a token states it
// for this.
func (r *Read) toldToken() bool {
	c := r.transport.command
	if c == nil || c.stdin != nil || r.kind == nil || !r.kind.Token.Stated() || r.found.uses("input", "key") {
		return false
	}
	for _, t := range r.transport.questions() {
		if t.uses("input", "key") {
			return false
		}
	}
	return true
}

// usesToken tells whether anything of the read is worked out from the token.
func (r *Read) usesToken() bool {
	for _, e := range r.expressions() {
		if e.uses("token") {
			return true
		}
	}
	return false
}

// newestOnly tells whether the read depends on which attempt is the newest, so
// that it may overlook what an earlier one did.
func (r *Read) newestOnly() bool {
	for _, e := range r.expressions() {
		if e.uses("attempt") {
			return true
		}
	}
	return false
}

func (r *Read) usesCursor() bool {
	for _, t := range r.transport.templates() {
		if t.uses("cursor") {
			return true
		}
	}
	// A command gets it with its input.
	return r.transport.command != nil && r.transport.command.stdin == nil && r.next != nil
}

func (r *Read) bound() bool {
	if r.transport.command != nil && r.transport.command.stdin == nil {
		return true
	}
	for _, e := range r.expressions() {
		if e.uses("token", "key", "input", "op", "receipt") {
			return true
		}
	}
	return false
}

func (r *Read) expressions() []*expression {
	var out []*expression
	for _, e := range []*expression{r.valid, r.found, r.complete, r.same, r.receipt} {
		if e != nil {
			out = append(out, e)
		}
	}
	if r.next != nil && r.next.expr != nil {
		out = append(out, r.next.expr)
	}
	for _, t := range r.transport.templates() {
		out = append(out, t.expressions()...)
	}
	return out
}

func (t *transport) templates() []*template {
	out := t.questions()
	if t.http != nil {
		for _, p := range t.http.headers {
			out = append(out, p.value)
		}
	}
	return out
}

// questions are the templates of what is asked, without the headers beside it.
func (t *transport) questions() []*template {
	var out []*template
	if h := t.http; h != nil {
		out = append(out, h.path)
		for _, v := range []*value{h.query, h.json, h.form} {
			out = append(out, v.templates()...)
		}
	}
	if c := t.command; c != nil {
		for _, a := range c.argv {
			out = append(out, a.value)
		}
		for _, p := range c.env {
			out = append(out, p.value)
		}
		out = append(out, c.stdin.templates()...)
	}
	if t.mcp != nil {
		out = append(out, t.mcp.arguments.templates()...)
	}
	if t.sql != nil && t.sql.query != nil {
		out = append(out, t.sql.query)
	}
	return out
}

// Request renders the read for one page; cursor is nil for the first. Errors:
// *MissingSecretError, and sentences for people.
func (r *Read) Request(rec ledger.Record, cursor any) (Request, error) {
	if err := r.notRedacted(rec.Operation); err != nil {
		return Request{}, err
	}
	if err := r.notForNothing(rec.Operation); err != nil {
		return Request{}, err
	}
	if cursor != nil && !r.Pages() {
		return Request{}, fmt.Errorf("there is a further page, and the request cannot ask for it")
	}
	if cursor != nil && r.next.follow {
		return r.page(rec, fmt.Sprint(cursor))
	}
	return r.transport.request(newVariables(rec), nil, exactNumbers(cursor))
}

// notForNothing refuses a read that would search with an empty text: it would
// find whatever has none, or everything.
func (r *Read) notForNothing(o ledger.Operation) error {
	for _, n := range []struct{ name, value string }{{"token", o.Token}, {"key", o.Key}, {"receipt", o.Receipt()}} {
		if n.value != "" {
			continue
		}
		// A receipt that is not known yet does no harm beside what is.
		asks := r.found.uses(n.name) && (n.name != "receipt" || !r.found.uses("token", "key", "input"))
		for _, t := range r.transport.questions() {
			asks = asks || t.states(n.name) || n.name != "receipt" && t.uses(n.name)
		}
		asks = asks || n.name == "token" && r.toldToken()
		if asks {
			return fmt.Errorf("the check searches by `%s`, and this operation has none", n.name)
		}
	}
	return nil
}

// notRedacted refuses a read that would search with a digest: it would find
// nothing whether or not there is something.
func (r *Read) notRedacted(o ledger.Operation) error {
	if !o.Redacted {
		return nil
	}
	input, err := decodeInput(o)
	if err != nil {
		return err
	}
	for _, e := range r.expressions() {
		for _, path := range e.inputs {
			if holdsDigest(input, splitPath(path)) {
				return fmt.Errorf("the check needs input.%s, which is kept only as a digest", path)
			}
		}
	}
	return nil
}

func holdsDigest(v any, path []string) bool {
	if len(path) == 1 && path[0] == "" {
		path = nil
	}
	switch x := v.(type) {
	case string:
		return strings.HasPrefix(x, digestPrefix)
	case map[string]any:
		for name, e := range x {
			if (len(path) == 0 || path[0] == "*" || path[0] == name) && holdsDigest(e, tail(path)) {
				return true
			}
		}
	case []any:
		for _, e := range x {
			if holdsDigest(e, tail(path)) {
				return true
			}
		}
	}
	return false
}

func tail(path []string) []string {
	if len(path) == 0 {
		return nil
	}
	return path[1:]
}

// Judge says what the answer to a read's first page shows. An error means that
// it cannot tell; its text is the reason, one plain sentence. An error never
// stands for "none".
func (r *Read) Judge(ctx context.Context, rec ledger.Record, a ledger.Answer) (Found, error) {
	return r.JudgePage(ctx, rec, nil, a)
}

// JudgePage is Judge for the page that cursor asked for; nil is the first. The
// last of several pages by offset is never Complete: the list may have shifted
// between them.
func (r *Read) JudgePage(ctx context.Context, rec ledger.Record, cursor any, a ledger.Answer) (Found, error) {
	if err := usable(a); err != nil {
		return Found{}, err
	}
	if err := r.notRedacted(rec.Operation); err != nil {
		return Found{}, err
	}
	ctx, cancel := bounded(ctx) // however many effects a page shows
	defer cancel()
	vars := newVariables(rec).withAnswer(&a)
	if err := r.isValid(ctx, vars); err != nil {
		return Found{}, err
	}
	f := Found{Valid: true, Paged: r.paged(cursor)}
	var err error
	if f.Effects, err = r.effects(ctx, vars); err != nil {
		return Found{}, err
	}
	whole := false
	if r.complete != nil {
		if whole, err = r.complete.truth(ctx, vars); err != nil && len(f.Effects) == 0 {
			return Found{}, err
		} // what was found is found; only that it is all is not known
	}
	f.Complete = whole && f.Paged != PagedOffset
	if whole || r.next == nil {
		return f, nil
	}
	if f.Next, err = r.following(ctx, vars, cursor); err != nil && len(f.Effects) == 0 {
		return Found{}, err
	}
	if f.Paged == "" {
		f.Paged = r.paged(f.Next)
	}
	return f, nil
}

// usable refuses an answer that no expression should be asked about.
func usable(a ledger.Answer) error {
	switch {
	case a.Err != nil:
		return fmt.Errorf("no answer: %w", a.Err)
	case a.Truncated && a.Via == "sql":
		return errCutRows
	case a.Truncated:
		return errCut
	case a.Via == "command" && !a.Exited:
		return fmt.Errorf("the command did not end by itself")
	case a.Via == "mcp":
		return usableCall(a)
	case a.Via == "sql":
		if a.Rows == nil {
			return fmt.Errorf("no rows came back")
		}
		return nil
	case a.Via != "command" && a.Status == 0:
		return fmt.Errorf("no answer came")
	case a.Status == 206:
		return fmt.Errorf("answer is only a part of what was asked for (206)")
	case a.Status == 304:
		return fmt.Errorf("answer is \"not modified\" (304), which shows nothing")
	case noAnswer(a.Status): // whatever `valid` says
		return refusal(a, false)
	}
	for _, age := range a.Header["Age"] {
		seconds, err := strconv.ParseFloat(strings.TrimSpace(age), 64)
		if err != nil {
			return fmt.Errorf("answer came from a cache, of unknown age")
		}
		if seconds > 0 {
			return fmt.Errorf("answer came from a cache, %s s old", formatNumber(seconds))
		}
	}
	return nil
}

// noAnswer tells whether a status says only that the question was not answered.
func noAnswer(status int) bool {
	switch status {
	case 401, 403, 407, 408, 429:
		return true
	}
	return status >= 300 && status < 400 || status >= 500
}

// usableCall is usable for a tool call. That a tool says isError is for `valid`.
func usableCall(a ledger.Answer) error {
	switch {
	case a.RPC == nil:
		return fmt.Errorf("no answer came")
	case a.RPC.Error:
		return rpcError(a.RPC)
	}
	return nil
}

// refusal says why an answer is none, by the rules of its way or by `valid`.
func refusal(a ledger.Answer, byPolicy bool) error {
	switch {
	case a.Via == "command" && a.Exit != 0:
		return fmt.Errorf("the check ended with exit code %d%s", a.Exit, Complaint(a))
	case a.Via == "mcp" && !byPolicy:
		return fmt.Errorf("the tool says that it failed%s", said(a))
	case a.Status == 401 || a.Status == 403 || a.Status == 407:
		return fmt.Errorf("downstream answered %d: the check is not let in", a.Status)
	case a.Status == 429:
		return fmt.Errorf("downstream answered 429: it is asked too often")
	case a.Status != 0 && a.Status != 200:
		return fmt.Errorf("downstream answered %d", a.Status)
	}
	return fmt.Errorf("the answer is not what the policy calls valid%s", Complaint(a))
}

// said is the first text of a tool's answer, ": …", or "".
func said(a ledger.Answer) string {
	content, err := toolAnswer(&a, "content")
	list, ok := content.([]any)
	if err != nil || !ok || len(list) == 0 {
		return ""
	}
	part, _ := list[0].(map[string]any)
	text, _ := part["text"].(string)
	if text = shorten(text, 100); text == "" {
		return ""
	}
	return ": " + text
}

// isValid asks `valid`, and beside it for success where the expression does not
// look at the status, exit code or isError itself. The error says why it is not.
func (r *Read) isValid(ctx context.Context, vars *variables) error {
	if !r.valid.uses("status", "exit", "isError") {
		fine, err := succeeded(vars)
		if err != nil {
			return err
		}
		if !fine {
			return refusal(*vars.answer, false)
		}
	}
	if r.valid == nil {
		return nil
	}
	holds, err := r.valid.truth(ctx, vars)
	if err == nil && !holds {
		err = refusal(*vars.answer, true)
	}
	return err
}

// succeeded tells whether a read's answer is one at all, by the rules of its way.
func succeeded(vars *variables) (bool, error) {
	a := vars.answer
	switch a.Via {
	case "command":
		return a.Exit == 0, nil
	case "mcp":
		failed, err := toolAnswer(a, "isError")
		return failed == false, err
	case "sql":
		return true, nil
	}
	return a.Status == 200, nil
}

func (r *Read) effects(ctx context.Context, vars *variables) ([]Effect, error) {
	v, err := r.found.eval(ctx, vars)
	if err != nil {
		return nil, err
	}
	list, ok := v.(traits.Lister)
	if !ok {
		return nil, fmt.Errorf("%s: not a list but %s", shorten(r.found.text, 60), typeName(v))
	}
	if size, ok := list.Size().(types.Int); !ok || size > maxEffects {
		return nil, fmt.Errorf("the check finds more than %d effects; it looks too wide", maxEffects)
	}
	var out []Effect
	for it := list.Iterator(); it.HasNext() == types.True; {
		one := vars.effect(it.Next())
		e, err := r.effect(ctx, one)
		if err != nil {
			return nil, err
		}
		if !e.Same && list.Size() == types.IntOne { // of several, what counts is that there are several
			e.Differs = r.differences(ctx, one)
		}
		out = append(out, e)
	}
	return out, nil
}

func (r *Read) effect(ctx context.Context, one *variables) (Effect, error) {
	it, ok := one.it.(ref.Val)
	if !ok {
		return Effect{}, fmt.Errorf("an effect found cannot be kept")
	}
	data, err := native(it)
	if err != nil {
		return Effect{}, fmt.Errorf("an effect found cannot be kept: %w", err)
	}
	text, err := json.Marshal(data)
	if err != nil {
		return Effect{}, fmt.Errorf("an effect found cannot be kept: %w", err)
	}
	e := Effect{Same: true, Value: text}
	if r.same != nil {
		if e.Same, err = r.same.truth(ctx, one); err != nil {
			return Effect{}, err
		}
	}
	if r.receipt != nil {
		if e.Receipt, err = receiptOf(ctx, r.receipt, one); err != nil {
			return Effect{}, err
		}
	}
	return e, nil
}

func receiptOf(ctx context.Context, e *expression, vars *variables) (string, error) {
	v, err := e.eval(ctx, vars)
	if err != nil {
		return "", err
	}
	text, err := formatValue(v)
	if err != nil {
		return "", fmt.Errorf("%s: %w", shorten(e.text, 60), err)
	}
	if len(text) > 500 {
		return "", fmt.Errorf("%s: a receipt of %d characters is none", shorten(e.text, 60), len(text))
	}
	return text, nil
}
