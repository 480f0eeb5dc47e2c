package ledgertest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// finding looks operations up in every way there is.
func finding(t *testing.T, open Open) {
	d := newDesk(t, open)
	res := d.begun("k")
	for name, at := range map[string]ledger.Locator{
		"id":      {ID: res.Operation.ID},
		"attempt": {AttemptID: res.Attempt.ID},
		"key":     {Kind: "card.charge", Key: "k"},
	} {
		rec := need.Get(d.s.Read(ctx, at))(d)
		need.Must(d, rec.Operation.ID == res.Operation.ID && rec.Found && rec.Now.Equal(d.clock.Now()),
			"by %s: %s at %s", name, rec.Operation.ID, rec.Now)
	}
	for name, at := range map[string]ledger.Locator{
		"id": {ID: "nobody"}, "attempt": {AttemptID: "nobody"}, "key": {Kind: "card.charge", Key: "nobody"},
		"scope": {Kind: "card.charge", Scope: "another", Key: "k"}, "too short": {ID: "op"},
	} {
		if _, err := d.s.Read(ctx, at); !errors.Is(err, ledger.ErrNotFound) {
			d.Fatalf("by unknown %s: %v, want ErrNotFound", name, err)
		}
	}
	named := func(id string) func(*ledger.BeginRequest) {
		return func(r *ledger.BeginRequest) { r.OperationID = id }
	}
	d.begun("a", named("0193aaaa-1111"))
	d.begun("b", named("0193aaaa-2222"))
	rec := d.read("0193aaaa-2")
	need.Must(d, rec.Operation.Key == "b", "the prefix found %s", rec.Operation.ID)
	// Ids are what their writer wrote. Where none is, small letters are tried.
	d.begun("c", named("INV-1042"), func(r *ledger.BeginRequest) { r.AttemptID = "INV-1042.1" })
	d.begun("d", named("inv-1042@7"))
	for id, want := range map[string]string{"INV-1042": "c", "INV-1": "c", "inv-1042@7": "d", "inv-1": "d", "Inv-1": "d", "0193AAAA-2": "b"} {
		rec := d.read(id)
		need.Must(d, rec.Operation.Key == want, "%s found %s", id, rec.Operation.ID)
	}
	if applied, err := ledger.Settle(ctx, d.s, ledger.SettleRequest{ChangeID: "c-settled", AttemptID: "INV-1042.1", Outcome: ledger.OutcomeCommitted, Actor: billing}); err != nil || applied.After.ID != "INV-1042" {
		d.Fatalf("settle INV-1042.1: %+v, %v", applied.After, err)
	}
	var ambiguous *ledger.AmbiguousError
	if _, err := d.s.Read(ctx, ledger.Locator{ID: "0193"}); !errors.As(err, &ambiguous) || len(ambiguous.IDs) != 2 {
		d.Fatalf("a prefix of two: %v, want both named", err)
	}
	// A % or _ in an id is a letter like any other.
	if _, err := d.s.Read(ctx, ledger.Locator{ID: "0193%"}); !errors.Is(err, ledger.ErrNotFound) {
		d.Fatalf("a wildcard: %v, want ErrNotFound", err)
	}
	if _, err := ledger.Settle(ctx, d.s, ledger.SettleRequest{ChangeID: "x", AttemptID: "nobody", Outcome: ledger.OutcomeUncertain, Actor: billing}); !errors.Is(err, ledger.ErrNotFound) {
		d.Fatalf("settle of nothing: %v, want ErrNotFound", err)
	}
}

// everyHand finds an operation by each person who ever acted on it, and by no one for
// whom only a check was made.
func everyHand(t *testing.T, open Open) {
	d := newDesk(t, open)
	by := func(name string) func(*ledger.Decision) {
		return func(dec *ledger.Decision) { dec.Actor = ledger.Actor{Name: name, Terminal: true} }
	}
	found := func(filter string, tab ledger.Tab) (keys []string) {
		f := need.Get(ledger.ParseFilter(filter))(d)
		page := need.Get(d.s.Page(ctx, ledger.Query{Tab: tab, Filter: f, Now: d.clock.Now()}))(d)
		for _, r := range page.Rows {
			keys = append(keys, r.Key)
		}
		return sorted(keys)
	}
	both := d.decide(d.decide(d.doubt("open"), ledger.VerbDeny, by("omar")), ledger.VerbUndo, by("vera"))
	d.decide(both, ledger.VerbNote, by("sam \n%_"))
	settled := d.decide(d.doubt("settled"), ledger.VerbPark, by("omar"))
	check := d.observation(settled, ledger.Landed, "pi_1")
	check.Actor = ledger.Actor{Name: ledger.ChecksOf("console", "vera"), Machine: true}
	applied := need.Get(ledger.Observe(ctx, d.s, check))(d)
	d.want(applied.After, ledger.Committed)
	d.begun("untouched")
	for _, tc := range []struct {
		filter string
		tab    ledger.Tab
		want   []string
	}{
		{"by:omar", ledger.TabAll, []string{"open", "settled"}}, {"by:OMA", ledger.TabAll, []string{"open", "settled"}},
		{"by:vera", ledger.TabAll, []string{"open"}}, {`by:"sam %_"`, ledger.TabAll, []string{"open"}}, {"by:%", ledger.TabAll, []string{"open"}},
		{"by:checks", ledger.TabAll, []string{"settled"}}, {"by:console", ledger.TabAll, nil}, {"by:billing", ledger.TabAll, []string{"untouched"}},
		{"-by:vera", ledger.TabAll, []string{"settled", "untouched"}}, {"by:omar -by:vera", ledger.TabAll, []string{"settled"}},
	} {
		if got := found(tc.filter, tc.tab); !slices.Equal(got, tc.want) {
			d.Errorf("%s: %q, want %q", tc.filter, got, tc.want)
		}
	}
}

// repeating sends every change twice under one change id: the commit of a
// ledger write can be in doubt too.
func repeating(t *testing.T, open Open) {
	d := newDesk(t, open)
	twice := func(name string, do func() (ledger.Applied, error)) ledger.Operation {
		d.Helper()
		first := need.Get(do())(d)
		need.Must(d, !first.Noop, "%s: the first time was a noop", name)
		before := len(d.events(""))
		d.clock.Advance(time.Second)
		second := need.Get(do())(d)
		if !second.Noop || second.After.ID != first.After.ID || second.After.Version != first.After.Version {
			d.Fatalf("%s: the second time noop=%v at version %d, want a noop at %d", name, second.Noop, second.After.Version, first.After.Version)
		}
		if now := len(d.events("")); now != before {
			d.Fatalf("%s: the second time left %d more events", name, now-before)
		}
		return first.After
	}
	begin := d.request("k")
	for range 2 {
		res := need.Get(ledger.Begin(ctx, d.s, begin))(d)
		if res.Answer != ledger.AnswerBegun || res.Attempt.ID != begin.AttemptID || res.Operation.AttemptCount != 1 {
			d.Fatalf("begin, repeated: %s, attempt %s of %d", res.Answer, res.Attempt.ID, res.Operation.AttemptCount)
		}
	}
	settle := ledger.SettleRequest{ChangeID: d.id("change"), AttemptID: begin.AttemptID, Outcome: ledger.OutcomeUncertain, Actor: billing}
	o := twice("settle", func() (ledger.Applied, error) { return ledger.Settle(ctx, d.s, settle) })
	if res, err := ledger.Begin(ctx, d.s, begin); err != nil || res.Answer == ledger.AnswerBegun {
		d.Fatalf("begin, repeated after its attempt ended: %s (%v): sending now would send twice", res.Answer, err)
	}
	g := d.grantRequest(o, ledger.BasisRiskAccepted)
	o = twice("allow", func() (ledger.Applied, error) { return ledger.Allow(ctx, d.s, g) })
	deny := d.decision(o, ledger.VerbDeny)
	o = twice("deny", func() (ledger.Applied, error) { return ledger.Decide(ctx, d.s, deny) })
	undo := d.decision(o, ledger.VerbUndo)
	o = twice("undo", func() (ledger.Applied, error) { return ledger.Decide(ctx, d.s, undo) })
	ob := d.observation(o, ledger.Twice, "pi_1", "pi_2")
	twice("read", func() (ledger.Applied, error) { return ledger.Observe(ctx, d.s, ob) })
	vague := d.observation(d.doubt("k2"), ledger.CannotTell)
	for range 2 {
		need.Get(ledger.Observe(ctx, d.s, vague))(d)
	}
	if rec := d.read(vague.Read.OperationID); len(rec.Reads) != 1 {
		d.Fatalf("a read that was recorded twice is there %d times", len(rec.Reads))
	}
	hold := ledger.Hold{Scope: "all", Actor: maya, Reason: "stripe is down", ChangeID: d.id("change")}
	before := len(d.events(""))
	for range 2 {
		d.ok(d.s.Hold(ctx, hold))
	}
	lift := d.id("change")
	for range 2 {
		d.ok(d.s.LiftHold(ctx, ledger.Lift{Scope: "all", Actor: maya, Reason: "it is up", ChangeID: lift}))
	}
	if now := len(d.events("")); now != before+2 {
		d.Fatalf("a hold and its release, both repeated, left %d events, want 2", now-before)
	}
}
