package policy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/policy/advice"
	"indoubt/policy/expr"
	"indoubt/policy/file"
)

// costRule is a cost as the policy gives it: a word, a number or an expression.
type costRule struct {
	word   string
	number float64
	expr   *expr.Expression
	guess  bool // not said by the kind itself
}

// inherited is the same cost for a kind that does not say its own.
func (c *costRule) inherited() *costRule {
	d := *c
	d.guess = true
	return &d
}

// cost is the field of one cost: a word, a number or an expression.
func (d decoder) cost(k *Kind, name string, out **costRule) file.Reader {
	return func(n *file.Node) {
		k.origins["cost."+name] = n.Key
		text, ok := d.Scalar(n)
		if !ok {
			return
		}
		text = strings.TrimSpace(text)
		v, err := strconv.ParseFloat(text, 64)
		words := d.policy.words
		near := ledger.Meant(text, slices.SortedFunc(maps.Keys(words), func(a, b string) int { return cmp.Compare(words[a], words[b]) }))
		number, known := words[text]
		switch {
		case known:
			*out = &costRule{word: text, number: number}
		case err == nil && !(v >= 0 && v < 1e15):
			d.Fail(n.Place, fmt.Sprintf("a cost is a number of zero or more, but this is %q", text), "")
		case err == nil:
			*out = &costRule{number: v}
		case near != "" && kindName(text) && !strings.Contains(text, "."):
			d.Fail(n.Place, fmt.Sprintf("%q is not a word for a cost", text), near)
		default:
			if e := d.Expression(n, expr.ForOperation, expr.Number); e != nil {
				*out = &costRule{expr: e}
			}
		}
	}
}

// value computes a cost. One that fails, is not finite or is below zero counts as the
// dearest word: an unknown cost must not look cheap.
func (c *costRule) value(ctx context.Context, p *Policy, vars *variables) ledger.Cost {
	if c == nil { // a Kind that no policy made
		return ledger.Cost{Guess: true}
	}
	if c.expr == nil {
		return ledger.Cost{Value: c.number, Word: c.word, Guess: c.guess}
	}
	var v float64
	got, err := c.expr.Eval(ctx, vars.Names)
	if err == nil {
		v, err = got.Number()
	}
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return ledger.Cost{Value: p.words[p.dearest], Word: p.dearest, Guess: true}
	}
	return ledger.Cost{Value: v, Guess: c.guess}
}

// Costs are what a duplicate and a miss of this operation cost.
func (k *Kind) Costs(op ledger.Operation) (duplicate, miss ledger.Cost) {
	vars := k.variables(ledger.Record{Operation: op})
	ctx := context.Background()
	duplicate = k.duplicate.value(ctx, k.policy, vars)
	miss = k.miss.value(ctx, k.policy, vars)
	return duplicate, miss
}

// Price computes what lists are ordered by. ReadAt and Reads are kept as they are.
func (k *Kind) Price(rec ledger.Record) ledger.Pricing {
	o := rec.Operation
	p := rec.Pricing
	p.OperationID, p.Version, p.Title, p.Target = o.ID, o.Version, k.Title(o), k.Target(o)
	p.Digest, p.Downstream = "", k.DownstreamName()
	if k.policy != nil {
		p.Digest = k.policy.digest
	}
	p.Duplicate, p.Miss = k.Costs(o)
	p.Odds = k.Odds(rec).P
	p.Rank = advice.Rank(o, p)
	p.DecideAt = time.Time{}
	if checkable, _ := k.Checkable(rec); checkable.ReadsDecide(rec) {
		p.DecideAt = ledger.Never
		if since := advice.DoubtSince(o); !since.IsZero() {
			p.DecideAt = since.Add(k.EscalateAfter)
		}
	}
	if p.ReadAt.IsZero() && k.Read == nil {
		p.ReadAt = ledger.Never
	}
	return p
}

// Odds is the chance that the operation landed, by the history that the policy was given.
func (k *Kind) Odds(rec ledger.Record) advice.Odds {
	if k.policy == nil {
		return advice.OddsOf(nil, rec)
	}
	return advice.OddsOf(k.policy.past, rec)
}

// Advise is the cheapest safe action at now; see advice.Terms.
func (k *Kind) Advise(rec ledger.Record, now time.Time) advice.Advice {
	checkable, unasked := k.Checkable(rec)
	a := advice.Advice{Odds: k.Odds(rec)}
	a.Duplicate, a.Miss = k.Costs(rec.Operation)
	a = checkable.Choose(a, rec, now)
	if a.Verb == advice.Look {
		a.Where = checkable.Where(rec, k.Link(rec.Operation), k.Title(rec.Operation))
		if unasked != nil {
			a.Reason = "no check is possible: " + strings.Join(strings.Fields(unasked.Error()), " ") + "; " + a.Reason
		}
	}
	return a
}
