package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"indoubt/ledger"
)

// testWants are the results a case of `tests:` may name. The first seven are of
// the read: `none` is a whole answer without the effect, `absent` the same where
// the policy lets it prove that it did not land, `inconclusive` whatever proves
// nothing. The rest is of the rules for an answer to a write.
var testWants = []string{"landed", "absent", "none", "duplicated", "mismatch", "inconclusive", "cannot_tell", "committed", "failed", "uncertain"}

var adviceVerbs = []string{AdviseLook, AdviseConfirm, AdviseRetry, AdviseAbandon, AdviseWait, AdviseLeave, AdviseRaise}

func classNames() []string {
	out := make([]string, 0, len(prior))
	for c := range prior {
		out = append(out, string(c))
	}
	return sorted(out)
}

// TestResult is what became of one case.
type TestResult struct {
	Test   Test
	Got    string
	Why    string // why, where the result is not plain
	Advice Advice // on the operation once this is known
	OK     bool
}

// GeneralRule is the outcome of an answer where the kind's own rules say nothing.
type GeneralRule func(ctx context.Context, k *Kind, rec ledger.Record, a ledger.Answer) ledger.Outcome

// RunTests runs the kind's own cases, with the evaluator the engine uses. An
// answer to a write that no rule of the kind decides is left to the general rule,
// if one is given.
func (k *Kind) RunTests(ctx context.Context, general ...GeneralRule) []TestResult {
	var out []TestResult
	for _, t := range k.Tests {
		out = append(out, k.runTest(ctx, t, general))
	}
	return out
}

// Rehearsal is a record of the kind as it looks after its only attempt has come
// into doubt, for cases and for trying a policy without a ledger.
func (k *Kind) Rehearsal(input []byte, token string, class ledger.ErrorClass, ended time.Time) ledger.Record {
	if class == "" {
		class = ledger.ClassTimeout
	}
	began := ended.Add(-time.Second)
	attempt := ledger.Attempt{ID: "01900000-0000-7000-8000-000000000001", N: 1, KeyWorks: k.KeyWorks(), TokenSent: token != "",
		StartedAt: began, EndedAt: ended, DeadlineAt: began.Add(k.Deadline), Outcome: ledger.OutcomeUncertain, ErrorClass: class}
	return ledger.Record{Found: true, Now: ended, Operation: ledger.Operation{
		ID: "01900000-0000-7000-8000-000000000000", Kind: k.Name, Key: "k-test", Token: token, TokenSent: token != "", Input: input,
		State: ledger.Uncertain, Doubted: true, ErrorClass: class, AttemptCount: 1,
		CreatedAt: began, StartedAt: began, EndedAt: ended, DoubtedAt: ended,
	}, Attempts: []ledger.Attempt{attempt}}
}

// caseTime is when the attempt of a case ended. Every moment would do.
var caseTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (k *Kind) runTest(ctx context.Context, t Test, general []GeneralRule) TestResult {
	out := TestResult{Test: t}
	input, err := marshal(t.Input)
	if t.Input == nil {
		input = []byte("{}")
	}
	if err != nil {
		out.Got, out.Why = "cannot_tell", err.Error()
		return out
	}
	rec := k.Rehearsal(input, t.Token, t.Class, caseTime)
	now := k.Late(rec)
	if t.After != nil {
		now = caseTime.Add(*t.After)
	}
	switch t.Want {
	case "committed", "failed", "uncertain":
		out.Got, out.Why = k.answerCase(ctx, &rec, t, general)
		conclude(&rec, out.Got, Found{}, now)
		out.Advice = k.Advise(rec, now)
	default:
		trial := k.Try(ctx, rec, now, t.answers(k)...)
		out.Got, out.Why, out.Advice = trial.word, trial.Reason, trial.Advice
	}
	out.OK = met(t.Want, out.Got) && (t.Advice == "" || t.Advice == out.Advice.Verb)
	return out
}

// Late is when every clock of a rehearsal has done its part: absence can be
// proven, or else a person is asked.
func (k *Kind) Late(rec ledger.Record) time.Time {
	if proof, ok := k.ProofAt(rec); ok {
		return proof.Add(time.Second)
	}
	return latestEnd(rec).Add(k.EscalateAfter + time.Second)
}

// met tells whether a result is what was wanted.
func met(want, got string) bool {
	switch want {
	case "":
		return true
	case "none":
		return got == "none" || got == "absent"
	case "inconclusive":
		return got == "none" || got == "cannot_tell"
	}
	return want == got
}

// Trial is what the answers of one read lead to: a verdict, why, and what the
// advice would be before anybody settles it. `absent` presumes that the positive
// control holds, which only the engine can tell.
type Trial struct {
	Found   Found
	Verdict ledger.Verdict
	Reason  string // "" where the verdict needs none
	Advice  Advice

	word string // of testWants
}

// Try judges a read's answers, page by page, as the engine does when it begins
// to read at now. Nothing is recorded.
func (k *Kind) Try(ctx context.Context, rec ledger.Record, now time.Time, answers ...ledger.Answer) Trial {
	t := k.read(ctx, rec, now, answers)
	switch t.word {
	case "none", "cannot_tell":
		t.Verdict = ledger.Inconclusive
	default:
		t.Verdict = ledger.Verdict(t.word)
	}
	rec.Attempts = slices.Clone(rec.Attempts)
	if rec.Operation.State == ledger.Uncertain {
		conclude(&rec, t.word, t.Found, now)
	}
	t.Advice = k.Advise(rec, now)
	return t
}

func (k *Kind) read(ctx context.Context, rec ledger.Record, now time.Time, answers []ledger.Answer) (t Trial) {
	stop := func(why string) Trial { return Trial{word: "cannot_tell", Reason: why} }
	if k.Read == nil {
		return stop("the kind has no read")
	}
	all := &t.Found
	var cursor any
	stale := ""
	for i, a := range answers {
		f, err := k.Read.JudgePage(ctx, rec, cursor, a)
		stale = cmp.Or(stale, Stale(a, k.Skew))
		if err != nil && len(all.Effects) > 0 {
			all.Complete = false // what was found is found
			break
		}
		if err != nil {
			return stop(err.Error())
		}
		seen := receiptsOf(*all)
		for _, e := range f.Effects {
			if e.Receipt == "" || !slices.Contains(seen, e.Receipt) { // pages shift while they are read
				all.Effects = append(all.Effects, e)
			}
		}
		all.Valid, all.Complete, all.Next, all.Paged = true, f.Complete, f.Next, f.Paged
		if f.Next == nil && i < len(answers)-1 {
			return stop(fmt.Sprintf("only %d of %d pages are asked for", i+1, len(answers)))
		}
		if cursor = f.Next; cursor == nil || i == len(answers)-1 {
			break
		}
		// What is secret on this machine or missing here is no part of the judgement.
		if _, err := k.Read.Request(rec, cursor); err != nil && !errors.As(err, new(*MissingSecretError)) {
			return stop(fmt.Sprintf("page %d: %v", i+2, err))
		}
	}
	t.word, t.Reason = all.verdict()
	if t.word == "none" && stale != "" {
		return stop(stale)
	}
	if t.word == "none" {
		if t.Reason = k.unproven(rec, now); t.Reason == "" {
			t.word = "absent"
		}
	}
	return t
}

// unproven says why a whole answer without the effect does not prove yet that it
// did not land; "" when it does.
func (k *Kind) unproven(rec ledger.Record, now time.Time) string {
	proof, ok := k.ProofAt(rec)
	but := func(why string) string { return NoneFound + ", but " + why }
	switch {
	case ok && now.After(proof) && now.Before(k.VisibleUntil(rec)):
		return ""
	case ok && now.After(proof):
		return but("it may no longer be shown")
	case ok:
		return fmt.Sprintf("%s, too early: proof possible in %s", NoneFound, formatDuration(proof.Sub(now).Round(time.Second)))
	case k.LandsWithin == nil || k.VisibleWithin == nil:
		return but(missingBounds(k) + " not stated, so no wait proves absence")
	case !k.Read.SearchesByToken():
		return but("this check does not look for the token")
	case !tokenSent(rec):
		return but("its token is not known to have been sent")
	case rec.Operation.HandsOff:
		return but("it was said to have landed, so a person settles it")
	}
	return but("nothing proves that it did not land")
}

// answers are the pages of a case as the kind's read would get them.
func (t Test) answers(k *Kind) []ledger.Answer {
	if k.Read == nil {
		return nil
	}
	pages := t.pages
	if len(pages) == 0 {
		pages = []SavedAnswer{{}}
	}
	out := make([]ledger.Answer, len(pages))
	for i, page := range pages {
		out[i] = page.Answer(k.Read.Via())
	}
	return out
}

func (k *Kind) answerCase(ctx context.Context, rec *ledger.Record, t Test, general []GeneralRule) (got, why string) {
	saved := SavedAnswer{}
	if len(t.pages) > 0 {
		saved = t.pages[0]
	}
	via := k.Send.Via()
	if via == "pipeline" {
		via = saved.Via()
	}
	// `already` counts only after an earlier attempt in doubt, so there is one.
	second := rec.Attempts[0]
	second.ID, second.N, second.Outcome = "01900000-0000-7000-8000-000000000002", 2, ""
	rec.Attempts = append(rec.Attempts, second)
	rec.Operation.AttemptCount = 2
	a := saved.Answer(via)
	r, err := k.JudgeAnswer(ctx, *rec, a)
	switch {
	case err != nil:
		return string(r.Outcome), err.Error()
	case r.Decided:
		return string(r.Outcome), "a rule of the kind says so"
	case len(general) == 0:
		return "undecided", "no rule of the kind applies; the general rule decides"
	}
	return string(general[0](ctx, k, *rec, a)), "the general rule says so"
}

// conclude brings a record to where a result leads, before anybody settles it.
func conclude(rec *ledger.Record, got string, f Found, now time.Time) {
	o := &rec.Operation
	read := ledger.Read{BeganAt: now, EndedAt: now, Verdict: ledger.Inconclusive}
	switch got {
	case "landed":
		o.Verdict, o.Receipts = ledger.Landed, receiptsOf(f)
	case "duplicated":
		o.Verdict, o.Conflict, o.Receipts = ledger.Duplicated, ledger.Duplicate, receiptsOf(f)
	case "mismatch":
		o.Verdict, o.Conflict, o.Receipts = ledger.Mismatch, ledger.MismatchConflict, receiptsOf(f)
	case "absent":
		o.State, o.Verdict, read.Verdict = ledger.Failed, ledger.Absent, ledger.Absent
		rec.Attempts[0].Proof = ledger.ProvenAbsent
	case "none":
		read.Reason = NoneFound
	case "committed":
		o.State = ledger.Committed
	case "failed":
		rec.Attempts[len(rec.Attempts)-1].Outcome = ledger.OutcomeFailed
		rec.Attempts[len(rec.Attempts)-1].Proof = ledger.Refused
	}
	if got != "committed" && got != "failed" {
		rec.Reads = append(rec.Reads, read)
	}
}

func receiptsOf(f Found) []string {
	var out []string
	for _, e := range f.Effects {
		if e.Receipt != "" {
			out = append(out, e.Receipt)
		}
	}
	return out
}

// verdict puts what was found in one word.
func (f Found) verdict() (word, why string) {
	switch {
	case len(f.Effects) > 1:
		return "duplicated", fmt.Sprintf("%d matched; expected 1", len(f.Effects))
	case len(f.Effects) == 1 && f.Effects[0].Same:
		return "landed", ""
	case len(f.Effects) == 1:
		return "mismatch", firstOf(f.Effects[0].Differs, string(f.Effects[0].Value))
	case f.Complete:
		return "none", ""
	}
	return "cannot_tell", "nothing found, but the answer is not complete"
}
