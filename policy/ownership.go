package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/wire/carry"
	"indoubt/policy/advice"
	"indoubt/policy/expr"
	"indoubt/policy/verdict"
)

// Identity is by what the read recognises an effect.
func (r *Read) Identity() verdict.Identity {
	switch {
	case r.state != nil:
		return verdict.ByState
	case r.asked:
		return verdict.ByAsking
	case r.markIs != nil || r.markKey:
		return verdict.ByName
	case r.mark != nil:
		return verdict.ByToken
	}
	return verdict.ByNothing
}

// Proves reports whether finding nothing can prove that nothing is there (I6):
// only a read that looks for the token can.
func (r *Read) Proves() bool {
	return r.Identity() == verdict.ByToken || r.Identity() == verdict.ByAsking
}

// Recognises says in a few words by what the read recognises an effect.
func (r *Read) Recognises() string {
	by := "its token"
	switch r.Identity() {
	case verdict.ByState:
		return "state: " + expr.Shorten(r.state.Text, 60) + ", whichever write made it so"
	case verdict.ByAsking:
		return "their search for its token"
	case verdict.ByNothing:
		return "nothing: what it finds is evidence for a person"
	case verdict.ByName:
		if by = "its key"; !r.markKey {
			by = expr.Shorten(r.markIs.Text, 40)
		}
		return expr.Shorten(r.mark.Text, 40) + " equal to " + by
	}
	if r.markAs != nil {
		by = expr.Shorten(r.markAs.Text, 40)
	}
	return expr.Shorten(r.mark.Text, 40) + " with " + by
}

// MarkRules are the rules that make an operation's marks, "" where there are none:
// those of every kind that may look where this kind's effects show.
func (k *Kind) MarkRules() string {
	rules := ledger.Each(k.namedReads(), func(r *Read) string {
		if r.markKey {
			return "key"
		}
		return r.markIs.Text
	})
	slices.Sort(rules)
	return strings.Join(slices.Compact(rules), "\n")
}

// Marks are the names under which an operation's effect may show, with the rules that make
// them. A rule that cannot be applied to its input makes none.
func (k *Kind) Marks(o ledger.Operation) ledger.Marks {
	m := ledger.Marks{Rules: k.MarkRules()}
	for _, r := range k.namedReads() {
		if value, err := r.Name(o); err == nil && value != "" && !slices.Contains(m.Values, value) {
			m.Values = append(m.Values, value)
		}
	}
	return m
}

// SameSide reports whether the effects of one kind may show where those of the
// other are looked for.
func (k *Kind) SameSide(other *Kind) bool {
	return k.Name == other.Name || k.Pattern != "" && k.Pattern == other.Pattern ||
		k.Downstream == nil || other.Downstream == nil || k.Downstream.Name == other.Downstream.Name
}

// namedReads are the reads that recognise an effect by a name, of all kinds whose
// effects may show where this kind's are looked for.
func (k *Kind) namedReads() (out []*Read) {
	for _, other := range k.policy.order {
		if other.Read != nil && other.Read.Identity() == verdict.ByName && k.SameSide(other) {
			out = append(out, other.Read)
		}
	}
	return out
}

// Name is what the read expects an effect of the operation to be called.
func (r *Read) Name(o ledger.Operation) (string, error) {
	return r.expected(ledger.Record{Operation: o})
}

// expected is the text that an own mark shows: the token, as it stands or inside
// the form of `mark`, or its name.
func (r *Read) expected(rec ledger.Record) (string, error) {
	o := rec.Operation
	t := r.markAs
	switch {
	case r.markKey:
		return o.KeyToSend(), nil
	case r.markIs != nil:
		t = r.markIs
	case t == nil:
		return o.Token, nil
	}
	text, err := r.kind.text(t, rec)
	if err == nil && strings.TrimSpace(text) == "" {
		err = fmt.Errorf("it is empty")
	}
	if err != nil {
		return "", fmt.Errorf("what its mark would be is not known: %w", err)
	}
	return text, nil
}

func (k *Kind) text(t *expr.Template, rec ledger.Record) (string, error) {
	r := k.variables(rec).rendering()
	return r.Text(t), r.Err()
}

// owns reports whether a mark is the operation's.
func (r *Read) owns(mark, expected string) bool {
	switch {
	case expected == "":
		return false
	case r.Identity() == verdict.ByName, mark == expected:
		return mark == expected
	case r.markAs != nil:
		return strings.Contains(mark, expected)
	}
	return ledger.HasWord(mark, expected)
}

// marks are the texts that a candidate shows as its mark; none where it has no
// mark. An error means that it cannot be told.
func (r *Read) marks(ctx context.Context, one *variables) ([]string, error) {
	v, err := r.mark.OfCandidate(ctx, one.Names)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var out []string
	for _, e := range list {
		switch e.(type) {
		case nil:
			continue
		case bool, map[string]any, []any:
			return nil, r.mark.About(fmt.Errorf("a mark is a text or a list of texts"))
		}
		text, err := expr.FormatData(e)
		if err != nil {
			return nil, r.mark.About(err)
		}
		if text != "" {
			out = append(out, text)
		}
	}
	return out, nil
}

// older says why a candidate may have existed before the first attempt; "" when it did
// not. The downstream's clock is compared as it is: by a clock a candidate is only in
// doubt, never another's.
func (r *Read) older(ctx context.Context, one *variables) (string, error) {
	at, unit, err := r.made(ctx, one)
	start := advice.ToldStart(*one.rec)
	switch {
	case err != nil || r.created == nil:
		return "", err
	case start.IsZero():
		return "when it was first sent is not known, so what was found may be older", nil
	case at.Add(unit).After(start):
		return "", nil
	}
	created, sent := at.UTC().Format(time.RFC3339), start.UTC().Format(time.RFC3339)
	return fmt.Sprintf("it looks older than the first attempt: created %s, sent %s", created, sent), nil
}

// made is when a candidate came into being, and how exactly that is said; the zero time where it
// is not.
func (r *Read) made(ctx context.Context, one *variables) (at time.Time, unit time.Duration, err error) {
	if r.created == nil {
		return at, 0, nil
	}
	v, err := r.created.Eval(ctx, one.Names)
	if err != nil {
		return at, 0, err
	}
	at, unit, err = v.Moment()
	return at, unit, r.created.About(err)
}

// sort finds the operation's own effects among the candidates of one page. Where
// nothing identifies them, all are evidence.
func (r *Read) sort(ctx context.Context, vars *variables, f *verdict.Found) error {
	v, err := r.list.Eval(ctx, vars.Names)
	if err != nil {
		return err
	}
	list, err := v.List(maxCandidates)
	if err != nil {
		return r.list.About(err)
	}
	expected := ""
	if r.mark != nil {
		if expected, err = r.expected(*vars.rec); err != nil {
			return err
		}
	}
	for _, it := range list {
		one := vars.effect(it)
		if r.mark != nil {
			marks, err := r.marks(ctx, one)
			switch {
			case err != nil:
				return err
			case !slices.ContainsFunc(marks, func(m string) bool { return r.owns(m, expected) }):
				if len(marks) > 0 {
					f.Others++
				} else {
					f.Unmarked++
				}
				if r.Proves() {
					at, _, _ := r.made(ctx, one) // what cannot be told shows nothing
					f.Other(marks, at)
				}
				continue
			}
		}
		e, err := r.effect(ctx, it, one)
		if err != nil {
			return err
		}
		if !e.Same && r.Identity() == verdict.ByNothing {
			f.Others++
			continue
		}
		f.Effects = append(f.Effects, e)
	}
	return nil
}

// effect is one candidate that may be the operation's: its receipt, whether it is what
// was requested, and why it settles nothing, if it does not.
func (r *Read) effect(ctx context.Context, it expr.Value, one *variables) (e verdict.Effect, err error) {
	if e.Value, err = kept(it); err != nil {
		return verdict.Effect{}, err
	}
	e.Receipt, err = receiptOf(ctx, r.receipt, one)
	if r.Identity() == verdict.ByNothing { // for a person: what cannot be told is left to them
		same, err := r.same.Holds(ctx, one.Names)
		e.Same = same || err != nil
		return e, nil
	}
	if err == nil {
		e.Same, err = r.same.Holds(ctx, one.Names)
	}
	if err == nil {
		e.Doubt, err = r.older(ctx, one)
	}
	if e.Doubt != "" {
		e.Cause = ledger.CauseOlder
		return e, nil
	}
	finished := true
	if err == nil {
		finished, err = r.final.Holds(ctx, one.Names)
	}
	if !finished {
		e.Doubt, e.Cause = "it is there, but not finished", ledger.CauseUnfinished
	}
	if err == nil && r.reply != nil {
		var v expr.Value
		if v, err = r.reply.Eval(ctx, one.Names); err == nil {
			e.Answer, err = kept(v)
		}
	}
	if err != nil {
		return verdict.Effect{}, err
	}
	return e, nil
}

func kept(v expr.Value) (text json.RawMessage, err error) {
	data, err := v.Data()
	if err == nil {
		text, err = json.Marshal(data)
	}
	if err != nil {
		return nil, fmt.Errorf("what was found cannot be kept: %w", err)
	}
	return text, nil
}

// receiptOf is the receipt that an expression gives, "" without one.
func receiptOf(ctx context.Context, e *expr.Expression, vars *variables) (string, error) {
	if e == nil {
		return "", nil
	}
	v, err := e.Eval(ctx, vars.Names)
	if err != nil {
		return "", err
	}
	text, err := v.Format()
	if err == nil && len(text) > 500 {
		err = fmt.Errorf("a receipt of %d characters is none", len(text))
	}
	if err != nil {
		return "", e.About(err)
	}
	return text, nil
}

// Insert puts the correlation token into an input where the rule says, and errs where the
// input has no such place. The same token twice changes nothing.
func (t TokenRule) Insert(input json.RawMessage, token string) (json.RawMessage, error) {
	path := cmp.Or(t.Append, t.Into)
	if path == "" {
		return input, nil
	}
	at, err := carry.At(path, t.Append != "")
	if err == nil {
		if placed, ok := at.JSON(input, token); ok {
			return placed, nil
		}
	}
	return nil, fmt.Errorf("the token has no place at input.%s", path)
}
