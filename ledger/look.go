package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ScopeLook is the row of the holds that an adoption leaves behind; see Look.
const ScopeLook HoldScope = "look"

// SenderForgotten is the sender of an attempt that a ledger may have lost: nobody knows whether it was sent.
const SenderForgotten = "forgotten"

// LookFor is for how long begins are looked for first, where the policy and the person say nothing else.
const LookFor = 24 * time.Hour

// WhenLost says what is to be done before a request is sent that the ledger may have lost.
type WhenLost int

const (
	PersonLooks WhenLost = iota // no check can tell whether it was sent
	CheckLooks                  // a check compares its token
	NoHarm                      // to send it twice does no harm, or sets again what is there
)

// Look says that the ledger was adopted, and may have lost what was sent last (I13). Until it ends, a begin whose
// name is unknown, or is known to have had no effect before the adoption, is recorded as an attempt that may have
// been sent then. A check settles that, or a person.
type Look struct {
	Since   time.Time // the newest entry from before: what was sent until then is in the ledger
	Adopted time.Time
	Until   time.Time // zero: begins are held for now
	Kinds   []string  // of these a person has said that nothing was lost, or that the loss is accepted
}

// At reports whether it counts at a time.
func (l *Look) At(now time.Time) bool { return l != nil && (l.Until.IsZero() || now.Before(l.Until)) }

// Covers reports whether a begin has to be looked for first. It has not where a second send does no harm, and where only
// its own words name the request: then a forgotten one cannot be told from a new wish.
func (l *Look) Covers(req BeginRequest, now time.Time) bool {
	named := !MadeKey(req.Key) || fieldsMade(req.Key)
	return l.At(now) && named && req.WhenLost != NoHarm && req.SentAt.IsZero() &&
		!slices.ContainsFunc(l.Kinds, func(of string) bool { return KindMatches(of, req.Kind) })
}

// refuses is the answer to a begin that no check can look for; else ok is false. What is looked for is the token that
// is made of the key: with one that its caller makes, it may have been sent with another.
func (l *Look) refuses(o Operation, req BeginRequest) (res BeginResult, ok bool) {
	cannot := "no check of kind " + req.Kind + " can tell"
	switch {
	case req.WhenLost != CheckLooks:
	case req.Token != "":
		cannot = "it brings a token of its own, which may have been another one then"
	case !req.TokenSent || o.Token == "" || o.Token == req.StandIn:
		cannot = "its token is not in what is sent, so no check can tell"
	default:
		return res, false
	}
	why := fmt.Sprintf("held since the ledger was adopted: it may have been sent before, and %s. "+
		"Once a person has looked for all of its kind: %s", cannot, ReleaseUnlooked(req.Kind))
	return BeginResult{Answer: AnswerHeld, Operation: o, Why: why, Until: l.Until}, true
}

// again begins an attempt after others that are known to have had no effect. Where the ledger may have lost one since,
// that is looked for first.
func (l *Look) again(rec *Record, req BeginRequest) (BeginResult, Change, error) {
	if l.Covers(req, rec.Now) && !rec.Operation.SettledAt.After(l.Adopted) {
		if res, refused := l.refuses(rec.Operation, req); refused {
			return res, Change{}, nil
		}
		req = l.forgot(req, rec.Now)
	}
	return beginAgain(rec, req, nil)
}

// ReleaseUnlooked is the command that lets the begins of a kind go without a look.
func ReleaseUnlooked(kind string) string {
	return "indoubt release " + kind + " --look-first 0 --reason …"
}

// forgot makes of a begin the record of the attempt that was lost: begun when the ledger ends, and over when the
// adoption and its deadline were.
func (l *Look) forgot(req BeginRequest, now time.Time) BeginRequest {
	req.SentAt, req.Deadline = l.Since, l.Adopted.Add(req.Deadline).Sub(now)
	req.AttemptID, req.Sender = DeriveID(req.AttemptID, SenderForgotten), SenderForgotten
	req.Host, req.PID, req.Place, req.Tree = "", 0, Place{}, TreeEmpty
	req.Remark, req.AwaitsDelivery, req.Beside, req.Repeats = "the ledger was adopted, and may have lost that it was sent", false, "", ""
	return req
}

// Lift ends a hold.
type Lift struct {
	Scope            HoldScope
	Actor            Actor
	Reason, ChangeID string
	// LookFirst is for how long begins are looked for first from now on, where the ledger was adopted; nil: for LookFor.
	LookFirst *time.Duration
}

// Event is what is written down of it.
func (l Lift) Event() Event {
	said := map[string]any{"scope": l.Scope}
	if l.LookFirst != nil {
		said["look_first_ms"] = l.LookFirst.Milliseconds()
	}
	return Event{ID: l.ChangeID, Verb: "release", Actor: l.Actor, Reason: l.Reason, Detail: detail(said)}
}

// After is what is left of it once a hold was lifted; nil where that changes nothing.
func (l *Look) After(lift Lift, now time.Time) *Look {
	if l == nil {
		return nil
	}
	next := *l
	switch kind, is := strings.CutPrefix(string(lift.Scope), "kind:"); {
	case lift.Scope == "all" && (l.Until.IsZero() || lift.LookFirst != nil):
		length := LookFor
		if lift.LookFirst != nil {
			length = *lift.LookFirst
		}
		next.Until = now.Add(length)
	case is && lift.LookFirst != nil && *lift.LookFirst == 0 && !slices.Contains(l.Kinds, kind):
		next.Kinds = append(slices.Clip(next.Kinds), kind)
	default:
		return nil
	}
	return &next
}
