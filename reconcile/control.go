package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/policy"
)

const (
	// controlPause is how long a control that failed is not tried again by itself.
	controlPause = 30 * time.Second
	// negativeHolds is how long a check that found nothing for what was never sent
	// is trusted to do so for the same request.
	negativeHolds = time.Minute
	// maxControls bounds how many controls are remembered.
	maxControls = 4096
)

// controls remembers what controls showed, by kind, policy and rendered request:
// when the newest that held was begun, and which failed lately and why. Checks
// made at once share one.
type controls struct {
	making keyed // one at a time
	mu     sync.Mutex
	made   map[string]control
}

type control struct {
	began ledger.Moment
	cause ledger.Cause // "" when it held
	why   string
}

// controlled makes a control unless one that was begun at since or later held.
// One that failed lately is not tried again, unless a person waits for it.
func (e *reader) controlled(ctx context.Context, key string, since time.Time, eager bool, try func() (ledger.Cause, string)) (ledger.Cause, string) {
	free, err := e.controls.making.lock(ctx, key)
	if err != nil {
		return ledger.CauseUnchecked, err.Error()
	}
	defer free()
	last, made := e.controls.last(key)
	now := e.moment()
	began := now.Earliest(last.began) // also where the wall clock was set back since
	switch {
	case !made:
	case last.cause == "" && !began.Before(since):
		return "", ""
	case last.cause != "" && !eager && now.Wall.Sub(began) < controlPause:
		return last.cause, last.why
	}
	c := control{began: now}
	c.cause, c.why = try()
	e.controls.note(key, c)
	return c.cause, c.why
}

func (c *controls) last(key string) (control, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	made, ok := c.made[key]
	return made, ok
}

func (c *controls) note(key string, made control) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil {
		c.made = map[string]control{}
	}
	if len(c.made) >= maxControls {
		for k, old := range c.made {
			if made.began.Wall.Sub(old.began.Wall) > negativeHolds {
				delete(c.made, k)
			}
		}
		if len(c.made) >= maxControls {
			clear(c.made)
		}
	}
	c.made[key] = made
}

// negative says why what was found may be an echo of the request, or anything:
// the same request for something that was never sent must find nothing. Where a mark
// is compared too, the result is believed for a minute for the same request apart
// from what is replaced in it, and for no other. Where nothing else tells whose it
// is, the control begins no earlier than the check it speaks for: another side that
// found nothing for a moment would else vouch for what it repeats afterwards.
func (e *reader) negative(ctx context.Context, k *policy.Kind, rec ledger.Record, digest string, began time.Time, eager bool, ready func() error) (ledger.Cause, string) {
	if !k.Read.NeedsNegativeControl(rec) {
		return "", ""
	}
	const unknown = "whether this check also finds what was never sent is not known: "
	questions, err := k.Read.NeverSent(rec)
	if err != nil {
		return ledger.CauseUnchecked, unknown + err.Error()
	}
	since := e.now().Add(-negativeHolds)
	if by := k.Read.Identity(); by == policy.ByAsking || by == policy.ByState {
		since = began
	}
	for _, q := range questions {
		cause, why := e.controlled(ctx, "negative\x00"+k.Name+"\x00"+digest+"\x00"+q.Key, since, eager, func() (ledger.Cause, string) {
			other, err := q.Record()
			if err != nil {
				return ledger.CauseUnchecked, unknown + err.Error()
			}
			f := e.read(ctx, k, other, turn{ready, true})
			switch {
			case len(f.Effects) > 0:
				return ledger.CauseEcho, "this check also finds what was never sent: it may only repeat what it is asked for"
			case f.Trouble != "" && !f.notThere, f.Stale != "":
				return ledger.CauseUnchecked, unknown + cmp.Or(f.Trouble, f.Stale)
			}
			return "", ""
		})
		if cause != "" {
			return cause, why
		}
	}
	return "", ""
}

// saysNotThere is how tools say that there is no such thing.
var saysNotThere = lazyregexp.New(`(?i)\b(not[ _-]?found|no such|does(n't| not) exist|unknown|enoent|404|nothing (was )?found|no (results|matches|entries))\b`)

// notThere reports whether an answer says that there is no such thing, so that it
// stands for "nothing found" in a negative control.
func notThere(a ledger.Answer) bool {
	switch {
	case a.Err != nil:
		return false
	case a.Via == "command":
		return a.Exited && a.Exit != 0 && (saysNotThere.Match(a.Stdout) || saysNotThere.Match(a.Stderr))
	case a.Via == "mcp" && a.RPC != nil && !a.RPC.Error:
		return saysNotThere.Match(a.RPC.Result)
	}
	return a.Status == http.StatusNotFound || a.Status == http.StatusGone
}

// positive says why the kind's check may be blind when it found nothing: a
// positive control of this process, begun no earlier than the check itself, must
// find what exists (I6). One from before would not notice a field that was
// renamed or a credential that was exchanged in between, and one of another
// process may have used other credentials.
func (e *reader) positive(ctx context.Context, k *policy.Kind, digest string, since time.Time, eager bool) (ledger.Cause, string) {
	before := e.now().Add(-policy.Skew)
	if k.VisibleWithin != nil {
		before = before.Add(-*k.VisibleWithin)
	}
	rec, err := e.o.Store.ControlCandidate(ctx, k.Name, before)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return ledger.CauseBlind, "this check has never been seen to find anything"
	case err != nil:
		return ledger.CauseUnchecked, "the ledger named nothing to try this check on: " + err.Error()
	case k.VisibleFor != nil && e.now().Sub(rec.Operation.StartedAt) >= *k.VisibleFor-policy.Skew:
		return ledger.CauseUnchecked, "nothing known to have landed is recent enough to try this check on"
	}
	return e.controlled(ctx, "positive\x00"+k.Name+"\x00"+digest, since, eager, func() (ledger.Cause, string) {
		return e.tryPositive(ctx, k, rec, digest, eager)
	})
}

// tryPositive makes and records the read that must find something.
func (e *reader) tryPositive(ctx context.Context, k *policy.Kind, rec ledger.Record, digest string, eager bool) (cause ledger.Cause, why string) {
	f := e.read(ctx, k, rec, turn{func() error { return nil }, true})
	if f.Unasked {
		return ledger.CauseUnchecked, "the control could not be made: " + f.Trouble
	}
	r := ledger.Read{
		ID: ledger.NewID(), OperationID: rec.Operation.ID, Control: true, BeganAt: f.Began, EndedAt: f.Ended,
		Verdict: ledger.CannotTell, Found: len(f.Effects), Receipts: receipts(f.Effects),
		Evidence: f.evidence.json(), Digest: digest, Actor: e.checker().Name,
	}
	switch {
	case len(f.Effects) > 0 && f.Stale != "":
		cause, why = ledger.CauseUnchecked, "the control shows nothing of what the check can find now: "+f.Stale
	case len(f.Effects) > 0:
		if cause, why = e.negative(ctx, k, rec, digest, f.Began, eager, func() error { return nil }); cause != "" {
			why = "the control shows nothing: " + why
			break
		}
		r.Verdict, r.Reason = ledger.Landed, "control: found "+policy.Listed(f.Effects)
	case f.Trouble != "", f.Stale != "":
		cause, why = ledger.CauseUnchecked, "the control could not be made: "+cmp.Or(f.Trouble, f.Stale)
	default:
		cause, why = ledger.CauseBlind, fmt.Sprintf("this check does not find %s either, which is known to have landed", short(rec.Operation))
		if at, err := e.o.Store.Control(ctx, k.Name, digest); err == nil && !at.IsZero() {
			why += "; it last found something at " + at.UTC().Format(time.RFC3339)
		}
	}
	if why != "" {
		r.Cause, r.Reason = cause, why
	}
	e.counted.read(k.Name, r)
	if err := e.o.Store.RecordControl(ctx, r); err != nil {
		return ledger.CauseUnchecked, "the control could not be recorded: " + err.Error()
	}
	return cause, why
}

// changedRequest says why a control does not vouch for a read that was made before
// it: the secret in a file, and with it the account, may have been replaced in
// between. "" when the read would still make the same request.
func changedRequest(k *policy.Kind, rec ledger.Record, f findings) string {
	now, err := k.Read.Request(rec, nil)
	if err != nil || !reflect.DeepEqual(now, f.request) {
		return "what it is asked with was changed in the meantime"
	}
	return ""
}

// short names an operation for a person.
func short(o ledger.Operation) string {
	return cmp.Or(o.Receipt(), o.Title, o.ID)
}
