package reconcile

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

// findings is what the pages of one read showed together.
type findings struct {
	began, ended time.Time
	effects      []policy.Effect // each once
	trouble      string          // why the read as a whole says nothing; empty when it is valid
	incomplete   string          // why "none" would not be the whole truth; empty when it is
	stale        string          // why it may show less than there is by now; empty when it is fresh
	evidence     evidence
	asked        policy.Request // for the first page
	wait         time.Time      // the downstream is not to be asked before this
	unasked      bool           // no question was put at all
	none         bool           // the last answer said that there is no such thing, or no such question
}

// proof is everything beside the findings that absence depends on (I6).
type proof struct {
	bounded    bool      // both bounds are stated
	provable   bool      // and the rest the policy's clocks ask for holds
	at         time.Time // a read begun after this may prove absence
	visible    time.Time // effects may no longer be shown after this; Never: always shown
	byToken    bool      // the read looks for the token
	tokenKnown bool      // the token is known to have been in every attempt that may have landed
	tree       string    // why a process of an attempt may still write; empty when none may
	handsOff   string    // why "none" says nothing, however it was found (I12); empty when it may
	landed     bool      // it is recorded as landed, though not by its own answer
	// control tells whether the check finds something that is known to exist.
	// It is asked last, because asking may cost a read.
	control func() (held bool, why string)
}

// judge gives the verdict. Effects that were found are found, however little
// else the read showed; that nothing was found counts only under every
// condition of I6.
func judge(f findings, p proof) (ledger.Verdict, string) {
	rest := cmp.Or(f.trouble, f.stale, f.incomplete)
	switch n := len(f.effects); {
	case n >= 2:
		return ledger.Duplicated, fmt.Sprintf("%d matched; expected 1: %s", n, listed(f.effects))
	case n == 1 && !f.effects[0].Same && rest != "":
		return ledger.Inconclusive, fmt.Sprintf("found one that differs, and there may be more: %s", rest)
	case n == 1 && !f.effects[0].Same:
		return ledger.Mismatch, fmt.Sprintf("found one, but it is not what was asked: %s%s", listed(f.effects), colon(f.effects[0].Differs))
	case n == 1 && rest != "":
		return ledger.Landed, fmt.Sprintf("found %s (a second one might be out of sight: %s)", listed(f.effects), rest)
	case n == 1:
		return ledger.Landed, "found " + listed(f.effects)
	case rest != "":
		return ledger.Inconclusive, rest
	}
	return nothingFound(f, p)
}

// nothingFound decides what it means that a valid, complete and uncached read
// found nothing.
func nothingFound(f findings, p proof) (ledger.Verdict, string) {
	no := func(format string, args ...any) (ledger.Verdict, string) {
		return ledger.Inconclusive, policy.NoneFound + ", " + fmt.Sprintf(format, args...)
	}
	began := f.began.Truncate(time.Millisecond) // as the ledger keeps it
	switch {
	case p.handsOff != "":
		return no("not there now: that is no proof, because %s", p.handsOff)
	case p.tree != "":
		return no("but %s", p.tree)
	case p.byToken && !p.tokenKnown:
		return no("but its token is not known to have been sent")
	case !p.bounded:
		return no("but the policy states no bound, so no wait proves absence")
	case !p.byToken:
		return no("but this check does not look for the token, so it may have overlooked it")
	case !p.provable:
		return no("but what would be needed to prove it was not sent, is no longer shown, or may be of an earlier attempt")
	case !began.After(p.at):
		return no("too early: proof possible in %s", brief(p.at.Sub(began)))
	case !began.Before(p.visible), !f.ended.Before(p.visible):
		return no("too late: effects may no longer be shown since %s", onTheWall(p.visible))
	}
	switch held, why := p.control(); {
	case !held && (why == neverSeen || strings.HasPrefix(why, findsNot)):
		return ledger.Inconclusive, policy.Blind + why
	case !held:
		return no("but %s", why)
	}
	first := policy.NoneFound
	if p.landed {
		first = policy.NotThereNow
	}
	return ledger.Absent, fmt.Sprintf("%s, and it would have shown by %s", first, onTheWall(p.at))
}

// onTheWall is a moment as the clock beside the reader shows it.
func onTheWall(at time.Time) string { return at.Local().Format("2006-01-02 15:04:05 MST") }

// proofOf gathers the conditions for one operation.
func proofOf(k *policy.Kind, rec ledger.Record) proof {
	o := rec.Operation
	p := proof{tree: mayStillWrite(rec), byToken: k.Read.SearchesByToken(), tokenKnown: o.TokenSent && o.Token != ""}
	switch state := o.StateAt(rec.Now); {
	case state == ledger.Uncertain && o.HandsOff:
		p.handsOff = "it was said to have landed"
	case state == ledger.Committed && o.ByAnswer:
		p.handsOff = "its own answer said that it landed"
	default:
		p.landed = state == ledger.Committed
		// What a person or a read has settled may be contradicted (I9); only what is
		// in doubt is settled, and not behind a person's back (I12).
		rec.Operation.HandsOff = false
	}
	p.at, p.provable = k.ProofAt(rec)
	p.bounded = k.LandsWithin != nil && k.VisibleWithin != nil
	p.provable = p.provable && p.bounded
	for _, a := range rec.Attempts {
		if a.Final() != ledger.OutcomeFailed && a.Proof != ledger.ProvenAbsent {
			p.tokenKnown = p.tokenKnown && a.TokenSent
		}
	}
	p.visible = k.VisibleUntil(rec)
	return p
}

func colon(text string) string {
	if text == "" {
		return ""
	}
	return ": " + text
}

// listed names effects by their receipts.
func listed(effects []policy.Effect) string {
	var names string
	for i, e := range effects {
		switch {
		case i == 5:
			return names + " and more"
		case i > 0:
			names += ", "
		}
		if e.Receipt == "" {
			names += "one without a receipt"
		} else {
			names += e.Receipt
		}
	}
	return names
}

func receipts(effects []policy.Effect) []string {
	var out []string
	for _, e := range effects {
		if e.Receipt != "" {
			out = append(out, e.Receipt)
		}
	}
	return out
}
