package policy

import (
	"context"
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

// testPages bounds the pages of one case.
const testPages = 100

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
	now := k.late(rec)
	if t.After != nil {
		now = caseTime.Add(*t.After)
	}
	var f Found
	switch t.Want {
	case "committed", "failed", "uncertain":
		out.Got, out.Why = k.answerCase(ctx, &rec, t, general)
	default:
		f, out.Got, out.Why = k.readCase(ctx, rec, t, now)
	}
	k.conclude(&rec, out.Got, f, now)
	out.Advice = k.Advise(rec, now)
	out.OK = met(t.Want, out.Got) && (t.Advice == "" || t.Advice == out.Advice.Verb)
	return out
}

// late is when every clock has done its part: absence can be proven, or else a
// person is asked.
func (k *Kind) late(rec ledger.Record) time.Time {
	if proof, ok := k.ProofAt(rec); ok {
		return proof.Add(time.Second)
	}
	return caseTime.Add(k.EscalateAfter + time.Second)
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

// readCase judges the answers of a case page by page, as the engine does.
func (k *Kind) readCase(ctx context.Context, rec ledger.Record, t Test, now time.Time) (all Found, got, why string) {
	if k.Read == nil {
		return all, "cannot_tell", "the kind has no read"
	}
	if len(t.pages) == 0 {
		t.pages = []SavedAnswer{{Rows: []byte("[]"), Result: []byte("{}")}}
	}
	var cursor any
	for i, page := range t.pages {
		f, err := k.Read.JudgePage(ctx, rec, cursor, page.Answer(k.Read.Via()))
		if err != nil {
			return Found{}, "cannot_tell", err.Error()
		}
		all.Valid, all.Complete, all.Next, all.Paged = true, f.Complete, f.Next, f.Paged
		for _, e := range f.Effects {
			if e.Receipt == "" || !slices.Contains(receiptsOf(all), e.Receipt) { // pages shift while they are read
				all.Effects = append(all.Effects, e)
			}
		}
		last := i == len(t.pages)-1 || i == testPages
		if last || f.Next == nil {
			if !last {
				why = fmt.Sprintf("only %d of %d pages are asked for", i+1, len(t.pages))
			}
			break
		}
		cursor = f.Next
		if _, err := k.Read.Request(rec, cursor); err != nil {
			return Found{}, "cannot_tell", "page " + fmt.Sprint(i+2) + ": " + err.Error()
		}
	}
	got, because := all.verdict()
	if proof, ok := k.ProofAt(rec); got == "none" && ok && now.After(proof) {
		got = "absent"
	}
	return all, got, firstOf(because, why)
}

func (k *Kind) answerCase(ctx context.Context, rec *ledger.Record, t Test, general []GeneralRule) (got, why string) {
	via := k.Send.Via()
	if via == "pipeline" && k.Read != nil {
		via = k.Read.Via()
	}
	saved := SavedAnswer{Result: []byte("{}")}
	if len(t.pages) > 0 {
		saved = t.pages[0]
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
func (k *Kind) conclude(rec *ledger.Record, got string, f Found, now time.Time) {
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
