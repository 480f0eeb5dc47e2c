// Package advice is what to do about an operation now: by what is recorded of it, by the terms of
// its kind (times, and what a repeat does), by the odds that the ledger's history gives, and by
// what either mistake costs. It is pure.
//
// It may import ledger, and expr, which writes amounts.
package advice

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/policy/expr"
)

const (
	Look    = "look"
	Confirm = "confirm"
	Retry   = "retry"
	Abandon = "abandon"
	Wait    = "wait"
	Leave   = "leave"
)

// Advice is the cheapest safe action now and why.
type Advice struct {
	Verb            string       // look confirm retry abandon wait leave
	Reason          string       // one plain sentence
	Basis           ledger.Basis // for retry
	Odds            Odds
	Duplicate, Miss ledger.Cost
	RetryCost       float64   // p·duplicate, with p as Rounded gives it
	LeaveCost       float64   // (1−p)·miss
	LookCost        float64   // what looking by hand costs
	ProofAt         time.Time // when absence becomes provable; zero: never
	ParkedUntil     time.Time // it is out of the way until then; zero: it is not
	ChangesAt       time.Time // when a clock changes this advice; zero: none does
	Where           LookUp    // for look
}

// LookUp is what a person needs to look an operation up by hand.
type LookUp struct {
	Link     string    // "" when there is none
	Search   []string  // what to search for, the surest first; only what was sent
	From, To time.Time // when it can have landed; To is zero where the policy does not bound it
}

// Choose fills in the cheapest safe action at now, for these odds and costs: the first rule that
// applies, with its arithmetic and the time at which a clock changes it. Until ChangesAt the same
// record has the same advice. Times are in milliseconds, as in the ledger.
func (k Terms) Choose(a Advice, rec ledger.Record, now time.Time) Advice {
	landed := Rounded(a.Odds.P)
	a.LookCost, a.RetryCost, a.LeaveCost = lookCost, landed*a.Duplicate.Value, (1-landed)*a.Miss.Value
	if at, ok := k.ProofAt(rec); ok {
		a.ProofAt = at
	}
	priced := a
	a = k.choose(priced, rec, now)
	for _, at := range k.changeTimes(rec, now) {
		b := k.choose(priced, rec, at)
		if b.Verb != a.Verb || b.Basis != a.Basis || b.Reason != a.Reason || !b.ParkedUntil.Equal(a.ParkedUntil) {
			a.ChangesAt = at
			break
		}
	}
	return a
}

// changeTimes are the coming moments at which a clock may change the advice, in order.
func (k Terms) changeTimes(rec ledger.Record, now time.Time) []time.Time {
	o := rec.Operation
	candidates := []time.Time{k.KeySafeUntil(rec), k.waitUntil(rec), o.ParkedUntil}
	if proof, ok := k.ProofAt(rec); ok {
		candidates = append(candidates, proof)
	}
	if o.State == ledger.Pending {
		candidates = append(candidates, o.DeadlineAt.Add(time.Millisecond)) // it is over after its deadline, not at it
	}
	for _, g := range rec.Allowed {
		if g.Open(now) {
			candidates = append(candidates, g.ExpiresAt)
		}
	}
	out := slices.DeleteFunc(candidates, func(c time.Time) bool { return !c.After(now) || !c.Before(ledger.Never) })
	slices.SortFunc(out, time.Time.Compare)
	return out
}

// Where is what a person needs to look it up by hand. It names only what was sent to
// the downstream: a search for anything else finds nothing whether or not it landed.
func (k Terms) Where(rec ledger.Record, link, title string) LookUp {
	o := rec.Operation
	l := LookUp{Link: link, From: ToldStart(rec)}
	l.Search = append(l.Search, o.Receipts...)
	if TokenSent(rec) {
		l.Search = append(l.Search, o.Token)
	}
	if k.KeyHeader != "" && o.Key != "" && keyWorked(rec) {
		l.Search = append(l.Search, o.KeyToSend())
	}
	l.Search = append(l.Search, title)
	if end := k.ToldEnd(rec); k.LandsWithin != nil && !end.IsZero() {
		l.To = end.Add(*k.LandsWithin + ledger.Skew)
	}
	return l
}

// lookCost is what it costs a person to look an operation up by hand, in the policy's currency.
const lookCost = 5

// choose walks down the list; the first that applies is the advice.
func (k Terms) choose(a Advice, rec ledger.Record, now time.Time) Advice {
	o := rec.Operation
	if now.Before(o.ParkedUntil) {
		a.ParkedUntil = o.ParkedUntil
	}
	state := o.StateAt(now)
	landed := o.Verdict == ledger.Landed || o.Verdict == ledger.Twice
	say := func(verb, reason string) { a.Verb, a.Reason = verb, reason }
	switch {
	case o.Conflict != ledger.NoConflict:
		say(Look, cmp.Or(conflictReasons[o.Conflict], "what is recorded and what was seen disagree"))
	case state == ledger.Pending:
		say(Wait, "an attempt is in flight")
	case state == ledger.Committed:
		say(Leave, "it landed")
	case state == ledger.Abandoned:
		say(Leave, "it was given up")
	case state == ledger.Uncertain && landed:
		say(Confirm, "a check found it")
	case allowed(rec, now):
		say(Wait, "one send is allowed and waits for its pipeline")
	case state == ledger.Failed:
		k.chooseNotLanded(&a, rec, now)
	case rec.Overtaken() != nil:
		say(Abandon, overtakenReason(rec.Overtaken()))
	case now.Before(k.waitUntil(rec)):
		say(Wait, k.waitReason(rec, a.ProofAt, now))
	default:
		k.chooseInDoubt(&a, rec, now)
	}
	return a
}

var conflictReasons = map[ledger.Conflict]string{
	ledger.ConflictTwice:      "it happened twice: take one back outside, then note it as dealt with",
	ledger.ConflictMaybeTwice: "it landed, and another send of the same may have landed too",
	ledger.ConflictDifferent:  "something landed, but not what was asked for",
}

func allowed(rec ledger.Record, now time.Time) bool {
	return slices.ContainsFunc(rec.Allowed, func(g ledger.Allowed) bool { return g.Open(now) })
}

// chooseNotLanded advises on an operation that is known not to have landed.
func (k Terms) chooseNotLanded(a *Advice, rec ledger.Record, now time.Time) {
	o := rec.Operation
	basis, why, _ := k.AllowedBasis(rec, now)
	switch {
	case !o.Doubted && allProven(rec.Attempts) && refusedOnly(rec.Attempts):
		a.Verb, a.Reason = Leave, "it was refused, and its pipeline knows"
	case o.Verdict == ledger.Landed || o.Verdict == ledger.Twice || o.Verdict == ledger.Different:
		a.Verb, a.Reason = Look, "a check finds one, which is said not to be this one's: a retry is at own risk"
	case rec.Overtaken() != nil:
		a.Verb, a.Reason = Abandon, overtakenReason(rec.Overtaken())
	default:
		a.Verb, a.Basis, a.Reason = Retry, basis, why
	}
}

func refusedOnly(attempts []ledger.Attempt) bool {
	return len(attempts) > 0 && !slices.ContainsFunc(attempts, func(a ledger.Attempt) bool { return a.Proof != ledger.Refused })
}

// overtakenReason says what landed instead, or may have.
func overtakenReason(r *ledger.Relation) string {
	landed := "may have landed"
	if r.State == ledger.Committed {
		landed = "landed"
	}
	return fmt.Sprintf("overtaken: a later operation on the same target %s (%s, %s). To send this one now could undo that, or do it twice",
		landed, cmp.Or(r.Title, r.ID), cmp.Or(r.SettledAt, r.CreatedAt).Local().Format("2 Jan 15:04 MST"))
}

// chooseInDoubt advises on an operation that no read is about to settle.
func (k Terms) chooseInDoubt(a *Advice, rec ledger.Record, now time.Time) {
	basis, why, _ := k.AllowedBasis(rec, now)
	switch {
	case basis == ledger.BasisKeySafe && !rec.Operation.PersonOnly, basis == ledger.BasisNotSeen:
		a.Verb, a.Basis, a.Reason = Retry, basis, why
	case a.Odds.N == 0:
		a.Verb, a.Reason = Look, "no case like it was ever settled, so there is nothing to guess from"
	case a.Duplicate.Guess || a.Miss.Guess:
		a.Verb, a.Reason = Look, "no price of its own says what either mistake costs"
	case a.RetryCost > a.LookCost && a.LeaveCost > a.LookCost:
		a.Verb, a.Reason = Look, fmt.Sprintf("looking costs %s, less than either guess", expr.Money(a.LookCost))
	case a.RetryCost < a.LeaveCost:
		a.Verb, a.Basis, a.Reason = Retry, basis, why+"; sending again costs less on average"
	default:
		a.Verb, a.Reason = Leave, "leaving it costs no more on average than sending again"
	}
}

// waitUntil is until when a read can still be expected to settle it; the zero
// time when none can. Where absence can be proven, that is some time after the
// proof; else reads only hope to see it landed, until a person is asked.
func (k Terms) waitUntil(rec ledger.Record) time.Time {
	o := rec.Operation
	if !k.ReadsDecide(rec) || o.State != ledger.Uncertain && o.State != ledger.Pending {
		return time.Time{}
	}
	since := DoubtSince(o)
	if since.IsZero() || o.State == ledger.Pending {
		since = k.ToldEnd(rec)
	}
	if since.IsZero() {
		return time.Time{}
	}
	until := since.Add(k.EscalateAfter)
	if proof, ok := k.ProofAt(rec); ok && proof.Add(proofGrace).After(until) {
		until = proof.Add(proofGrace)
	}
	if visible := k.VisibleUntil(rec); visible.Before(until) {
		return visible // from then on a check sees nothing
	}
	return until
}

// proofGrace is how long after the proof time the proving read may take to come.
const proofGrace = time.Minute

func (k Terms) waitReason(rec ledger.Record, proof time.Time, now time.Time) string {
	_, unseen := ledger.Unseen(rec.Reads, len(rec.Attempts))
	switch {
	case unseen:
		return "not seen so far; a check may still see what was sent after it"
	case proof.After(now):
		return "a check can tell either way from " + proof.Local().Format("15:04:05 MST")
	case !proof.IsZero():
		return "the check that can tell is on its way"
	}
	return "checks go on, and one may still find it"
}

// Rounded is a chance as it is printed and reckoned with: two decimals, and more
// near 0 and 1, where two would not tell it from a fact.
func Rounded(p float64) float64 {
	scale := 100.0
	for small := min(p, 1-p); small > 0 && small*scale < 9.999 && scale < 1e6; {
		scale *= 10
	}
	return math.Round(p*scale) / scale
}

// Share writes a chance in the arithmetic: 0.50.
func Share(p float64) string {
	text := strconv.FormatFloat(Rounded(p), 'f', -1, 64)
	if whole, decimals, _ := strings.Cut(text, "."); len(decimals) < 2 {
		return whole + "." + (decimals + "00")[:2]
	}
	return text
}
