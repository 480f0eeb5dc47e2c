package advice

import (
	"cmp"
	"fmt"
	"math"

	"indoubt/ledger"
)

// Odds is the chance that an operation in doubt landed, with the interval that
// holds it with 95 %. N is how many settled cases of the ledger it rests on; 0
// means that only the built-in prior speaks. Cases of other kinds count in N only
// as far as they carry weight; Others is how many there are.
type Odds struct {
	P, Low, High float64
	N            int
	Others       int
	Why          string
}

// prior is the chance that a write landed whose answer failed to come in a
// certain way, before the ledger has cases of its own. They are guesses of
// people who run such systems, and they weigh as much as priorWeight cases, so
// that a handful of real ones outvotes them.
var prior = map[ledger.ErrorClass]float64{
	ledger.ClassKilled:    0.40,
	ledger.Class5xx:       0.30, // most servers fail before they act
	ledger.ClassConflict:  0.60, // something is there; often ours
	ledger.ClassThrottled: 0.05,
	ledger.ClassExit:      0.25,
	ledger.ClassToolError: 0.20,
}

const (
	priorElse   = 0.50 // a timeout, a lost connection, a sender that died: before the effect or after it
	priorWeight = 2.0
	// classWeight is how many cases all other kinds together can count as: what
	// happened to them is a hint, and a handful of own cases outvotes it.
	classWeight = 8
)

// Past is how the ledger's settled doubts ended, by kind and error class and by
// class over all kinds. It never changes and is safe for use by many goroutines.
type Past struct {
	byKind  map[pastKey]pastCount
	byClass map[ledger.ErrorClass]pastCount
}

type pastKey struct {
	kind  string
	class ledger.ErrorClass
}

type pastCount struct{ landed, missed int }

func (t pastCount) add(o ledger.DoubtCount) pastCount {
	return pastCount{t.landed + max(o.Landed, 0), t.missed + max(o.Missed, 0)}
}

// History sums counts up, as ledger.Store.DoubtCounts gives them, once for every
// look-up that follows.
func History(counts []ledger.DoubtCount) *Past {
	p := &Past{map[pastKey]pastCount{}, map[ledger.ErrorClass]pastCount{}}
	for _, t := range counts {
		k := pastKey{t.Kind, t.Class}
		p.byKind[k] = p.byKind[k].add(t)
		p.byClass[t.Class] = p.byClass[t.Class].add(t)
	}
	return p
}

// of is what is known of a kind and class, and of that class in all other kinds.
func (p *Past) of(kind string, class ledger.ErrorClass) (own, others pastCount) {
	if p == nil {
		return own, others
	}
	own, all := p.byKind[pastKey{kind, class}], p.byClass[class]
	return own, pastCount{all.landed - own.landed, all.missed - own.missed}
}

// OddsOf is the chance that the operation landed: the history of its kind and
// error class, nil for none. Facts have odds of 0 or 1.
func OddsOf(past *Past, rec ledger.Record) Odds {
	if p, why, known := fact(rec); known {
		return Odds{P: p, Low: p, High: p, Why: why}
	}
	est := past.posterior(rec.Operation)
	low, high := est.interval()
	return Odds{P: est.mean(), Low: low, High: high, N: est.cases(), Others: est.others, Why: est.why(rec.Operation.ErrorClass)}
}

// fact is what is known and needs no guess.
func fact(rec ledger.Record) (p float64, why string, known bool) {
	o := rec.Operation
	switch {
	case o.State == ledger.Committed:
		return 1, "it landed", true
	case o.State == ledger.Failed:
		return 0, "it did not land", true
	case o.State == ledger.Uncertain && (o.Verdict == ledger.Landed || o.Verdict == ledger.Twice || o.Verdict == ledger.Different):
		return 1, "a check found it", true
	}
	return 0, "", false
}

// estimate is a Beta(a, b) and what it rests on.
type estimate struct {
	a, b        float64
	own, others int // cases of the kind, and of other kinds, with the same error class
}

func (e estimate) mean() float64 { return e.a / (e.a + e.b) }

// interval holds the chance with 95 %: the logarithm of the odds is nearly normal.
func (e estimate) interval() (low, high float64) {
	half := 1.96 * math.Sqrt(1/e.a+1/e.b)
	return e.a / (e.a + e.b*math.Exp(half)), e.a / (e.a + e.b*math.Exp(-half))
}

func (e estimate) cases() int { return e.own + min(e.others, classWeight) }

func (e estimate) why(class ledger.ErrorClass) string {
	what := string(class)
	if class == "" {
		what = "no answer"
	}
	switch {
	case e.own == 0 && e.others == 0:
		return fmt.Sprintf("a guess for %s: no cases yet", what)
	case e.own == 0:
		return fmt.Sprintf("none of this kind yet, %s of other kinds (%s)", ledger.Count(e.others), what)
	case e.others == 0:
		return fmt.Sprintf("%s cases like it (%s)", ledger.Count(e.own), what)
	}
	return fmt.Sprintf("%s cases like it and %s of other kinds (%s)", ledger.Count(e.own), ledger.Count(e.others), what)
}

// posterior is the chance that an operation like this one landed, learned in
// three steps, each of which is the prior of the next:
//
//	the built-in guess for the error class, worth priorWeight cases
//	+ the cases of that class in all other kinds
//	+ the cases of that class in this kind
//
// What comes up from the second step keeps its mean, but weighs no more than
// priorWeight + classWeight cases, however many there were: other kinds go to
// other places. So ten own cases outvote any number of foreign ones, and a kind
// without own cases still begins with what the house knows of, say, resets.
func (p *Past) posterior(o ledger.Operation) estimate {
	mean := cmp.Or(prior[o.ErrorClass], priorElse)
	own, others := p.of(o.Kind, o.ErrorClass)
	e := estimate{own: own.landed + own.missed, others: others.landed + others.missed}
	mean = (priorWeight*mean + float64(others.landed)) / (priorWeight + float64(e.others))
	weight := priorWeight + min(float64(e.others), classWeight)
	e.a = weight*mean + float64(own.landed)
	e.b = weight*(1-mean) + float64(own.missed)
	return e
}

// Own is how many of the cases are of the operation's own kind.
func (o Odds) Own() int { return o.N - min(o.Others, classWeight) }
