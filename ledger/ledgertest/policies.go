package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// policies: what was put in force last is the same for every process, stands in the
// history, and is what "not there" is said under.
func policies(t *testing.T, open Open) {
	d := newDesk(t, open)
	none := need.Get(d.s.Policy(ctx, ledger.PolicyText{}))(d)
	need.That(d, none.Number == 0 && none.Digest == "", "%+v before any", none)
	apply := func(number int64, digest, text string) (ledger.PolicyText, error) {
		p := ledger.PolicyText{Number: number, Digest: digest, Text: text,
			Actor: maya, Reason: "to try it", ChangeID: d.id("change")}
		return p, d.s.ApplyPolicy(ctx, p)
	}
	o := d.doubt("before any")
	d.want(d.observe(o, ledger.NotThere), ledger.Failed) // nothing is in force that could say otherwise
	first, err := apply(1, "d1", "version: 1\n# ☃ 'quoted'\n")
	d.ok(err)
	d.ok(d.s.ApplyPolicy(ctx, first)) // again: it is there
	got := need.Get(d.s.Policy(ctx, ledger.PolicyText{}))(d)
	need.That(d, got.Number == 1 && got.Digest == "d1" && got.Text == first.Text && got.Actor == maya && got.Reason == "to try it" && !got.At.IsZero(), "%+v", got)
	got.Text = ""
	need.That(d, need.Get(d.s.Policy(ctx, got))(d).Text == "", "the text again for one who has them")
	for _, number := range []int64{0, 1, 3} {
		_, err := apply(number, "d2", "version: 1\n")
		need.That(d, errors.Is(err, ledger.ErrRefused), "number %d: %v", number, err)
	}
	d.clock.Advance(time.Second)
	_, err = apply(2, "d2", "version: 1\n")
	d.ok(err)
	need.Equal(d, need.Get(d.s.Policy(ctx, got))(d).Number, 2)
	var numbers []int64
	for _, e := range d.events("") {
		if e.Verb == ledger.PolicyApplied {
			numbers = append(numbers, e.Version)
		}
	}
	need.That(d, slices.Equal(numbers, []int64{1, 2}), "in the history are %v", numbers)

	// A begin that names an older one is refused, and one that names none is not.
	for policy, refused := range map[int64]bool{0: false, 1: true, 2: false} {
		q := d.request(fmt.Sprint("under ", policy))
		q.Policy = policy
		_, err := ledger.Begin(ctx, d.s, q)
		need.That(d, ledger.ByOlder(err) == refused && (err != nil) == refused, "under %d: %v", policy, err)
	}

	// What an older one, or none, says proves nothing; what was found is kept.
	o = d.doubt("after it")
	for _, digest := range []string{"d1", ""} {
		ob := d.observation(o, ledger.NotThere)
		ob.Read.Digest = digest
		_, err := ledger.Observe(ctx, d.s, ob)
		need.That(d, err != nil && strings.Contains(err.Error(), "another one is in force"), "not there, by %q: %v", digest, err)
		d.want(d.read(o.ID).Operation, ledger.Uncertain)
	}
	ob := d.observation(o, ledger.CannotTell)
	ob.Read.Digest = "d1"
	need.Get(ledger.Observe(ctx, d.s, ob))(d)
	ob = d.observation(o, ledger.NotThere)
	ob.Read.Digest = "d2"
	need.Get(ledger.Observe(ctx, d.s, ob))(d)
	d.want(d.read(o.ID).Operation, ledger.Failed)
}

// notices: however many engines say it, one is the first.
func notices(t *testing.T, open Open) {
	d := newDesk(t, open)
	var first atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			told, err := d.s.Tell(ctx, ledger.Event{ID: ledger.DeriveID("o", "notify.oncall"), Verb: ledger.NoticeTold,
				Actor: ledger.Actor{Name: ledger.ActorNotify, Machine: true}, Reason: "tell oncall: it's down", Detail: []byte(`{"n":1}`)})
			if err != nil {
				t.Error(err)
			} else if told {
				first.Add(1)
			}
		})
	}
	all.Wait()
	events := d.events("")
	need.That(d, first.Load() == 1 && len(events) == 1, "%d were the first, %+v", first.Load(), events)
	e := events[0]
	need.That(d, e.Verb == ledger.NoticeTold && e.Reason == "tell oncall: it's down" && !e.At.IsZero() && strings.Contains(string(e.Detail), `"n"`), "%+v", e)
}
