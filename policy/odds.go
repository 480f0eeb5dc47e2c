package policy

import (
	"fmt"
	"math"
	"time"

	"indoubt/ledger"
)

// prior is the chance that a write landed whose answer failed to come in a
// certain way, before the ledger has cases of its own. They are guesses of
// people who run such systems, and they weigh as much as priorWeight cases, so
// that a handful of real ones outvotes them.
var prior = map[ledger.ErrorClass]float64{
	ledger.ClassTimeout:   0.50,
	ledger.ClassReset:     0.50,
	ledger.ClassEOF:       0.50,
	ledger.ClassDeadline:  0.50, // the sender died: before or after sending
	ledger.ClassKilled:    0.40,
	ledger.Class5xx:       0.30, // most servers fail before they act
	ledger.ClassConflict:  0.60, // something is there; often ours
	ledger.ClassThrottled: 0.05,
	ledger.ClassExit:      0.25,
	ledger.ClassToolError: 0.20,
}

const (
	priorElse   = 0.50
	priorWeight = 2.0
	coverage    = 0.95 // of the interval
)

// Odds is the chance that the operation landed: the history of its kind and
// error class, lowered by what reads have not found. Facts have odds of 0 or 1.
func (k *Kind) Odds(rec ledger.Record) Odds {
	p, why, known := fact(rec)
	if known {
		return Odds{P: p, Low: p, High: p, Why: why}
	}
	a, b, n := k.posterior(rec.Operation)
	f, read := k.invisible(rec)
	o := Odds{P: lower(a/(a+b), f), N: n}
	o.Low = lower(betaQuantile((1-coverage)/2, a, b), f)
	o.High = lower(betaQuantile((1+coverage)/2, a, b), f)
	class := string(rec.Operation.ErrorClass)
	if class == "" {
		class = "no answer"
	}
	o.Why = fmt.Sprintf("%d cases like it (%s)", n, class)
	if n == 0 {
		o.Why = fmt.Sprintf("a guess for %s: no cases yet", class)
	}
	if f > 0 {
		o.Why += fmt.Sprintf(", lowered by a check at %s that found nothing", read.Local().Format("15:04:05"))
	}
	return o
}

// chance is Odds without its interval, for pricing many.
func (k *Kind) chance(rec ledger.Record) float64 {
	if p, _, known := fact(rec); known {
		return p
	}
	a, b, _ := k.posterior(rec.Operation)
	f, _ := k.invisible(rec)
	return lower(a/(a+b), f)
}

// fact is what is known and needs no guess.
func fact(rec ledger.Record) (p float64, why string, known bool) {
	o := rec.Operation
	switch {
	case o.State == ledger.Committed:
		return 1, "it landed", true
	case o.State == ledger.Failed:
		return 0, "it did not land", true
	case o.State == ledger.Uncertain && (o.Verdict == ledger.Landed || o.Verdict == ledger.Duplicated || o.Verdict == ledger.Mismatch):
		return 1, "a check found it", true
	}
	return 0, "", false
}

func (k *Kind) posterior(o ledger.Operation) (a, b float64, n int) {
	mean, ok := prior[o.ErrorClass]
	if !ok {
		mean = priorElse
	}
	var t Tally
	if k.policy != nil && k.policy.history != nil {
		t = k.policy.history(o.Kind, o.ErrorClass)
	}
	t.Landed, t.Missed = max(t.Landed, 0), max(t.Missed, 0)
	return priorWeight*mean + float64(t.Landed), priorWeight*(1-mean) + float64(t.Missed), t.Landed + t.Missed
}

// invisible is F of the negative read with the best visibility: how sure it is
// that the read would have shown an effect. Nothing is subtracted while the
// effect may still come, or where the policy does not say how soon it shows.
func (k *Kind) invisible(rec ledger.Record) (f float64, at time.Time) {
	if k.LandsWithin == nil || k.VisibleWithin == nil {
		return 0, time.Time{}
	}
	if k.Read != nil && k.Read.SearchesByToken() && !tokenSent(rec) {
		return 0, time.Time{}
	}
	from, until := latestEnd(rec).Add(*k.LandsWithin), k.VisibleUntil(rec)
	for _, r := range rec.Reads {
		if !negative(r) || r.BeganAt.Before(from) || !r.BeganAt.Before(until) {
			continue
		}
		g := 1.0
		if *k.VisibleWithin > 0 {
			g = 1 - math.Pow(0.01, float64(r.BeganAt.Sub(from))/float64(*k.VisibleWithin))
		}
		if g > f {
			f, at = g, r.BeganAt
		}
	}
	return f, at
}

// negative tells whether a read looked properly and found nothing.
func negative(r ledger.Read) bool {
	if r.Control || r.Found != 0 {
		return false
	}
	return r.Verdict == ledger.Absent || r.Verdict == ledger.Inconclusive && len(r.Reason) >= len(NoneFound) && r.Reason[:len(NoneFound)] == NoneFound
}

// lower is Bayes' rule for a read that would have shown an effect with chance f.
func lower(p, f float64) float64 {
	if f <= 0 {
		return p
	}
	hidden := p * (1 - f)
	return hidden / (hidden + 1 - p)
}

// betaQuantile is the x with P(Beta(a, b) < x) = q, by bisection.
func betaQuantile(q, a, b float64) float64 {
	low, high := 0.0, 1.0
	for range 50 {
		mid := (low + high) / 2
		if betaBelow(mid, a, b) < q {
			low = mid
		} else {
			high = mid
		}
	}
	return (low + high) / 2
}

// betaBelow is the regularised incomplete beta function by its continued
// fraction (Abramowitz and Stegun 26.5.8), evaluated by Lentz's method.
func betaBelow(x, a, b float64) float64 {
	if x <= 0 {
		return 0
	}
	if x >= 1 {
		return 1
	}
	if x > (a+1)/(a+b+2) {
		return 1 - betaBelow(1-x, b, a)
	}
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	front := math.Exp(lab-la-lb+a*math.Log(x)+b*math.Log1p(-x)) / a
	const tiny = 1e-300
	f, c, d := 1.0, 1.0, 0.0
	for i := 0; i <= 300; i++ {
		m := float64(i / 2)
		numerator := 1.0
		switch {
		case i == 0:
		case i%2 == 0:
			numerator = m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		default:
			numerator = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		d = 1 + numerator*d
		if math.Abs(d) < tiny {
			d = tiny
		}
		d = 1 / d
		c = 1 + numerator/c
		if math.Abs(c) < tiny {
			c = tiny
		}
		f *= c * d
		if math.Abs(1-c*d) < 1e-10 {
			break
		}
	}
	return min(1, max(0, front*(f-1)))
}
