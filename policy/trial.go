package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"indoubt/ledger"
)

// Trial is what the answers of one read lead to: a verdict, why, and what the
// advice would be before anybody settles it. `absent` presumes that the positive
// control holds, which only the engine can tell.
type Trial struct {
	Found   Found
	Verdict ledger.Verdict
	Reason  string // "" where the verdict needs none
	Advice  Advice
	Steps   []Step // what every expression gave, page by page

	word   string // of testWants
	judged int    // pages
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

// read goes through the pages and gives the engine's verdict on them.
func (k *Kind) read(ctx context.Context, rec ledger.Record, now time.Time, answers []ledger.Answer) (t Trial) {
	if k.Read == nil {
		t.word, t.Reason = "cannot_tell", "the kind has no read"
		return t
	}
	trouble, stale := t.pages(ctx, k, rec, answers)
	if last := t.judged; trouble == "" && last < len(answers) {
		t.word, t.Reason = "cannot_tell", fmt.Sprintf("only %d of %d pages are asked for", last, len(answers))
		return t
	}
	t.word, t.Reason = t.Found.verdict(cmp.Or(trouble, stale), len(answers))
	if t.word == "none" {
		if t.Reason = k.unproven(rec, now); t.Reason == "" {
			t.word = "absent"
		}
	}
	return t
}

// verdict puts what so many pages show in one word; doubt says why they may show
// less than there is.
func (f Found) verdict(doubt string, pages int) (word, why string) {
	rest := doubt
	if rest == "" && !f.Complete {
		rest = f.incomplete(pages)
	}
	switch n := len(f.Effects); {
	case n > 1:
		return "duplicated", fmt.Sprintf("%d matched; expected 1", n)
	case n == 1 && f.Effects[0].Same:
		return "landed", ""
	case n == 1 && rest != "":
		return "cannot_tell", "found one that differs, and there may be more: " + rest
	case n == 1:
		return "mismatch", cmp.Or(f.Effects[0].Differs, string(f.Effects[0].Value))
	case doubt != "":
		return "cannot_tell", doubt
	case rest != "":
		return "cannot_tell", "nothing found, but " + rest
	}
	return "none", ""
}

// pages judges one page after the other. trouble says why one of them shows
// nothing, stale why they may show less than there is.
func (t *Trial) pages(ctx context.Context, k *Kind, rec ledger.Record, answers []ledger.Answer) (trouble, stale string) {
	all := &t.Found
	var cursor any
	seen := map[string]bool{} // effects of the pages before
	for i, a := range answers {
		t.Steps = append(t.Steps, k.Read.trace(ctx, rec, a, i+1)...)
		// What an old answer shows was there; what it does not show may be there now.
		stale = cmp.Or(stale, Stale(a, k.Skew))
		f, err := k.Read.JudgePage(ctx, rec, cursor, withoutAge(a))
		if err != nil {
			all.Valid, all.Complete = false, false
			return err.Error(), stale
		}
		t.add(f, seen)
		if cursor = f.Next; cursor == nil {
			break
		}
		// What is secret on this machine or missing here is no part of the judgement.
		if _, err := k.Read.Request(rec, cursor); err != nil && !errors.As(err, new(*MissingSecretError)) {
			return fmt.Sprintf("page %d: %v", i+2, err), stale
		}
	}
	return "", stale
}

// add takes what one more page shows. Pages shift while they are read, so an
// effect counts once; two that look alike on one page and have no receipts are two.
func (t *Trial) add(f Found, seen map[string]bool) {
	here := map[string]bool{}
	for _, e := range f.Effects {
		name := e.Receipt
		if name == "" {
			name = "\x00" + string(e.Value)
		}
		if seen[name] || e.Receipt != "" && here[name] {
			continue
		}
		here[name] = true
		t.Found.Effects = append(t.Found.Effects, e)
	}
	maps.Copy(seen, here)
	t.judged++
	t.Found.Valid, t.Found.Complete, t.Found.Next, t.Found.Paged = true, f.Complete, f.Next, f.Paged
}

// incomplete says why so many pages are not known to be the whole truth.
func (f Found) incomplete(pages int) string {
	switch {
	case f.Next != nil && pages == 1:
		return "the list goes on after 1 page"
	case f.Next != nil:
		return fmt.Sprintf("the list goes on after %d pages", pages)
	case f.Paged == PagedOffset:
		return "the list is paged by offset and may have shifted while it was read"
	}
	return "the answer is not complete"
}

// withoutAge is the answer without the age that was taken account of.
func withoutAge(a ledger.Answer) ledger.Answer {
	if _, old := a.Header["Age"]; old {
		a.Header = maps.Clone(a.Header)
		delete(a.Header, "Age")
	}
	return a
}

// unproven says why a whole answer without the effect does not prove yet that it
// did not land; "" when it does.
func (k *Kind) unproven(rec ledger.Record, now time.Time) string {
	proof, ok := k.ProofAt(rec)
	but := func(why string) string { return NoneFound + ", but " + why }
	switch {
	case ok && !k.Control:
		return but("with `control: off` nothing tells whether the check is blind")
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
