package ledgertest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// schedule follows what is due to be read, and prices.
func schedule(t *testing.T, open Open) {
	d := newDesk(t, open)
	of := "" // this downstream
	due := func() []string {
		d.Helper()
		rows := need.Get(d.s.Due(ctx, of, d.clock.Now(), 100))(d)
		var keys []string
		for _, r := range rows {
			keys = append(keys, d.read(r.ID).Operation.Key)
		}
		return keys
	}
	unpriced := func(digest string) []string {
		d.Helper()
		ops := need.Get(d.s.Unpriced(ctx, digest, 100))(d)
		var keys []string
		for _, o := range ops {
			keys = append(keys, o.Key)
		}
		slices.Sort(keys)
		return keys
	}
	a, b, c := d.doubt("a"), d.doubt("b"), d.doubt("c")
	d.settle(d.begun("fine").Attempt.ID, ledger.OutcomeCommitted)
	if got := due(); !slices.Equal(sorted(got), []string{"a", "b", "c"}) {
		d.Fatalf("due are %v, want what is in doubt", got)
	}
	if got := unpriced("p1"); !slices.Equal(got, []string{"a", "b", "c"}) {
		d.Fatalf("unpriced are %v", got)
	}
	now := d.clock.Now()
	price := func(o ledger.Operation, at time.Time) ledger.Pricing {
		return ledger.Pricing{OperationID: o.ID, Digest: "p1", Downstream: "stripe", Title: "charge " + o.Key + " 420.00", Target: "invoice 7",
			Duplicate: ledger.Cost{Value: 840}, Miss: ledger.Cost{Value: 100, Word: "high", Guess: true}, Odds: 0.25, Rank: 75,
			DecideAt: now.Add(time.Hour), ReadAt: at, Reads: 2}
	}
	d.ok(d.s.Price(ctx, []ledger.Pricing{price(a, now.Add(2*time.Minute)), price(b, now.Add(time.Minute)), price(c, ledger.Never)}))
	if got := unpriced("p1"); len(got) != 0 {
		d.Fatalf("still unpriced under p1: %v", got)
	}
	if got := unpriced("p2"); len(got) != 3 {
		d.Fatalf("unpriced under another policy: %v, want all three", got)
	}
	if got, want := d.read(a.ID).Pricing, price(a, now.Add(2*time.Minute)); got != want {
		d.Fatalf("priced as %+v\nread back  %+v", want, got)
	}
	if got := due(); len(got) != 0 {
		d.Fatalf("due before their time: %v", got)
	}
	d.clock.Advance(2 * time.Minute)
	if got := due(); len(got) != 0 {
		d.Fatalf("due of no downstream: %v", got)
	}
	of = "stripe"
	if got := due(); !slices.Equal(got, []string{"b", "a"}) {
		d.Fatalf("due are %v, want the earliest first: b, a", got)
	}
	ob := d.observation(b, ledger.Landed, "pi_1")
	ob.Looks = ledger.Looks{Check: true, Verify: 5 * time.Minute}
	need.Get(ledger.Observe(ctx, d.s, ob))(d)
	if got := due(); !slices.Equal(got, []string{"a"}) {
		d.Fatalf("due are %v, want only a: b has landed", got)
	}
	d.clock.Advance(6 * time.Minute)
	if got := due(); !slices.Equal(sorted(got), []string{"a", "b"}) {
		d.Fatalf("due are %v, want b too: it is to be looked at once more", got)
	}
	d.observe(d.read(b.ID).Operation, ledger.Landed, "pi_1")
	if got := due(); !slices.Equal(got, []string{"a"}) {
		d.Fatalf("due are %v, want only a: b was looked at", got)
	}
	if got := unpriced("p1"); slices.Contains(got, "a") || slices.Contains(got, "c") {
		d.Fatalf("unpriced are %v, though neither a nor c moved", got)
	}
	d.decide(a, ledger.VerbDeny)
	if got := unpriced("p1"); !slices.Contains(got, "a") {
		d.Fatalf("unpriced are %v, want a: it moved", got)
	}

	// What was said of an attempt in flight is not said of the next one.
	flying := d.begun("again")
	d.ok(d.s.Price(ctx, []ledger.Pricing{price(flying.Operation, ledger.Never)}))
	d.settle(flying.Attempt.ID, ledger.OutcomeFailed, func(r *ledger.SettleRequest) { r.Proof = ledger.NeverSent })
	if again := d.begun("again"); again.Operation.ID != flying.Operation.ID {
		d.Fatalf("%s began, want another attempt of %s", again.Operation.ID, flying.Operation.ID)
	}
	d.clock.Advance(time.Minute)
	if got := d.read(flying.Operation.ID); got.Pricing.Rank != 0 || !got.Pricing.DecideAt.IsZero() {
		d.Fatalf("priced as %+v before anyone has", got.Pricing)
	}
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

func marks(t *testing.T, open Open) {
	d := newDesk(t, open)
	begun := func(key, kind, rules string, values ...string) string {
		d.clock.Advance(time.Second)
		return d.begun(key, func(r *ledger.BeginRequest) { r.Kind, r.Marks = kind, ledger.Marks{Rules: rules, Values: values} }).Operation.ID
	}
	by := func(value string, limit int, want ...string) {
		t.Helper()
		got := need.Get(d.s.Marked(ctx, value, limit))(d)
		need.Must(d, slices.Equal(got, want), "marked %q: %v, want %v", value, got, want)
	}
	one, two := begun("1", "card.charge", "invoice", "INV-1", "k-1"), begun("2", "mail", "invoice", "INV-1")
	none, old := begun("3", "card.charge", ""), begun("4", "card.charge", "order", "INV-1")
	begun("5", "other", "")
	by("INV-1", 10, old, two, one)
	by("INV-1", 2, old, two)
	by("", 10)
	rule := func(kind string) string { return map[string]string{"card.charge": "invoice", "mail": "invoice"}[kind] }
	made := 0
	mark := func(o ledger.Operation) ledger.Marks {
		made++
		need.That(d, o.Kind == "card.charge" && o.ID != one,
			"%s has the marks of its rules, and was given others", o.ID)
		return ledger.Marks{Values: []string{"INV-" + o.Key}}
	}
	for more, rounds, waits := true, 0, 0; more || made < 2; {
		if more = need.Get(d.s.Mark(ctx, rule, mark, 1))(d); more {
			rounds++
		} else if made < 2 { // whatever is written elsewhere on the server has to end first
			waits++
			time.Sleep(10 * time.Millisecond)
		}
		need.Must(d, rounds <= 5 && waits < 6000, "%d were marked in %d rounds and %d that waited, want 2", made, rounds, waits)
	}
	need.That(d, made == 2, "%d were marked, want 2", made)
	by("INV-1", 10, old, two, one) // what it was called before is kept
	by("INV-3", 10, none)
	by("INV-4", 10, old)
	by("k-1", 10, one)
	if rec := d.read(none); rec.Operation.MarkRules != "invoice" || rec.Operation.Version != 1 {
		d.Errorf("marked under %q at version %d", rec.Operation.MarkRules, rec.Operation.Version)
	}
}

// A key is found in its scope under its kind; a name of fields, which says what it tells apart,
// under whatever kind it was recorded.
func keys(t *testing.T, open Open) {
	d := newDesk(t, open)
	as := func(kind, scope string) func(*ledger.BeginRequest) {
		return func(r *ledger.BeginRequest) { r.Kind, r.Scope = kind, scope }
	}
	byFields := ledger.FieldsKey("POST /pay", []string{"order"}, strings.Repeat("0", 32))
	first := d.begun(byFields, as("pay", "s")).Operation
	if res := d.begin(byFields, as("renamed", "s")); res.Answer != ledger.AnswerInProgress || res.Operation.ID != first.ID {
		d.Fatalf("under another kind: %s %s", res.Answer, res.Operation.ID)
	}
	d.begun(byFields, as("renamed", "elsewhere"))
	first = d.begun("k", as("pay", "s")).Operation
	d.settle(first.LiveAttempt, ledger.OutcomeCommitted)
	second := d.begun("k", as("renamed", "s")).Operation
	for kind, want := range map[string]string{"pay": first.ID, "renamed": second.ID, "": second.ID} {
		if rec, err := d.s.Read(ctx, ledger.Locator{Kind: kind, AnyKind: kind == "", Scope: "s", Key: "k"}); err != nil || rec.Operation.ID != want {
			d.Errorf("kind %q: %s, %v; want %s", kind, rec.Operation.ID, err, want)
		}
	}
	if _, err := d.s.Read(ctx, ledger.Locator{Scope: "s", Key: "other"}); !errors.Is(err, ledger.ErrNotFound) {
		d.Errorf("a key that no one used: %v", err)
	}
	short := d.begun("short", as("pay", "s"), func(r *ledger.BeginRequest) { r.TTL = time.Minute }).Operation
	d.settle(short.LiveAttempt, ledger.OutcomeCommitted)
	d.clock.Advance(time.Hour)
	if res := d.begun("short", as("pay", "s")); res.Operation.ID == short.ID || d.read(short.ID).Operation.KeyLive {
		d.Errorf("a key that ran out: %+v", res.Operation)
	}
	if ids, err := d.s.Keyed(ctx, "k", 2); err != nil || !slices.Equal(ids, []string{second.ID, first.ID}) {
		d.Errorf("who holds the key: %v, %v", ids, err)
	}
	fields := func(hex string, of ...string) string { return ledger.FieldsKey("pay", of, strings.Repeat(hex, 32)) }
	for _, key := range []string{"fields-", "fields-0", "fields-amount", "fields-amount:", fields("0", "amount"), fields("f", "amount"), fields("a", "b", "a[0].b"), fields("a", "café"), "fields-x" + strings.Repeat("e", 32), "fieldsets"} {
		d.begun(key)
	}
	var lists []string
	for _, name := range need.Get(d.s.FieldNames(ctx))(d) {
		if kind, of := ledger.FieldsOf(name); kind == "pay" {
			lists = append(lists, strings.Join(of, " "))
		}
	}
	need.Equal(d, strings.Join(lists, ", "), "a[0].b b, amount, café")
	by := func(callers map[string]string) func(*ledger.BeginRequest) {
		return func(r *ledger.BeginRequest) {
			r.Request = &ledger.Request{Method: "POST", Origin: "http://h", Callers: callers}
		}
	}
	alice := d.begun("whose", by(map[string]string{"X-User": "a", "Cookie": "1"})).Operation
	need.Equal(d, d.begin("whose", by(nil)).Answer, ledger.AnswerInProgress, "what is in flight holds every caller")
	d.settle(alice.LiveAttempt, ledger.OutcomeCommitted)
	for why, other := range map[string]func(*ledger.BeginRequest){
		"Cookie": by(map[string]string{"X-User": "a"}), "X-User": by(map[string]string{"X-User": "b", "Cookie": "1"}), "Cookie, X-Team, X-User": by(map[string]string{"X-Team": "t"}),
	} {
		if res := d.begin("whose", other); res.Answer != ledger.AnswerNotYours || res.Why != why || res.Operation.ID != alice.ID {
			d.Errorf("another %s: %s %q", why, res.Answer, res.Why)
		}
	}
	for what, own := range map[string]func(*ledger.BeginRequest){"the same": by(map[string]string{"Cookie": "1", "X-User": "a"}), "no HTTP": func(*ledger.BeginRequest) {}} {
		if res := d.begin("whose", own); res.Answer != ledger.AnswerFinished {
			d.Errorf("%s: %s", what, res.Answer)
		}
	}
	blank := d.request(" \t")
	if _, err := ledger.Begin(ctx, d.s, blank); err == nil {
		d.Errorf("a blank key was recorded")
	}
}

// siblings: what a check may find of others, and where they lie in the history.
func siblings(t *testing.T, open Open) {
	d := newDesk(t, open)
	landed := func(key string, also ...func(*ledger.BeginRequest)) ledger.Operation {
		d.clock.Advance(time.Minute)
		return d.settle(d.begun(key, also...).Attempt.ID, ledger.OutcomeCommitted)
	}
	ask := func(q ledger.SiblingQuery) (keys []string, found []ledger.Sibling) {
		q.Kind = "card.charge"
		found = need.Get(d.s.Siblings(ctx, q))(d)
		for _, b := range found {
			keys = append(keys, d.read(b.ID).Operation.Key)
		}
		return keys, found
	}
	none, _ := ask(ledger.SiblingQuery{Before: d.clock.Now(), Limit: 5})
	need.Equal(d, len(none), 0, "of an empty ledger")
	old := landed("old")
	doubt := d.doubt("doubt")
	known := landed("known")
	landed("no token", func(r *ledger.BeginRequest) { r.TokenSent = false })
	byRead := d.observe(d.doubt("by a check"), ledger.Landed, "pi_1")
	other := landed("another kind", func(r *ledger.BeginRequest) { r.Kind = "mail" })
	failed := d.observe(d.doubt("failed"), ledger.NotThere)
	gone := d.decide(d.observe(d.doubt("abandoned"), ledger.NotThere), ledger.VerbAbandon)
	flying := d.begun("in flight").Operation
	answered, _ := ask(ledger.SiblingQuery{Before: d.clock.Now().Add(time.Second), Limit: 5})
	need.Equal(d, strings.Join(answered, " "), "known old", "that landed by their own answer, with their token")
	answered, _ = ask(ledger.SiblingQuery{Before: known.SettledAt, Limit: 5})
	need.Equal(d, strings.Join(answered, " "), "old", "that were settled before")
	answered, _ = ask(ledger.SiblingQuery{Before: d.clock.Now().Add(time.Second), Limit: 1})
	need.Equal(d, strings.Join(answered, " "), "known", "at most one")
	d.decide(old, ledger.VerbNote)
	var tokens []string
	for _, o := range []ledger.Operation{old, doubt, byRead, other, failed, gone, flying} {
		tokens = append(tokens, o.Token)
	}
	named, found := ask(ledger.SiblingQuery{Tokens: append(tokens, "", "indoubt-nobodys"), Limit: 50})
	need.Must(d, strings.Join(named, " ") == "in flight abandoned failed by a check doubt old", "by their tokens: %v", named)
	a, b, c, f := found[5], found[4], found[3], found[0]
	need.That(d, found[1].Failed && found[2].Failed && !a.Failed && !b.Failed && !c.Failed && !f.Failed, "which failed: %+v", found)
	need.That(d, a.Token == old.Token && 0 < a.Began && a.Began < a.Ended && a.Ended < b.Began && b.Ended < c.Began && c.Ended < f.Began && f.Began == f.Ended,
		"a note of a person ends no attempt: %+v", found)
	d.settle(d.retry(doubt, ledger.BasisRiskAccepted).Attempt.ID, ledger.OutcomeUncertain)
	_, found = ask(ledger.SiblingQuery{Tokens: []string{doubt.Token}, Limit: 50})
	need.That(d, len(found) == 1 && found[0].Began == b.Began && found[0].Ended > f.Began, "after another attempt: %+v", found)
}

func holds(t *testing.T, open Open) {
	d := newDesk(t, open)
	scopes := func() []string {
		d.Helper()
		hs := need.Get(d.s.Holds(ctx, d.clock.Now()))(d)
		var out []string
		for _, h := range hs {
			out = append(out, string(h.Scope)+" "+h.Reason)
		}
		slices.Sort(out)
		return out
	}
	d.ok(d.s.Hold(ctx, ledger.Hold{Scope: "all", Actor: maya, Reason: "deploy", Until: d.clock.Now().Add(time.Hour), ChangeID: d.id("change")}))
	d.ok(d.s.Hold(ctx, ledger.Hold{Scope: "downstream:stripe", Kinds: []string{"card.charge", "card.refund"}, Actor: maya, Reason: "down", ChangeID: d.id("change")}))
	d.ok(d.s.Hold(ctx, ledger.Hold{Scope: "downstream:stripe", Kinds: []string{"card.charge"}, Actor: maya, Reason: "still down", ChangeID: d.id("change")}))
	if got := scopes(); !slices.Equal(got, []string{"all deploy", "downstream:stripe still down"}) {
		d.Fatalf("holds are %v: a hold on the same scope is replaced", got)
	}
	hs := need.Get(d.s.Holds(ctx, d.clock.Now()))(d)
	i := slices.IndexFunc(hs, func(h ledger.Hold) bool { return h.Scope == "downstream:stripe" })
	if h := hs[i]; h.Actor != maya || !slices.Equal(h.Kinds, []string{"card.charge"}) || h.CreatedAt.IsZero() || !h.Until.IsZero() {
		d.Fatalf("read back %+v", h)
	}
	o := d.doubt("k")
	if rec := d.read(o.ID); rec.HeldBy() == nil || len(rec.Holds) != 2 {
		d.Fatalf("the record knows holds %+v", rec.Holds)
	}
	d.clock.Advance(time.Hour)
	if got := scopes(); !slices.Equal(got, []string{"downstream:stripe still down"}) {
		d.Fatalf("holds are %v: the other's time is over", got)
	}
	d.ok(d.s.LiftHold(ctx, ledger.Lift{Scope: "downstream:stripe", Actor: maya, Reason: "it is up", ChangeID: d.id("change")}))
	if got := scopes(); len(got) != 0 {
		d.Fatalf("holds are %v after the release", got)
	}
	notHeld := ledger.Lift{Scope: "kind:mail", Actor: maya, Reason: "it is up", ChangeID: d.id("change")}
	d.ok(d.s.LiftHold(ctx, notHeld)) // nothing happens
	var verbs []string
	for _, e := range d.events("") {
		if e.OperationID == "" {
			verbs = append(verbs, e.Verb)
		}
	}
	need.Must(d, slices.Equal(verbs, []string{"hold", "hold", "hold", "release"}), "events are %v", verbs)
}
