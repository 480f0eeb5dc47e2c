package ledgertest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// origin is a state of an operation and how one gets there.
type origin struct {
	name string
	make func(d *desk, key string) ledger.Operation
}

var origins = []origin{
	{"pending", func(d *desk, key string) ledger.Operation { return d.begun(key).Operation }},
	{"overdue", func(d *desk, key string) ledger.Operation {
		o := d.begun(key).Operation
		d.clock.Advance(2 * time.Minute)
		return o
	}},
	{"committed", func(d *desk, key string) ledger.Operation {
		return d.settle(d.begun(key).Attempt.ID, ledger.OutcomeCommitted, withReceipt("pi_"+key))
	}},
	{"refused", func(d *desk, key string) ledger.Operation {
		return d.settle(d.begun(key).Attempt.ID, ledger.OutcomeFailed)
	}},
	{"denied", func(d *desk, key string) ledger.Operation { return d.decide(d.doubt(key), ledger.VerbDeny) }},
	{"not there", func(d *desk, key string) ledger.Operation { return d.observe(d.doubt(key), ledger.NotThere) }},
	{"uncertain", func(d *desk, key string) ledger.Operation { return d.doubt(key) }},
	{"abandoned", func(d *desk, key string) ledger.Operation { return d.decide(d.doubt(key), ledger.VerbAbandon) }},
	{"abandoned, not there", func(d *desk, key string) ledger.Operation {
		return d.decide(d.observe(d.doubt(key), ledger.NotThere), ledger.VerbAbandon)
	}},
}

// act is something that is tried on an operation in every state. It returns
// the operation after, and what refused it.
type act struct {
	name string
	try  func(d *desk, o ledger.Operation, key string) (ledger.Operation, error)
	// to is the state it leads to, by origin; what is missing must be refused, or
	// for a begin be answered, without a change.
	to map[string]ledger.State
}

var errAnswered = errors.New("answered without a change")

func deciding(v ledger.Verb) func(*desk, ledger.Operation, string) (ledger.Operation, error) {
	return func(d *desk, o ledger.Operation, _ string) (ledger.Operation, error) {
		applied, err := ledger.Decide(ctx, d.s, d.decision(o, v))
		return applied.After, err
	}
}

func reading(v ledger.Verdict, receipts ...string) func(*desk, ledger.Operation, string) (ledger.Operation, error) {
	return func(d *desk, o ledger.Operation, _ string) (ledger.Operation, error) {
		applied, err := ledger.Observe(ctx, d.s, d.observation(o, v, receipts...))
		return applied.After, err
	}
}

func sending(b ledger.Basis) func(*desk, ledger.Operation, string) (ledger.Operation, error) {
	return func(d *desk, o ledger.Operation, _ string) (ledger.Operation, error) {
		g := d.grantRequest(o, b)
		g.Sender, g.AttemptID, g.Deadline = "http", d.id("attempt"), time.Minute
		applied, err := ledger.Allow(ctx, d.s, g)
		return applied.After, err
	}
}

type moves = map[string]ledger.State

var acts = []act{
	{"begin", func(d *desk, o ledger.Operation, key string) (ledger.Operation, error) {
		res, err := ledger.Begin(ctx, d.s, d.request(key))
		if err == nil && res.Answer != ledger.AnswerBegun && res.Operation.State == o.State {
			err = errAnswered
		}
		return res.Operation, err
	}, moves{"overdue": ledger.Uncertain, "refused": ledger.Pending, "not there": ledger.Pending}},
	{"confirm", deciding(ledger.VerbConfirm), moves{"overdue": ledger.Committed, "uncertain": ledger.Committed}},
	{"deny", deciding(ledger.VerbDeny), moves{"overdue": ledger.Failed, "uncertain": ledger.Failed}},
	{"abandon", deciding(ledger.VerbAbandon), moves{"overdue": ledger.Abandoned, "uncertain": ledger.Abandoned,
		"refused": ledger.Abandoned, "denied": ledger.Abandoned, "not there": ledger.Abandoned}},
	{"undo", deciding(ledger.VerbUndo), moves{"committed": ledger.Uncertain, "refused": ledger.Uncertain, "denied": ledger.Uncertain,
		"not there": ledger.Uncertain, "abandoned": ledger.Uncertain, "abandoned, not there": ledger.Failed}},
	{"park", deciding(ledger.VerbPark), moves{"overdue": ledger.Uncertain, "uncertain": ledger.Uncertain,
		"refused": ledger.Failed, "denied": ledger.Failed, "not there": ledger.Failed}},
	{"ack", deciding(ledger.VerbAck), nil},
	{"read landed", reading(ledger.Landed, "pi_9"), moves{"uncertain": ledger.Committed}},
	{"read not there", reading(ledger.NotThere), moves{"uncertain": ledger.Failed}},
	{"send, proven not there", sending(ledger.BasisProof), moves{"refused": ledger.Pending, "not there": ledger.Pending}},
	{"send, key remembered", sending(ledger.BasisKeySafe), moves{"overdue": ledger.Pending, "uncertain": ledger.Pending,
		"refused": ledger.Pending, "denied": ledger.Pending, "not there": ledger.Pending}},
	{"send at own risk", sending(ledger.BasisRiskAccepted), moves{"overdue": ledger.Pending, "uncertain": ledger.Pending,
		"refused": ledger.Pending, "denied": ledger.Pending, "not there": ledger.Pending}},
	{"expire", func(d *desk, o ledger.Operation, _ string) (ledger.Operation, error) {
		_, err := d.s.Expire(ctx, 100)
		return d.read(o.ID).Operation, err
	}, moves{"overdue": ledger.Uncertain}},
}

// states tries everything in every state: what the table of transitions names
// happens and leaves one event, everything else is refused and leaves none.
func states(t *testing.T, open Open) {
	d := newDesk(t, open)
	for _, from := range origins {
		for _, a := range acts {
			t.Run(fmt.Sprintf("%s/%s", from.name, a.name), func(t *testing.T) {
				d := &desk{failer: t, s: d.s, clock: d.clock, n: d.n}
				key := from.name + " " + a.name
				o := from.make(d, key)
				before := d.read(o.ID)
				events := d.events(o.ID)
				after, err := a.try(d, o, key)
				d.clock.Advance(time.Second)
				now := d.read(o.ID)
				to, allowed := a.to[from.name]
				switch {
				case allowed && err != nil:
					d.Fatalf("%v, want it to become %s", err, to)
				case allowed:
					d.want(now.Operation, to)
					d.want(after, to)
					added := d.events(o.ID)[len(events):]
					need.Must(d, len(added) != 0, "it became %s and no event says so (I8)", to)
					if last := added[len(added)-1]; last.To != to || last.Version != now.Operation.Version || last.Actor.Name == "" || last.Reason == "" {
						d.Fatalf("the event is %+v, want one that leads to %s at version %d and says who and why", last, to, now.Operation.Version)
					}
				default:
					// Trying may write down that a deadline has passed, and nothing else.
					if want := before.Operation.StateAt(now.Now); now.Operation.StateAt(now.Now) != want {
						d.Fatalf("it became %s, want it to stay %s", now.Operation.State, want)
					}
				}
				d.n += 1000
			})
			d.n += 10_000
		}
	}
	t.Run("settled by its attempt", func(t *testing.T) { settling(t, d) })
}

// settling walks the transitions that an attempt's own answer makes, alone and
// beside an earlier attempt in doubt.
func settling(t *testing.T, d *desk) {
	for _, tt := range []struct {
		earlier string // what became of an attempt before, if there was one
		outcome ledger.Outcome
		want    ledger.State
	}{
		{"", ledger.OutcomeCommitted, ledger.Committed},
		{"", ledger.OutcomeFailed, ledger.Failed},
		{"", ledger.OutcomeUncertain, ledger.Uncertain},
		{"in doubt", ledger.OutcomeCommitted, ledger.Committed},
		{"in doubt", ledger.OutcomeFailed, ledger.Uncertain},
		{"in doubt", ledger.OutcomeUncertain, ledger.Uncertain},
		{"refused", ledger.OutcomeCommitted, ledger.Committed},
		{"refused", ledger.OutcomeFailed, ledger.Failed},
		{"refused", ledger.OutcomeUncertain, ledger.Uncertain},
	} {
		t.Run(fmt.Sprintf("%s then %s", tt.earlier, tt.outcome), func(t *testing.T) {
			d := &desk{failer: t, s: d.s, clock: d.clock, n: d.n}
			key := "settle " + tt.earlier + string(tt.outcome)
			var attempt string
			switch tt.earlier {
			case "":
				attempt = d.begun(key).Attempt.ID
			case "in doubt":
				attempt = d.retry(d.doubt(key), ledger.BasisRiskAccepted).Attempt.ID
			case "refused":
				d.settle(d.begun(key).Attempt.ID, ledger.OutcomeFailed)
				attempt = d.begun(key).Attempt.ID
			}
			o := d.settle(attempt, tt.outcome)
			d.want(o, tt.want)
			need.Must(d, o.LiveAttempt == "" && o.DeadlineAt.IsZero(),
				"nothing is in flight any more, yet live attempt is %q and deadline %s", o.LiveAttempt, o.DeadlineAt)
			if got := d.read(o.ID).Operation; got.State != o.State || got.Version != o.Version {
				d.Fatalf("read back %s at version %d, want %s at %d", got.State, got.Version, o.State, o.Version)
			}
		})
		d.n += 10_000
	}
}
