package console

import (
	"encoding/json"
	"fmt"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/policy"
	"indoubt/policy/advice"
	"indoubt/reconcile"
	"indoubt/ui/ticket"
)

// One night whose numbers add up: the pictures, the golden screens and most
// tests look at it.

var cest = time.FixedZone("CEST", 2*3600)

// night is 03:06:40 on the night of the pictures.
var night = time.Date(2026, 7, 14, 1, 6, 40, 0, time.UTC)

func at(clock string) time.Time {
	t, err := time.ParseInLocation("15:04:05", clock, cest)
	if err != nil {
		panic(err)
	}
	return time.Date(2026, 7, 14, t.Hour(), t.Minute(), t.Second(), 0, cest)
}

func id(n int) string { return fmt.Sprintf("0197f2c0-0000-7000-8000-%012d", n) }

func amount(v float64) ledger.Cost { return ledger.Cost{Value: v} }

func word(w string, v float64) ledger.Cost { return ledger.Cost{Value: v, Word: w} }

// doubt makes an operation that came into doubt at a time, after one attempt.
func doubt(n int, kind, title, from, began, ended string, class ledger.ErrorClass, odds float64, twice, never ledger.Cost) ledger.Record {
	o := ledger.Operation{
		ID: id(n), Kind: kind, Key: fmt.Sprintf("k-%03d", n), Token: fmt.Sprintf("indoubt-%04X", 0x7E00+n), TokenSent: true, Title: title,
		Input:  json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)),
		Source: ledger.Source{Pipeline: from}, State: ledger.Uncertain, Version: 2, ErrorClass: class, Doubted: true, AttemptCount: 1, KeyLive: true,
		CreatedAt: at(began), UpdatedAt: at(ended), StartedAt: at(began), EndedAt: at(ended), DoubtedAt: at(ended), Actor: from, Reason: string(class),
	}
	a := ledger.Attempt{ID: "a" + o.ID, OperationID: o.ID, N: 1, Sender: "pipeline", Actor: from, TokenSent: true, StartedAt: at(began), DeadlineAt: at(ended), EndedAt: at(ended), Outcome: ledger.OutcomeUncertain, ErrorClass: class, Status: -1}
	return ledger.Record{Found: true, Operation: o, Attempts: []ledger.Attempt{a}, Pricing: ledger.Pricing{
		OperationID: o.ID, Digest: nightPolicy.Digest(), Title: title, Duplicate: twice, Miss: never, Odds: odds, Rank: (1 - odds) * never.Value, ReadAt: ledger.Never,
	}}
}

var nightImage ledgertest.Image

// nightStore is the ledger of that night: one operation happened twice, five
// need somebody, one is checked, one in flight, two are settled.
func nightStore() *memory { return tonight(begin(&nightImage, night, fillNight)) }

// tonight is what the ledger of that night says of itself.
func tonight(s *memory) *memory {
	s.info.CreatedAt, s.info.LastWrite, s.info.LastError, s.info.LastBy = night.Add(-90*24*time.Hour), at("03:06:38"), at("03:06:28"), "billing"
	return s
}

func fillNight(s *memory) {
	twice := doubt(1, "bank.payout", "payout 420.00 → acct_7Kd", "billing", "02:25:07", "02:25:37", ledger.ClassTimeout, 1, amount(420), amount(420))
	twice.Operation.State, twice.Operation.Verdict, twice.Operation.Conflict = ledger.Committed, ledger.Twice, ledger.ConflictTwice
	twice.Operation.ConflictNote, twice.Operation.Effects, twice.Operation.Receipts = "a check found two", 2, []string{"po_81", "po_97"}
	twice.Operation.UpdatedAt, twice.Operation.Version, twice.Operation.AttemptCount = at("02:40:10"), 6, 2
	twice.Operation.Actor, twice.Operation.Reason = "checks", "found two"
	twice.Attempts[0].Receipt = ""
	twice.Attempts = append(twice.Attempts, ledger.Attempt{ID: "a1b", N: 2, Sender: "pipeline", Actor: "billing-7", Basis: ledger.BasisProof, StartedAt: at("02:31:41"), EndedAt: at("02:31:42"), Outcome: ledger.OutcomeCommitted, Receipt: "po_97"})
	twice.Reads = []ledger.Read{{ID: "r1", BeganAt: at("02:40:09"), EndedAt: at("02:40:10"), Verdict: ledger.Twice, Found: 2, Receipts: []string{"po_81", "po_97"},
		Evidence: json.RawMessage(`{"data":[{"id":"po_81","amount":"420.00","created":"02:25:09","status":"paid"},{"id":"po_97","amount":"420.00","created":"02:31:42","status":"pending"}]}`)}}
	twice.Pricing.Rank = 420

	charge := doubt(2, "legacy.charge", "charge cus_1QX 12,000.00", "billing", "02:15:02", "02:15:32", ledger.ClassTimeout, 0.5, amount(24000), amount(12000))
	charge.Operation.Source = ledger.Source{Pipeline: "billing", Run: "7", Host: "batch-2"}
	charge.Operation.Target = "invoice INV-2207"
	charge.Operation.Input = json.RawMessage(`{"customer":"cus_1QX","amount":1200000,"currency":"usd","invoice":"INV-2207"}`)
	charge.Attempts[0].Sender = "http"
	charge.Pricing.DecideAt = at("02:30:32")
	deploy := doubt(3, "deploy", "deploy web 4.18.2 → prod", "release", "02:27:40", "02:28:40", ledger.ClassKilled, 0.5, word("severe", 1000), word("high", 100))
	deploy.Related = []ledger.Relation{{ID: id(30), Title: "deploy web 4.18.3 → prod", State: ledger.Committed, Source: ledger.Source{Pipeline: "release"}, CreatedAt: at("02:35:00"), Overtook: true, MayHaveLanded: true}}
	mail := doubt(4, "mail.send", "mail Welcome → ana@example.com", "signup", "02:47:10", "02:47:40", ledger.ClassReset, 0, word("medium", 10), word("medium", 10))
	mail.Operation.State, mail.Operation.Actor, mail.Operation.Reason, mail.Operation.Verdict = ledger.Failed, "checks", "0 found, complete", ledger.NotThere
	mail.Operation.UpdatedAt = at("02:51:04")
	mail.Attempts[0].Proof = ledger.ProofNotThere
	mail.Reads = []ledger.Read{{ID: "r4", BeganAt: at("02:51:04"), EndedAt: at("02:51:04"), Verdict: ledger.NotThere, Reason: "complete, 0 found"}}
	post := doubt(5, "x.post", `post "v2.3 is out…"`, "news", "02:44:10", "02:44:40", ledger.Class5xx, 0.84, word("high", 100), word("low", 1))
	guess := doubt(6, "sms.send", "sms code → +49 170 5550", "signup", "03:05:40", "03:06:10", ledger.ClassTimeout, 0.5, ledger.Cost{Value: 100, Guess: true}, ledger.Cost{Value: 10, Guess: true})
	checking := doubt(7, "stripe.charge", "charge cus_9f2 420.00", "billing", "03:05:58", "03:06:28", ledger.ClassTimeout, 0.52, amount(840), amount(420))
	checking.Pricing.DecideAt, checking.Pricing.ReadAt = at("03:21:28"), at("03:06:49")
	flying := doubt(8, "stripe.charge", "charge cus_4Tz 2,900.00", "billing", "03:06:30", "03:06:30", "", 0.52, amount(5800), amount(2900))
	flying.Operation.State, flying.Operation.DeadlineAt, flying.Operation.LiveAttempt, flying.Operation.Doubted = ledger.Pending, at("03:08:30"), flying.Attempts[0].ID, false
	flying.Attempts[0].Outcome, flying.Attempts[0].EndedAt, flying.Attempts[0].DeadlineAt = "", time.Time{}, at("03:08:30")
	settled := doubt(9, "stripe.charge", "charge cus_77a 99.00", "billing", "02:14:00", "02:14:30", ledger.ClassTimeout, 1, amount(198), amount(99))
	settled.Operation.State, settled.Operation.Receipts, settled.Operation.Actor, settled.Operation.Reason = ledger.Committed, []string{"ch_77"}, "checks", "one found"
	settled.Operation.UpdatedAt = at("02:22:10")
	older := doubt(10, "mail.send", "mail Receipt → bo@example.com", "billing", "01:14:00", "01:14:30", ledger.ClassTimeout, 1, word("medium", 10), word("medium", 10))
	older.Operation.State, older.Operation.Fact, older.Operation.Actor, older.Operation.Reason = ledger.Abandoned, ledger.Uncertain, "sam", "customer wrote in"
	older.Operation.UpdatedAt = at("01:50:00")

	s.put(twice, charge, deploy, mail, post, guess, checking, flying, settled, older)
	person := ledger.Actor{Name: "ana"}
	s.Put(ledgertest.Contents{Events: []ledger.Event{
		{ID: "e1", OperationID: id(1), At: at("02:31:30"), Verb: "deny", Actor: person, Reason: "not in dashboard", From: ledger.Uncertain, To: ledger.Failed, Version: 3},
		{ID: "e2", OperationID: id(2), At: at("03:01:10"), Verb: "note", Actor: ledger.Actor{Name: "sam"}, Reason: "asking their support, ticket 4411", Version: 2},
	}})
}

// nightFacts is what that night's policy says of each kind.
func nightFacts(rec ledger.Record, now time.Time) ticket.Facts {
	o := rec.Operation
	p := rec.Pricing
	f := ticket.Facts{File: "/etc/indoubt/policy.yaml", Via: "pipeline", Pattern: o.Kind}
	f.Advice = advice.Advice{Duplicate: p.Duplicate, Miss: p.Miss, RetryCost: p.Odds * p.Duplicate.Value, LeaveCost: (1 - p.Odds) * p.Miss.Value, LookCost: 5, Odds: advice.Odds{P: p.Odds}}
	switch o.Kind {
	case "bank.payout":
		f.Line, f.HasRead = 40, true
		f.Advice.Verb = advice.Look
	case "legacy.charge":
		f.Line, f.Link, f.Via = 81, "https://pay.legacy.example/search?q=indoubt-7E02", "http"
		f.Advice.Odds = advice.Odds{P: 0.5, N: 4, Low: 0.15, High: 0.85}
		f.Advice.Verb, f.Advice.Reason = advice.Look, "both mistakes cost more than looking (5)"
		f.Advice.Where = advice.LookUp{Link: f.Link, Search: []string{o.Token, o.Title}, From: o.StartedAt, To: o.EndedAt.Add(2 * time.Minute)}
		f.Basis = ledger.BasisRiskAccepted
	case "deploy":
		f.Line = 96
		f.Advice.Verb, f.Advice.Reason = advice.Abandon, "overtaken: deploy web 4.18.3 landed on the same target"
	case "mail.send":
		f.Line, f.HasRead, f.Via, f.RetryMax = 60, true, "http", 2
		f.Advice.Verb, f.Advice.Basis, f.Advice.Reason = advice.Retry, ledger.BasisProof, "proven not landed: sending again cannot be twice"
		f.Basis = ledger.BasisProof
	case "x.post":
		f.Line = 70
		f.Advice.Odds = advice.Odds{P: 0.84, N: 37, Low: 0.69, High: 0.93}
		f.Advice.Verb, f.Advice.Reason = advice.Leave, "leaving costs less than sending twice"
	case "stripe.charge":
		f.Line, f.HasRead, f.RetryMax, f.Remembers, f.Downstream = 20, true, 3, 24*time.Hour, "stripe"
		f.SafeUntil, f.ProofAt, f.ProofPossible = o.StartedAt.Add(23*time.Hour), o.EndedAt.Add(2*time.Minute), true
		f.Advice.Odds = advice.Odds{P: p.Odds, N: 60, Low: 0.4, High: 0.64}
		f.Advice.Verb, f.Advice.Reason = advice.Wait, "checks will tell"
	default:
		f.Pattern, f.Line = "", 0
		f.Advice.Verb, f.Advice.Reason = advice.Look, "no policy for this kind"
	}
	return f
}

func nightEngine(s ledger.Store) *fakeEngine {
	return &fakeEngine{
		store:  s,
		health: []reconcile.Health{{Downstream: "stripe", State: reconcile.StateUp, Since: at("02:21:40"), Answered: at("03:06:35")}},
		plans: map[string]reconcile.Plan{
			id(4): {Basis: ledger.BasisProof, Why: "it did not land: a check that began 02:51:04 CEST found that it is not there", Sender: "http", WillSend: "POST https://api.mail.example/send", Body: "{\n  \"to\": \"ana@example.com\"\n}", FirstCheck: true, Attempt: 2},
			id(2): {Basis: ledger.BasisRiskAccepted, Sender: "http", WillSend: "POST https://pay.legacy.example/charge", Body: `{"amount":1200000}`, Attempt: 2, Loss: amount(24000)},
			id(6): {Basis: ledger.BasisRiskAccepted, Sender: "pipeline", Attempt: 2, Loss: ledger.Cost{Value: 100, Guess: true}},
			id(5): {Basis: ledger.BasisRiskAccepted, Refused: &ledger.RefusedError{Verb: "retry", Code: "related", Why: "another operation came later on the same target", Hint: "look again"}},
		},
		result: reconcile.RetryResult{Did: reconcile.DidSend, Operation: ledger.Operation{State: ledger.Committed, Receipts: []string{"m_1"}}},
	}
}

var nightPolicy = func() *policy.Policy {
	p, err := policy.Parse("policy.yaml", []byte("version: 1\ncurrency: USD\ndownstreams: { stripe: { base: https://api.stripe.com } }\nkinds: { stripe.charge: { downstream: stripe } }\n"))
	if err != nil {
		panic(err)
	}
	return p
}()

func nightOptions() Options { return optionsOf(nightStore()) }

func optionsOf(s *memory) Options {
	return Options{Store: s, Engine: nightEngine(s), Actor: ledger.Actor{Name: "maya", OSUser: "maya", Host: "box"}, Theme: "dark", Location: cest, Policy: func() *policy.Policy { return nightPolicy },
		Clock: func() time.Time { return night }, PolicyProblem: func() error { return nil }, drawn: func() {}}
}
