package ticket

import (
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy"
	"indoubt/policy/advice"
)

// What landed instead is named wherever the row is told, with the act that ends it, and
// nothing there says to gamble, to wait or to send it again.
func TestWhatIsOvertakenSaysWhatLandedInstead(t *testing.T) {
	p := need.Get(policy.Parse("p.yaml", []byte("version: 1\nkinds:\n  pay: { cost: { duplicate: 24000, miss: 12000 } }\n")))(t)
	past := advice.History([]ledger.DoubtCount{{Kind: "pay", Class: ledger.ClassTimeout, Landed: 30, Missed: 30}})
	judge := ByPolicy(func() *policy.Policy { return p.WithHistory(past) })
	for name, c := range map[string]struct {
		later  ledger.State
		says   string
		change func(*ledger.Record)
	}{
		"in doubt, landed":         {ledger.Committed, "deploy web 43 landed instead, ", func(*ledger.Record) {}},
		"in doubt, may have":       {ledger.Uncertain, "deploy web 43 may have landed instead, ", func(*ledger.Record) {}},
		"did not land, and landed": {ledger.Committed, "deploy web 43 landed instead, ", func(r *ledger.Record) { r.Operation.State, r.Attempts[0].Proof = ledger.Failed, ledger.ProofNotThere }},
	} {
		o := operation(func(r *ledger.Record) {
			r.Operation.ErrorClass = ledger.ClassTimeout
			r.Related = []ledger.Relation{{ID: "2", Title: "deploy web 43", State: c.later, Overtook: true, MayHaveLanded: true, CreatedAt: at.Add(-time.Minute)}}
			c.change(r)
		})
		o = From(*o.Record, judge, at, time.UTC)
		verb, why := o.Advice()
		need.Must(t, verb == advice.Abandon && strings.Contains(why.String(), "deploy web 43"), "%s: %s, %s", name, verb, why)
		need.Equal(t, o.Do().String(), "abandon", name)
		clocks, _ := o.Clocks()
		need.Must(t, len(clocks) == 1, "%s: clocks %v", name, clocks)
		need.Contains(t, clocks[0].String(), "none: "+c.says)
		need.Equal(t, o.Price(whole).String(), "", name)
		need.Must(t, o.HowTo()[0].String() == "A ends it: no one sends it any more. What landed instead stays", "%s: %v", name, o.HowTo())
		if known, _ := o.Known(); o.State() == ledger.Uncertain {
			need.Contains(t, known.String(), c.says)
		}
	}
}

// What a person is told of the same request is what its caller will be told.
func TestTheSameAgain(t *testing.T) {
	for want, c := range map[string]struct {
		key      string
		ttl      time.Duration
		replaces bool
	}{
		"the same again is refused for good":                                      {key: "INV-1"},
		"the same again is refused for 7d":                                        {key: "INV-1", ttl: 7 * 24 * time.Hour},
		"the same again is refused for a day after it was sent":                   {key: ledger.InputKey(strings.Repeat("a", 32))},
		"the same again is refused for good, or until another one has its target": {key: "v7", replaces: true},
	} {
		o := operation(func(r *ledger.Record) { r.Operation.Key, r.Operation.TTL = c.key, c.ttl })
		o.Facts.Replaces = c.replaces
		need.Equal(t, o.SameAgain().String(), want)
	}
}
