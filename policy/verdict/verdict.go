// Package verdict grades what a check found: landed, twice, different, not there, not seen, or why
// it cannot be told. It is pure: what was found and what is known are given, and nothing is asked
// but by the functions of a Proof.
//
// It may import ledger, for the words.
package verdict

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"indoubt/ledger"
)

// Identity is how a read recognises an operation's own effect. It is declared in the
// policy and compared here; no expression decides it.
type Identity int

const (
	ByNothing Identity = iota // the candidates are evidence for a person
	ByToken                   // `mark` shows the operation's token
	ByName                    // it has the operation's `name`
	ByAsking                  // `mark: asked`: the other side searched for the token
	ByState                   // `state` is true, whichever write made it so
)

// Found is what one page of a read's answer shows.
type Found struct {
	// Effects are the candidates that are the operation's own by what the read
	// recognises; all of them where it recognises nothing (ByNothing).
	Effects  []Effect
	Others   int       // candidates whose mark is another's
	Unmarked int       // candidates without a mark
	Marks    []string  // of Others, of the first and the last
	Latest   time.Time // when the newest of Others and Unmarked was made, where that is told
	Complete bool      // "none" is the whole truth of this page
	Next     any       // cursor of the following page, nil at the last
	Paged    bool      // the list has several pages
	Valid    bool
}

// Effect is one candidate that may be the operation's effect.
type Effect struct {
	Receipt string
	Same    bool            // it is what was asked for; otherwise it is different
	Value   json.RawMessage // as the other side shows it; nil for a state
	Answer  json.RawMessage // what the policy's `answer` makes of it; nil where it says nothing
	Doubt   string          // why it settles nothing: it looks older, or is not finished; "" when it counts
	Cause   ledger.Cause    // of the doubt
}

// Findings is what the pages of one read showed together.
type Findings struct {
	Began, Ended time.Time
	Effects      []Effect // each once; see Found.Effects
	Others       int      // candidates whose mark is another's
	Unmarked     int      // candidates without a mark
	Marks        []string // of the others; see Found
	Latest       time.Time
	// Trouble is why the read as a whole says nothing, Incomplete why "none" would
	// not be the whole truth, Stale why it may show less than there is by now; each
	// is a sentence, or "".
	Trouble, Incomplete, Stale string
	Unasked                    bool // no question was put at all

	pages            int
	earlier, cursors map[string]bool // effects and cursors of the pages so far
}

// Sure are the effects that are the operation's own as far as they themselves show.
func (f Findings) Sure() []Effect {
	return slices.DeleteFunc(slices.Clone(f.Effects), func(e Effect) bool { return e.Doubt != "" })
}

// Proof is everything beside the findings that a verdict depends on (I6). The
// functions are called only when all else holds, because asking costs reads; each
// returns an empty cause, or why it does not hold. nil holds.
type Proof struct {
	Bounded    bool      // lands_within and visible_within are stated
	Provable   bool      // and the rest that the policy's clocks ask for holds
	At         time.Time // a read begun after this may prove absence
	Visible    time.Time // effects may no longer be shown after this; Never: always shown
	TokenKnown bool      // the token is known to have been in every attempt that may have landed
	Asked      bool      // the request holds what the mark is compared with
	Running    string    // why a process of an attempt may still write; "" when none may
	Redirected bool      // an attempt was answered with a redirect; see ledger.Attempt.Redirected
	SaidLanded string    // why "none" says nothing, however it was found (I12); "" when it may
	Landed     bool      // it is recorded as landed, though not by its own answer
	Ended      time.Time // the latest that its last attempt can have ended
	Consistent bool      // the author's word: a check shows every write that was answered before it

	Negative func() (ledger.Cause, string)         // the same check for something never sent finds nothing
	Shared   func([]Effect) (ledger.Cause, string) // no other operation that may have acted has the same mark
	Stranger func() string                         // why the check may be another caller's than the write; "" when not
	Siblings func() Siblings                       // what the same check finds of others; nil: one on each side
}

// Judgement is the verdict of one read.
type Judgement struct {
	Verdict ledger.Verdict
	Cause   ledger.Cause // why it cannot tell, or may not have seen all; or CauseGone
	Reason  string       // one sentence
}

// Judge gives the verdict of a read. It is a pure function of how the read recognises an
// effect, what was found and what is proven. The operation's own effects count however
// little else the read showed; that there are none counts only under every condition of
// I6.
func Judge(by Identity, f Findings, p Proof) Judgement {
	if by == ByNothing {
		return unidentified(f)
	}
	cause, rest := f.rest()
	n, sure := len(f.Effects), f.Sure()
	var j Judgement
	switch {
	case n == 0 && rest != "":
		return cannotTell(cause, "%s", rest)
	case n == 0 && by == ByState:
		return cannotTell(ledger.CauseNotSo, "it is not so now, which does not prove that it never was")
	case n == 0:
		return nothingFound(by, f, p)
	case len(sure) >= 2:
		j = Judgement{Verdict: ledger.Twice, Reason: fmt.Sprintf("%d matched; expected 1: %s", len(sure), Listed(sure))}
	case len(sure) < n:
		e := f.Effects[slices.IndexFunc(f.Effects, func(e Effect) bool { return e.Doubt != "" })]
		return cannotTell(e.Cause, "found %s, but %s", Listed(f.Effects), e.Doubt)
	case by == ByState:
		j = Judgement{Verdict: ledger.Landed, Reason: "it is as requested, whichever write made it so"}
	case !f.Effects[0].Same && rest != "":
		return cannotTell(cause, "found one that differs, and there may be more: %s", rest)
	case !f.Effects[0].Same:
		j = Judgement{Verdict: ledger.Different, Reason: "found one, but it is not what was asked: " + Listed(f.Effects)}
	default:
		j = Judgement{Verdict: ledger.Landed, Reason: "found " + Listed(f.Effects)}
		if rest != "" {
			j.Cause = cause // it is looked for again
			j.Reason += fmt.Sprintf(" (a second one might be out of sight: %s)", rest)
		}
	}
	if cause, why := p.owned(sure); cause != "" {
		return cannotTell(cause, "%s, but %s", j.Reason, why)
	}
	return j
}

// owned says why the effects found may not be the operation's; "" when they are.
func (p Proof) owned(effects []Effect) (ledger.Cause, string) {
	if p.Shared != nil {
		if cause, why := p.Shared(effects); cause != "" {
			return cause, why
		}
	}
	if p.Negative != nil {
		return p.Negative()
	}
	return "", ""
}

func cannotTell(cause ledger.Cause, format string, args ...any) Judgement {
	return Judgement{Verdict: ledger.CannotTell, Cause: cause, Reason: fmt.Sprintf(format, args...)}
}

// rest is why the read may not have shown everything.
func (f Findings) rest() (ledger.Cause, string) {
	switch {
	case f.Unasked:
		return ledger.CauseNotAsked, f.Trouble
	case f.Trouble != "":
		return ledger.CauseNoAnswer, f.Trouble
	case f.Stale != "":
		return ledger.CauseStale, f.Stale
	case f.Incomplete != "":
		return ledger.CauseIncomplete, f.Incomplete
	}
	return "", ""
}

// unidentified is the verdict of a check that does not show which operation an effect
// belongs to.
func unidentified(f Findings) Judgement {
	cause, rest := f.rest()
	switch n := len(f.Effects); {
	case n == 0 && rest != "":
		return cannotTell(cause, "%s", rest)
	case n == 0:
		return cannotTell(ledger.CauseNone, "none found, but this check does not show which operation an effect belongs to")
	case n == 1:
		return cannotTell(ledger.CauseUnidentified, "found %s, which may be it: this check does not show which operation it belongs to",
			Listed(f.Effects))
	default:
		return cannotTell(ledger.CauseUnidentified, "found %d that may be it: this check does not show which operation they belong to: %s",
			n, Listed(f.Effects))
	}
}

// nothingFound is the verdict of a valid, complete and fresh read that showed no effect
// of the operation.
func nothingFound(by Identity, f Findings, p Proof) Judgement {
	no := func(format string, args ...any) Judgement {
		return cannotTell(ledger.CauseNone, "none found, "+format, args...)
	}
	began := f.Began.Truncate(time.Millisecond) // as the ledger keeps it
	switch {
	case p.SaidLanded != "":
		return cannotTell(ledger.CauseGone, "none found, not there now: that is no proof, because %s", p.SaidLanded)
	case p.Running != "":
		return cannotTell(ledger.CauseRunning, "none found, but %s", p.Running)
	case p.Redirected:
		return no("but it was redirected: its sender may have followed that past the record")
	case p.Asked && f.Others+f.Unmarked > 0:
		return cannotTell(ledger.CauseIncomplete, "asked for its mark, the other side shows what has another (%d): "+
			"it does not search for that, and may not show everything", f.Others+f.Unmarked)
	case by == ByName:
		return no("but this check looks for a name and not for the token, so it may have overlooked it")
	case !p.TokenKnown:
		return no("but its token is not known to have been sent")
	case !p.Bounded:
		return no("but the policy states no bound, so no wait proves absence")
	case !p.Provable:
		return no("but what would be needed to prove it was not sent, is no longer shown, or may be of an earlier attempt")
	case !began.After(p.At):
		return no("too early: proof possible in %s", ledger.Brief(p.At.Sub(began)))
	case !began.Before(p.Visible), !f.Ended.Before(p.Visible):
		return no("too late: effects may no longer be shown since %s", onTheWall(p.Visible))
	}
	if p.Stranger != nil {
		if why := p.Stranger(); why != "" {
			return cannotTell(ledger.CauseUnchecked, "none found, but %s", why)
		}
	}
	if p.Siblings != nil {
		return p.weigh(f, p.Siblings())
	}
	return p.notThere("")
}

// weigh says what a check earns that finds nothing, though all else holds, by what it finds
// of others: nothing, and it may be blind; some, and it sees; one on each side, and it would
// have shown this one between them.
func (p Proof) weigh(f Findings, s Siblings) Judgement {
	younger := s.Younger
	if younger == "" && f.Latest.After(p.Ended.Add(strangersLead)) {
		younger = "what was made " + onTheWall(f.Latest)
	}
	switch {
	case s.Older == "" && s.Younger == "" && s.Cause != "":
		return cannotTell(s.Cause, "none found, but %s", s.Why)
	case s.Older == "" && s.Younger == "":
		return cannotTell(ledger.CauseBlind, "none found, but the check may be blind: it finds no other operation of this caller either")
	case s.Older != "" && p.Consistent:
		return p.notThere(": it finds " + s.Older + ", sent before")
	case s.Older != "" && younger != "":
		return p.notThere(": it finds " + s.Older + ", sent before, and " + younger + ", sent after")
	}
	seen, lacks := s.Older+", sent before", "after it, so that this may be late"
	if s.Older == "" {
		seen, lacks = s.Younger+", sent after", "before it, so that this may be out of its sight"
	}
	const sees = "none found, and the check finds %s; it was not seen to find what was sent %s"
	j := Judgement{Verdict: ledger.NotSeen, Reason: fmt.Sprintf(sees, seen, lacks)}
	if s.Why != "" {
		j.Reason += ": " + s.Why
	}
	return j
}

func (p Proof) notThere(seen string) Judgement {
	j := Judgement{Verdict: ledger.NotThere, Reason: "none found, and it would have shown by " + onTheWall(p.At) + seen}
	if p.Landed {
		j.Cause, j.Reason = ledger.CauseGone, "not there now, and it would have shown by "+onTheWall(p.At)+seen
	}
	return j
}

func onTheWall(at time.Time) string { return at.Local().Format("2006-01-02 15:04:05 MST") }

// Listed names effects by their receipts.
func Listed(effects []Effect) string {
	var names string
	for i, e := range effects {
		switch {
		case i == 5:
			return names + " and more"
		case i > 0:
			names += ", "
		}
		names += cmp.Or(e.Receipt, "one without a receipt")
	}
	return names
}
