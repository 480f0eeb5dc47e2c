package policy

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/policy/advice"
	"indoubt/policy/expr"
	"indoubt/policy/transport"
	"indoubt/policy/verdict"
)

const maxCandidates = 10_000

// Read is how an operation's effect is looked for.
type Read struct {
	MaxBody int64 // bytes of an answer that are kept

	kind     *Kind
	way      transport.Way
	valid    *expr.Expression
	list     *expr.Expression // where the candidates are
	complete *expr.Expression
	next     *expr.Expression // the cursor of the following page, or its address
	follow   bool             // it is an address
	stable   bool             // pages do not shift while they are read
	// consistent is the author's word: it reads its own writes.
	consistent bool
	same       *expr.Expression
	receipt    *expr.Expression
	reply      *expr.Expression // what a caller gets who asks again

	// How an effect is recognised as the operation's own (see Identity).
	mark    *expr.Expression // where a candidate shows its mark, or its name
	asked   bool             // `mark: asked`
	markAs  *expr.Template   // the form in which the mark shows the token
	markIs  *expr.Template   // the name, where it is not the key
	markKey bool             // the name is the key
	unique  bool             // the other side refuses a second one with this mark
	created *expr.Expression // when a candidate came into being
	final   *expr.Expression // false: it is there, but not finished
	state   *expr.Expression // true: it is so, whichever write made it so

	readOnly bool // the policy vouches that it only reads
}

// Via is how the read asks: http, command, mcp or sql.
func (r *Read) Via() string { return r.way.Via() }

func (r *Read) operationOnStdin() bool {
	c, command := r.way.(*transport.Command)
	return command && c.Stdin == nil
}

// uses reports whether anything of the read is worked out from a name.
func (r *Read) uses(name string) bool {
	return slices.ContainsFunc(r.expressions(), func(e *expr.Expression) bool { return e.Uses(name) })
}

func (r *Read) usesCursor() bool {
	asks := slices.ContainsFunc(r.requestExpressions(), func(e *expr.Expression) bool { return e.Uses("cursor") })
	return asks || r.operationOnStdin() && r.next != nil // a command gets it with its input
}

func (r *Read) requestExpressions() (out []*expr.Expression) {
	for _, t := range transport.Templates(r.way) {
		out = append(out, t.Expressions()...)
	}
	return out
}

func (r *Read) expressions() []*expr.Expression {
	out := []*expr.Expression{r.valid, r.list, r.mark, r.created, r.final, r.state, r.complete, r.next, r.same, r.receipt, r.reply}
	out = slices.Concat(out, r.markAs.Expressions(), r.markIs.Expressions(), r.requestExpressions())
	return slices.DeleteFunc(out, func(e *expr.Expression) bool { return e == nil })
}

// Request renders the read for one page; cursor is nil for the first. Errors:
// *transport.MissingError, and sentences for people.
func (r *Read) Request(rec ledger.Record, cursor any) (transport.Request, error) {
	if err := r.askable(rec.Operation); err != nil {
		return transport.Request{}, err
	}
	if cursor != nil && !r.Pages() {
		return transport.Request{}, fmt.Errorf("there is a further page, and the request cannot ask for it")
	}
	if cursor != nil && r.follow {
		return r.page(rec, fmt.Sprint(cursor))
	}
	return r.request(rec, expr.Exact(cursor))
}

func (r *Read) request(rec ledger.Record, cursor any) (transport.Request, error) {
	vars := r.kind.variables(rec)
	vars.cursor = cursor
	return transport.Twice(vars.rendering(), r.render)
}

func (r *Read) render(as *transport.Rendering) (transport.Request, error) {
	out, err := as.Request(r.way)
	if err == nil {
		err = refuseRecorded(out, as.Operation)
	}
	return out, err
}

func (r *Read) askable(o ledger.Operation) error {
	if err := r.notRedacted(o); err != nil {
		return err
	}
	return r.notForNothing(o)
}

// notForNothing refuses a read that would search for an empty text: it would find
// everything, or what has none.
func (r *Read) notForNothing(o ledger.Operation) error {
	for _, n := range []struct{ name, value string }{{"token", o.Token}, {"key", o.KeyToSend()}, {"receipt", o.Receipt()}} {
		if n.value != "" {
			continue
		}
		asks := n.name == "token" && r.Proves() || n.name == "key" && r.markKey
		for _, t := range r.way.Questions() {
			asks = asks || t.States(n.name) || n.name != "receipt" && t.Uses(n.name)
		}
		if asks {
			return fmt.Errorf("the check searches by `%s`, and this operation has none", n.name)
		}
	}
	return nil
}

// notRedacted refuses a read that would search with a digest, which finds nothing
// whether or not the operation landed.
func (r *Read) notRedacted(o ledger.Operation) error {
	if !o.Redacted {
		return nil
	}
	if gone := o.Gone(); gone != "" {
		for _, e := range r.expressions() {
			if e.UsesMember("op", "session") {
				return fmt.Errorf("the check needs its session, and it was %s", gone)
			}
			for _, name := range []string{"input", "receipt", "key"} {
				if e.Uses(name) && (name != "key" || ledger.IsMasked(o.Key)) {
					return fmt.Errorf("the check needs its %s, and it was %s", name, gone)
				}
			}
		}
		return nil
	}
	input, err := r.kind.seen(o)
	if err != nil {
		return err
	}
	for _, e := range r.expressions() {
		for _, path := range e.Inputs() {
			if holdsDigest(input, path) {
				return fmt.Errorf("the check needs input.%s, which is kept only as a digest", path)
			}
		}
	}
	return nil
}

// holdsDigest reports whether a digest stands at a path of an input or below it.
func holdsDigest(input any, path string) (holds bool) {
	expr.InputPath(path).Replace(input, func(v any) any {
		text, _ := v.(string)
		holds = holds || strings.HasPrefix(text, transport.DigestPrefix)
		return v
	})
	return holds
}

// JudgePage says what the answer to a read shows, for the page that cursor asked for; nil is the
// first. An error means that the answer cannot be judged; its text is the reason, one plain sentence.
// It never stands for "none". The last of several pages is Complete only where the read is `stable`:
// else the list may have shifted between them.
func (r *Read) JudgePage(ctx context.Context, rec ledger.Record, cursor any, a ledger.Answer) (verdict.Found, error) {
	if err := transport.Usable(&a); err != nil {
		return verdict.Found{}, err
	}
	if err := r.notRedacted(rec.Operation); err != nil {
		return verdict.Found{}, err
	}
	ctx, cancel := expr.Bounded(ctx) // however many effects a page shows
	defer cancel()
	vars := r.kind.variables(rec).withAnswer(&a)
	if err := r.isValid(ctx, vars); err != nil {
		return verdict.Found{}, err
	}
	f := verdict.Found{Valid: true, Paged: cursor != nil}
	if r.state != nil {
		holds, err := r.state.Truth(ctx, vars.Names)
		if err != nil {
			return verdict.Found{}, err
		}
		if f.Complete = true; holds {
			f.Effects = []verdict.Effect{{Same: true}}
		}
		return f, nil
	}
	if err := r.sort(ctx, vars, &f); err != nil {
		return verdict.Found{}, err
	}
	// What was found is found; an error means only that it may not be all.
	var err error
	whole := false
	if r.complete != nil {
		whole, err = r.complete.Truth(ctx, vars.Names)
	}
	f.Complete = whole && (!f.Paged || r.stable)
	if !whole && r.next != nil && (err == nil || len(f.Effects) > 0) {
		f.Next, err = r.following(ctx, vars, cursor)
		f.Paged = f.Paged || f.Next != nil
	}
	if err != nil && len(f.Effects) == 0 {
		return verdict.Found{}, err
	}
	return f, nil
}

// NoCheck is why this process cannot read the operation's effect, nil when it can: the
// kind has no read, its request cannot be made from this input, or a secret or a
// program is missing.
func (k *Kind) NoCheck(rec ledger.Record) error {
	if k.Read == nil {
		return fmt.Errorf("the policy knows no check for %s", k.Name)
	}
	err := k.Read.askable(rec.Operation)
	if err != nil {
		return err
	}
	as := k.variables(rec).rendering()
	req, err := k.Read.render(&as)
	if err != nil {
		return err
	}
	return req.Missing()
}

// Lacks is the *transport.MissingError of a secret that the check needs, whatever the operation,
// and that this process does not have; nil where it has all.
func (r *Read) Lacks() error {
	vars := r.kind.variables(ledger.Record{})
	for _, e := range r.requestExpressions() {
		if !e.Secret() {
			continue
		}
		if _, err := e.Eval(context.Background(), vars.Names); transport.LackedHere(err) {
			return err
		}
	}
	return nil
}

// Checkable is the kind as it applies to the operation: without its read where that
// cannot be sent, and then why. A read that cannot be sent proves nothing.
func (k *Kind) Checkable(rec ledger.Record) (*Kind, error) {
	switch {
	case k.Read == nil, rec.Operation.State != ledger.Uncertain && rec.Operation.State != ledger.Pending:
		return k, nil
	}
	err := k.NoCheck(rec)
	elsewhere := transport.LackedHere(err) && rec.Pricing.Digest != "" && rec.Pricing.DecideAt.After(rec.Now)
	if err == nil || elsewhere {
		return k, nil
	}
	blind := *k
	blind.Read, blind.CanSee, blind.CanProve = nil, false, false
	return &blind, err
}

// Proof gathers what is known of one operation before a read is sent.
func (k *Kind) Proof(rec ledger.Record) verdict.Proof {
	o := rec.Operation
	p := verdict.Proof{TokenKnown: advice.TokenSent(rec), Redirected: slices.ContainsFunc(rec.Attempts, ledger.Attempt.Redirected),
		Bounded: k.LandsWithin != nil && k.VisibleWithin != nil, Asked: k.Read.asks(k.Read.replaces()...)}
	switch state := rec.State(); {
	case state == ledger.Uncertain && o.PersonOnly:
		p.SaidLanded = "it was said to have landed"
	case state == ledger.Committed && o.ByAnswer:
		p.SaidLanded = "its own answer said that it landed"
	default:
		p.Landed = state == ledger.Committed
		// What a person or a read has settled may be contradicted (I9); only what is
		// in doubt is settled, and not behind a person's back (I12).
		rec.Operation.PersonOnly = false
	}
	// Where no check of this boot saw it over before, this one is the first.
	rec.Reads = append(slices.Clip(rec.Reads), ledger.Read{Seen: rec.Steady, Over: math.MaxInt})
	p.At, p.Provable = k.ProofAt(rec)
	p.Ended, p.Consistent = k.LatestEnd(rec), k.Read.consistent
	p.Visible = k.VisibleUntil(rec)
	return p
}
