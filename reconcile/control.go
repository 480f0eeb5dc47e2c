package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

// controlPause is how long a control that failed is not tried again by itself.
const controlPause = 30 * time.Second

// What a control says of a check that may be blind.
const (
	neverSeen = "this check has never been seen to find anything"
	findsNot  = "this check does not find "
)

// controls remembers, per kind and policy, when the newest positive control
// that held was begun, so that checks made at once share one, and those that
// failed lately, so that a blind check is not put to the test by every operation.
type controls struct {
	making keyed // one at a time
	mu     sync.Mutex
	held   map[string]time.Time
	failed map[string]failedControl
}

type failedControl struct {
	at  time.Time
	why string
}

// control tells whether the kind's check was able to find what exists when it
// found nothing: a positive control of this process, begun no earlier than the
// check itself, holds (I6). One from before would not notice a field that was
// renamed or a credential that was exchanged in between, and one of another
// process may have looked with other credentials. eager makes one even if the
// last has only just failed.
func (e *Engine) control(ctx context.Context, k *policy.Kind, digest string, since time.Time, eager bool) (held bool, why string) {
	if !k.Control {
		return false, "the policy turns off the control that would show whether this check can find anything"
	}
	key := k.Name + "\x00" + digest
	free, err := e.proofs.making.lock(ctx, key)
	if err != nil {
		return false, err.Error()
	}
	defer free()
	if e.proofs.heldSince(key, since) {
		return true, ""
	}
	if last, tried := e.proofs.last(key); tried && !eager && e.now().Sub(last.at) < controlPause {
		return false, last.why
	}
	began := e.now()
	why = e.tryControl(ctx, k, digest, eager)
	e.proofs.note(key, began, failedControl{e.now(), why})
	return why == "", why
}

func (c *controls) heldSince(key string, since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.held[key]
	return ok && !at.Before(since)
}

func (c *controls) last(key string) (failedControl, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.failed[key]
	return f, ok
}

func (c *controls) note(key string, began time.Time, f failedControl) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed, c.held = map[string]failedControl{}, map[string]time.Time{}
	}
	if f.why == "" {
		delete(c.failed, key)
		c.held[key] = began
		return
	}
	delete(c.held, key)
	c.failed[key] = f
}

// askedAlike tells why a control does not vouch for a check that was made before
// it: the secret in a file, and with it the account, may have been exchanged in
// between. "" when the check would still be asked for in the same way.
func askedAlike(k *policy.Kind, rec ledger.Record, f findings) string {
	now, err := k.Read.Request(rec, nil)
	if err != nil || !reflect.DeepEqual(now, f.asked) {
		return "what it is asked with was changed in the meantime"
	}
	return ""
}

// tryControl makes the read that must find something, and returns why it does
// not count; "" when it does.
func (e *Engine) tryControl(ctx context.Context, k *policy.Kind, digest string, eager bool) string {
	now := e.now()
	before := now.Add(-k.Skew)
	if k.VisibleWithin != nil {
		before = before.Add(-*k.VisibleWithin)
	}
	rec, err := e.o.Store.ControlCandidate(ctx, k.Name, before)
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return neverSeen
	case err != nil:
		return "the ledger named nothing to try this check on: " + err.Error()
	case k.VisibleFor != nil && now.Sub(rec.Operation.StartedAt) >= *k.VisibleFor-k.Skew:
		return "nothing known to have landed is recent enough to try this check on"
	}
	f := e.look(ctx, k, rec, func() error { return nil })
	if f.unasked {
		return "the control could not be made: " + f.trouble
	}
	anybodys := ""
	if o := rec.Operation; len(f.effects) > 0 && k.Read.TrustsTheirSearch() && !known(o, f.effects) && !shows(f.effects, o.Token) {
		anybodys = e.asNobody(ctx, k, rec, digest, eager, func() error { return nil })
	}
	id := rec.Operation.ID
	r := ledger.Read{
		ID: ledger.NewID(), OperationID: id, Control: true, BeganAt: f.began, EndedAt: f.ended,
		Verdict: ledger.Inconclusive, Found: len(f.effects), Receipts: receipts(f.effects),
		Evidence: f.evidence.json(), Digest: digest, Actor: e.checker().Name,
	}
	why := ""
	switch {
	case len(f.effects) > 0 && f.stale != "":
		why = "the control shows nothing of what the check can find now: " + f.stale
	case anybodys != "":
		why = "the control shows nothing: " + anybodys
	case len(f.effects) > 0:
		r.Verdict, r.Reason = ledger.Landed, "control: found "+listed(f.effects)
	case f.trouble != "", f.stale != "":
		why = "the control could not be made: " + cmp.Or(f.trouble, f.stale)
	default:
		why = fmt.Sprintf(findsNot+"%s either, which is known to have landed", short(rec.Operation))
		if at, err := e.o.Store.Control(ctx, k.Name, digest); err == nil && !at.IsZero() {
			why += "; it last found something at " + at.UTC().Format(time.RFC3339)
		}
	}
	if why != "" {
		r.Reason = why
	}
	e.counted.read(k.Name, r)
	if err := e.o.Store.RecordControl(ctx, r); err != nil {
		return "the control could not be recorded: " + err.Error()
	}
	return why
}

// short names an operation for a person.
func short(o ledger.Operation) string {
	if r := o.Receipt(); r != "" {
		return r
	}
	if o.Title != "" {
		return o.Title
	}
	return o.ID
}
