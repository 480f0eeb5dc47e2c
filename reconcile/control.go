package reconcile

import (
	"cmp"
	"context"
	"net/http"
	"reflect"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/policy"
	"indoubt/policy/verdict"
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

// controls remembers what controls showed, by kind, policy and rendered request. Checks
// made at once share one.
type controls struct {
	mu   sync.Mutex
	made map[string]*control
}

// control is the newest one of its request. Only who has put something into busy may use it.
type control struct {
	busy  chan struct{}
	made  bool
	began time.Duration // by the steady clock
	cause ledger.Cause  // "" when it held
	why   string
}

// of is the control of a request.
func (c *controls) of(key string) *control {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil || len(c.made) >= maxControls {
		c.made = map[string]*control{}
	}
	if c.made[key] == nil {
		c.made[key] = &control{busy: make(chan struct{}, 1)}
	}
	return c.made[key]
}

// controlled makes a control unless one that was begun at since or later held.
// One that failed lately is not tried again, unless a person waits for it.
func (e *reader) controlled(ctx context.Context, key string, since time.Duration, eager bool, try func() (ledger.Cause, string)) (ledger.Cause, string) {
	c := e.controls.of(key)
	select {
	case c.busy <- struct{}{}:
		defer func() { <-c.busy }()
	case <-ctx.Done():
		return ledger.CauseUnchecked, ctx.Err().Error()
	}
	now := e.moment().Steady.At
	switch {
	case !c.made:
	case c.cause == "" && c.began >= since:
		return "", ""
	case c.cause != "" && !eager && now-c.began < controlPause:
		return c.cause, c.why
	}
	c.made, c.began = true, now
	c.cause, c.why = try()
	return c.cause, c.why
}

// negative says why what was found may be an echo of the request, or anything:
// the same request for something that was never sent must find nothing. Where a mark
// is compared too, the result is believed for a minute for the same request apart
// from what is replaced in it, and for no other. Where nothing else tells whose it
// is, the control begins no earlier than the check it speaks for: another side that
// found nothing for a moment would else vouch for what it repeats afterwards.
func (e *reader) negative(ctx context.Context, k *policy.Kind, rec ledger.Record, digest string, began ledger.Moment, eager bool) (ledger.Cause, string) {
	if !k.Read.NeedsNegativeControl(rec) {
		return "", ""
	}
	const unknown = "whether this check also finds what was never sent is not known: "
	questions, err := k.Read.NeverSent(rec)
	if err != nil {
		return ledger.CauseUnchecked, unknown + err.Error()
	}
	since := e.moment().Steady.At - negativeHolds
	if by := k.Read.Identity(); by == verdict.ByAsking || by == verdict.ByState {
		since = began.Steady.At
	}
	for _, q := range questions {
		cause, why := e.controlled(ctx, "negative\x00"+k.Name+"\x00"+digest+"\x00"+q.Key, since, eager, func() (ledger.Cause, string) {
			other, err := q.Record()
			if err != nil {
				return ledger.CauseUnchecked, unknown + err.Error()
			}
			f := e.read(ctx, k, other)
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

// changedRequest says why a read does not vouch for one that was made before
// it: the secret in a file, and with it the account, may have been replaced in
// between. "" when the read would still make the same request.
func changedRequest(k *policy.Kind, rec ledger.Record, f findings) string {
	now, err := k.Read.Request(rec, nil)
	if err != nil || !reflect.DeepEqual(now, f.request) {
		return "what it is asked with was changed in the meantime"
	}
	return ""
}
