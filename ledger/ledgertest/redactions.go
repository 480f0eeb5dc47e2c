package ledgertest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

func redactions(t *testing.T, open Open) {
	t.Run("Nothing", func(t *testing.T) { redactsAll(t, open) })
	t.Run("Refused", func(t *testing.T) { redactionRefused(t, open) })
	t.Run("I4_SameKey", func(t *testing.T) { redactedKey(t, open) })
	t.Run("I11_Keyed", func(t *testing.T) { redactedUnderTheKey(t, open) })
	t.Run("I9_LateTruth", func(t *testing.T) { redactedLate(t, open) })
	t.Run("I4_Overtakes", func(t *testing.T) { redactionOvertakes(t, open) })
	t.Run("OpenRun", func(t *testing.T) { redactedBesideARun(t, open) })
}

// personal is in every text that the operation of a key has.
func personal(key string) string { return "Jane.Doe@" + key + ".example" }

// intimate is an operation that has personal text wherever one can be, settled.
func (d *desk) intimate(key string) ledger.Operation {
	d.Helper()
	personal := personal(key)
	o := d.doubt(key, func(r *ledger.BeginRequest) {
		r.Title, r.Target, r.Session, r.Marks = "mail to "+personal, "box "+personal, "of "+personal, ledger.Marks{Rules: "m1", Values: []string{"m " + personal}}
		r.Input = json.RawMessage(`{"to": ["` + personal + `"]}`)
		r.Command = &ledger.Command{Argv: []string{"mail", personal}}
		r.Request = &ledger.Request{Method: "POST", Origin: "https://api", Body: personal}
	})
	run := ledger.DecisionRun{ID: d.id("run"), Verb: "deny", Actor: maya, CreatedAt: d.clock.Now(), Digest: "d",
		Terms: ledger.RunTerms{Reason: "asked " + personal, Reference: personal, Receipts: []string{personal}}}
	item := ledger.RunItem{OperationID: o.ID, Version: o.Version, Kind: o.Kind, Title: o.Title}
	run, _, err := d.s.Run(ctx, run, []ledger.RunItem{item})
	d.ok(err)
	o = d.decide(o, ledger.VerbDeny, func(c *ledger.Decision) { c.Reason = "she says: " + personal })
	item.Came, item.Word = ledger.CameSkipped, personal
	a := ledger.RunAdvance{Actor: maya, Item: &item}
	_, err = d.s.ChangeRun(ctx, run, a.Rule)
	d.ok(err)
	o = d.decide(o, ledger.VerbUndo, func(c *ledger.Decision) { c.Reason = "not so: " + personal })
	o = d.observe(o, ledger.Landed, "r "+personal)
	return d.decide(o, ledger.VerbConfirm, func(c *ledger.Decision) { c.Reason = "found by " + personal })
}

// everything is all that a store says, but for keys.
func (d *desk) everything() string {
	d.Helper()
	var out []any
	page, err := d.s.Page(ctx, ledger.Query{Tab: ledger.TabAll, Now: d.clock.Now(), Limit: 100})
	d.ok(err)
	for _, row := range page.Rows {
		rec := d.read(row.ID)
		rec.Operation.Key = ""
		row.Key = ""
		out = append(out, rec, row)
	}
	events := need.Get(d.s.History(ctx, ledger.HistoryQuery{Limit: 10_000}))(d)
	runs := need.Get(d.s.Runs(ctx, ledger.RunQuery{Limit: 100}))(d)
	for _, r := range runs {
		_, items, err := d.s.Account(ctx, r.ID)
		d.ok(err)
		out = append(out, r, items)
	}
	text := need.Get(json.Marshal([]any{out, events}))(d)
	return string(text)
}

// No text is left, and all that is counted, decided and proven is.
func redactsAll(t *testing.T, open Open) {
	d := newDesk(t, open)
	o, other := d.intimate("k"), d.intimate("other")
	d.done("last")
	before, history := d.read(o.ID), d.events(o.ID)
	counts := func() string {
		states := need.Get(d.s.StateCounts(ctx, d.clock.Now()))(d)
		doubts := need.Get(d.s.DoubtCounts(ctx))(d)
		return fmt.Sprint(sortStateCounts(states), sortDoubtCounts(doubts))
	}
	counted := counts()
	if was := strings.Count(d.everything(), personal("k")); was < 15 {
		t.Fatalf("%d texts", was)
	}
	p := d.decision(o, ledger.VerbRedact)
	p.Reason = "erasure request 7"
	applied := need.Get(ledger.Decide(ctx, d.s, p))(d)
	if left := d.everything(); strings.Contains(left, personal("k")) || strings.Count(left, personal("other")) < 15 {
		t.Errorf("%d texts are left, and %d of another operation", strings.Count(left, personal("k")), strings.Count(left, personal("other")))
	}
	if again, err := ledger.Decide(ctx, d.s, p); err != nil || !again.Noop {
		t.Errorf("the same again: %+v %v", again, err)
	}
	recordStays(d, before, d.read(o.ID), applied.Before.Version)
	historyStays(d, history, d.events(o.ID))
	if after := counts(); after != counted {
		t.Errorf("counted %s, before %s", after, counted)
	}
	if ids, err := d.s.Marked(ctx, "m "+personal("k"), 5); err != nil || len(ids) != 1 || ids[0] != o.ID {
		t.Errorf("by its mark: %v %v", ids, err)
	}
	if page, err := d.s.Page(ctx, ledger.Query{Tab: ledger.TabAll, Now: d.clock.Now(), Limit: 100, Filter: d.filter("Jane.Doe")}); err != nil || len(page.Rows) != 1 || page.Rows[0].ID != other.ID {
		t.Errorf("a search finds %+v %v", page.Rows, err)
	}
}

// masked is what is left of a text.
func (d *desk) masked(text string) string {
	return ledger.Mask(need.Get(d.s.DigestKey(ctx))(d)).Text(text)
}

// recordStays compares a record with what it was before it was redacted.
func recordStays(d *desk, before, rec ledger.Record, version int64) {
	d.Helper()
	a := rec.Operation
	if a.State != before.Operation.State || a.Version != version+1 || a.Effects != before.Operation.Effects || a.Fingerprint != before.Operation.Fingerprint || a.Token != before.Operation.Token ||
		a.Key != before.Operation.Key || a.RedactedBy != maya.Name || !a.RedactedAt.Equal(a.UpdatedAt) || a.Title != ledger.Marker || string(a.Input) != `"[redacted]"` ||
		a.Receipt() != d.masked("r "+personal("k")) || a.Target != d.masked("box "+personal("k")) || a.Command != nil || a.Request != nil {
		d.Errorf("%+v", a)
	}
	need.That(d, len(rec.Attempts) == len(before.Attempts) && len(rec.Reads) == len(before.Reads) && rec.Reads[0].Verdict == ledger.Landed, "%+v, before %+v", rec, before)
}

// historyStays compares a history with what it was before.
func historyStays(d *desk, history, now []ledger.Event) {
	d.Helper()
	for i, e := range history {
		e.Reason, e.Detail, now[i].Reason, now[i].Detail = "", nil, "", nil
		need.That(d, fmt.Sprint(e) == fmt.Sprint(now[i]), "who did what when: %+v, before %+v", now[i], e)
	}
	last := now[len(now)-1]
	if len(now) != len(history)+1 || last.Verb != "redact" || last.Reason != "erasure request 7" || last.Actor.Name != maya.Name {
		d.Errorf("%+v", last)
	}
}

// A run of the same outage that is not over keeps the words by which it goes on.
func redactedBesideARun(t *testing.T, open Open) {
	d := newDesk(t, open)
	said := func(r *ledger.BeginRequest) { r.Input = json.RawMessage(`{"to": "` + personal("k") + `"}`) }
	o, other, third := d.doubt("k", said), d.doubt("l"), d.doubt("m")
	in := d.outages()
	need.Must(d, len(in) == 1, "%d outages", len(in))
	item := func(o ledger.Operation, n int) ledger.RunItem {
		return ledger.RunItem{N: n, OperationID: o.ID, Version: o.Version, Kind: o.Kind}
	}
	r, _, err := d.s.Run(ctx, ledger.DecisionRun{ID: d.id("run"), Verb: "deny", Actor: maya, CreatedAt: d.clock.Now(),
		Terms: ledger.RunTerms{Outage: in[0].ID, Reason: "she says " + personal("k"), Reference: "re_7"}}, []ledger.RunItem{item(other, 0), item(third, 1)})
	d.ok(err)
	o = d.decide(o, ledger.VerbDeny)
	d.decide(o, ledger.VerbRedact, func(c *ledger.Decision) { c.Reason = "request 7" })
	after, _, err := d.s.Account(ctx, r.ID)
	d.ok(err)
	need.Equal(d, fmt.Sprint(after.Terms), fmt.Sprint(r.Terms))
}

// It is for a person, for a reason, and for what no one needs the text of.
func redactionRefused(t *testing.T, open Open) {
	d := newDesk(t, open)
	refused := func(code string, o ledger.Operation, mod ...func(*ledger.Decision)) {
		d.Helper()
		p := d.decision(o, ledger.VerbRedact)
		for _, m := range mod {
			m(&p)
		}
		_, err := ledger.Decide(ctx, d.s, p)
		var no *ledger.RefusedError
		need.That(d, errors.As(err, &no) && no.Code == code, "%s: %v", code, err)
	}
	refused("in_progress", d.begun("flying").Operation)
	refused("in_doubt", d.doubt("doubt"))
	refused("conflict", d.observe(d.doubt("conflict"), ledger.Twice, "pi_1", "pi_2"))
	o := d.done("done")
	refused("incomplete", o, func(p *ledger.Decision) { p.Reason = " " })
	refused("no_person", o, func(p *ledger.Decision) { p.Actor = engine })
	if _, err := ledger.Decide(ctx, d.s, ledger.Decision{ChangeID: d.id("c"), ID: o.ID, Version: o.Version + 1, Verb: ledger.VerbRedact, Reason: "r", Actor: maya}); !errors.As(err, new(*ledger.MovedError)) {
		t.Errorf("I7: another version: %v", err)
	}
	on := func(r *ledger.BeginRequest) { r.Target = "web" }
	earlier := d.doubt("earlier", on)
	d.clock.Advance(time.Second)
	later := d.done("later", on)
	refused("refused", later)
	earlier = d.decide(earlier, ledger.VerbDeny)
	refused("refused", later)
	earlier = d.decide(earlier, ledger.VerbRedact)
	d.decide(later, ledger.VerbRedact)
	_, err := ledger.Allow(ctx, d.s, ledger.AllowRequest{ChangeID: d.id("c"), AllowID: d.id("g"), OperationID: earlier.ID, Version: earlier.Version, Sender: "pipeline", Basis: ledger.BasisRiskAccepted,
		Actor: maya, Reason: "again", ExpiresAt: d.clock.Now().Add(time.Hour)})
	if no := new(ledger.RefusedError); !errors.As(err, &no) || no.Code != "redacted" {
		t.Errorf("another send: %v", err)
	}
}

// The key and the fingerprint still refuse what they refused, the key also where only its digest is left.
func redactedKey(t *testing.T, open Open) {
	d := newDesk(t, open)
	for _, digest := range []bool{false, true} {
		key := fmt.Sprint(personal("k"), digest)
		o := d.decide(d.done(key), ledger.VerbRedact, func(p *ledger.Decision) { p.Key = digest })
		if got := d.read(o.ID).Operation.Key; (got == key) == digest {
			t.Errorf("the key is %s", got)
		}
		if res := d.begin(key); res.Answer != ledger.AnswerFinished || res.Operation.ID != o.ID || res.Operation.Result != nil {
			t.Errorf("the same key again is %s of %s", res.Answer, res.Operation.ID)
		}
		if held := d.read(o.ID); len(held.Attempts) != 1 {
			t.Errorf("the same key again has made %d attempts", len(held.Attempts))
		}
		need.Equal(t, d.begin(key, func(r *ledger.BeginRequest) { r.Fingerprint = "other" }).Answer, ledger.AnswerKeyReused, "I4: the same key with another input")
		if ids, err := d.s.Keyed(ctx, key, 5); err != nil || len(ids) != 1 || ids[0] != o.ID {
			t.Errorf("by its key: %v %v", ids, err)
		}
	}
}

// I11: who has the ledger but not its key cannot find a short text by trying all there are.
func redactedUnderTheKey(t *testing.T, open Open) {
	d := newDesk(t, open)
	const key, target, receipt, mark = "order-123", "invoice 7", "pi_1", "cus_9"
	o := d.doubt(key, func(r *ledger.BeginRequest) {
		r.Target, r.Marks = target, ledger.Marks{Rules: "m1", Values: []string{mark}}
	})
	o = d.decide(d.observe(o, ledger.Landed, receipt), ledger.VerbRedact, func(c *ledger.Decision) { c.Key = true })
	rec := d.read(o.ID)
	all := d.everything() + rec.Operation.Key
	for _, text := range []string{key, target, receipt, mark} {
		sum := sha256.Sum256([]byte(text))
		need.That(t, !strings.Contains(all, hex.EncodeToString(sum[:16])), "the digest of %q needs no key: %s", text, all)
		need.That(t, d.masked(text) != ledger.Mask("another key").Text(text) && ledger.IsMasked(d.masked(text)), "%s", d.masked(text))
	}
	need.Equal(t, [3]string{rec.Operation.Key, rec.Operation.Target, rec.Operation.Receipt()},
		[3]string{d.masked(key), d.masked(target), d.masked(receipt)})
	if ids, err := d.s.Marked(ctx, mark, 5); err != nil || len(ids) != 1 || ids[0] != o.ID {
		t.Errorf("by its mark: %v %v", ids, err)
	}
}

// An answer that says what is known changes nothing; one that says something else is disputed.
func redactedLate(t *testing.T, open Open) {
	d := newDesk(t, open)
	o := d.decide(d.observe(d.doubt("k"), ledger.Landed, "pi_1"), ledger.VerbRedact)
	attempt := d.read(o.ID).Attempts[0].ID
	same := d.settle(attempt, ledger.OutcomeCommitted, withReceipt("pi_1"))
	need.That(t, same.Conflict == ledger.NoConflict && same.Effects == 1, "the same receipt: %+v", same)
	if other := d.observe(same, ledger.Landed, "pi_2"); other.Conflict == ledger.NoConflict {
		t.Errorf("another receipt: %+v", other)
	}
}

// An earlier operation that may be sent again must know that it was overtaken.
func redactionOvertakes(t *testing.T, open Open) {
	d := newDesk(t, open)
	on := func(r *ledger.BeginRequest) { r.Target = "web" }
	refused := func(key string) ledger.Operation {
		return d.settle(d.begun(key, on).Attempt.ID, ledger.OutcomeFailed, func(r *ledger.SettleRequest) { r.Proof = ledger.Refused })
	}
	earlier := refused("earlier")
	d.clock.Advance(time.Second)
	later := d.done("later", on)
	_, err := ledger.Decide(ctx, d.s, d.decision(later, ledger.VerbRedact))
	if no := new(ledger.RefusedError); !errors.As(err, &no) || no.Code != "refused" {
		t.Errorf("redacted beside one that may be sent: %v", err)
	}
	need.Equal(d, d.begin("earlier", on).Answer, ledger.AnswerRefused, "the earlier one again")
	d.decide(d.read(earlier.ID).Operation, ledger.VerbAbandon)
	d.decide(later, ledger.VerbRedact)
}

// Redacted redacts an operation whose texts have its name and more, and has others that are
// settled, in doubt and in flight.
func Redacted(t testing.TB, s ledger.Store, now time.Time, more string) {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		need.OK(t, err)
	}
	for _, id := range []string{"gone", "kept", "doubt", "flying"} {
		jane := "jane-of-" + id + more
		_, err := ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: id + "-c", OperationID: id, AttemptID: id + "-a", Kind: "mail.send", Key: id + "-key", Deadline: time.Hour, Actor: billing,
			Input: json.RawMessage(`{"to":"` + jane + `"}`), Title: "to " + jane, Marks: ledger.Marks{Rules: "m", Values: []string{"m " + jane}}})
		ok(err)
		if id == "flying" {
			continue
		}
		_, err = ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: id + "-d", AttemptID: id + "-a", Outcome: ledger.OutcomeUncertain, ErrorClass: ledger.ClassTimeout, Error: "no answer for " + jane, Actor: billing})
		ok(err)
		ob := ledger.Observation{ChangeID: id + "-o", Version: 2, Actor: engine, Settles: true, Read: ledger.Read{ID: id + "-r", OperationID: id, BeganAt: now, EndedAt: now, Verdict: ledger.CannotTell,
			Reason: jane, Evidence: json.RawMessage(`{"to":"` + jane + `"}`), Actor: engine.Name}}
		if id != "doubt" {
			ob.Read.Verdict, ob.Read.Receipts = ledger.Landed, []string{jane}
		}
		_, err = ledger.Observe(ctx, s, ob)
		ok(err)
	}
	rec, err := s.Read(ctx, ledger.Locator{ID: "gone"})
	ok(err)
	_, err = ledger.Decide(ctx, s, ledger.Decision{ChangeID: "erasure", ID: "gone", Version: rec.Operation.Version, Verb: ledger.VerbRedact, Reason: "request 7", Actor: maya})
	ok(err)
}
