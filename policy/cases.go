package policy

import (
	"cmp"
	"context"
	"fmt"
	"net/textproto"
	"time"

	"indoubt/ledger"
	"indoubt/policy/file"
	"indoubt/policy/transport"
)

// testWants are the results a case of `tests:` may name. The first six are of
// the read: its verdict, where `none` is a whole answer without the effect that proves
// nothing, and `cannot_tell` any other that proves nothing. The rest is of the rules for an answer to a write.
var testWants = []string{"landed", "twice", "different", "not_there", "none", "cannot_tell", "committed", "failed", "uncertain"}

type TestResult struct {
	Test  Test
	Got   string
	Cause ledger.Cause // why a read cannot tell
	Why   string       // why, where the result is not plain
	OK    bool
	Steps []Step // where it failed: what every expression gave, page by page
}

// GeneralRule is the outcome of an answer where the kind's own rules say nothing.
type GeneralRule func(ctx context.Context, k *Kind, rec ledger.Record, a ledger.Answer) ledger.Outcome

// RunTests runs the kind's own cases, with the evaluator the engine uses. An
// answer to a write that no rule of the kind decides is left to the general rule.
func (k *Kind) RunTests(ctx context.Context, general GeneralRule) []TestResult {
	return ledger.Each(k.Tests, func(t Test) TestResult { return k.runTest(ctx, t, general) })
}

// Rehearsal is a record of the kind as it looks after its only attempt has come
// into doubt, for cases and for trying a policy without a ledger.
func (k *Kind) Rehearsal(input []byte, token string, ended time.Time) ledger.Record {
	began := ended.Add(-time.Second)
	attempt := ledger.Attempt{ID: "01900000-0000-7000-8000-000000000001", N: 1, KeyWorks: k.KeyWorks(), TokenSent: token != "",
		StartedAt: began, EndedAt: ended, DeadlineAt: began.Add(k.Deadline), Outcome: ledger.OutcomeUncertain,
		ErrorClass: ledger.ClassTimeout}
	return ledger.Record{Found: true, Now: ended, Operation: ledger.Operation{
		ID: "01900000-0000-7000-8000-000000000000", Kind: k.Name, Key: "k-test", Token: token, TokenSent: token != "", Input: input,
		State: ledger.Uncertain, Doubted: true, ErrorClass: ledger.ClassTimeout, AttemptCount: 1,
		CreatedAt: began, StartedAt: began, EndedAt: ended, DoubtedAt: ended,
	}, Attempts: []ledger.Attempt{attempt}}
}

// caseTime is when the attempt of a case ended. Any time would do.
var caseTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (k *Kind) runTest(ctx context.Context, t Test, general GeneralRule) TestResult {
	out := TestResult{Test: t}
	input := ledger.EncodeJSON(t.Input)
	if t.Input == nil {
		input = []byte("{}")
	}
	rec := k.Rehearsal(input, t.Token, caseTime)
	now := k.Late(rec)
	if t.After != nil {
		now = caseTime.Add(*t.After)
	}
	switch t.Want {
	case "committed", "failed", "uncertain":
		out.Got, out.Why, out.Steps = k.answerCase(ctx, &rec, t, general)
	default:
		out = k.readCase(ctx, rec, now, t)
	}
	if out.OK = t.Want == out.Got; out.OK {
		out.Steps = nil
	}
	return out
}

// Late is when every clock of a rehearsal has done its part: absence can be
// proven, or else a person is asked.
func (k *Kind) Late(rec ledger.Record) time.Time {
	if proof, ok := k.ProofAt(rec); ok {
		return proof.Add(time.Second)
	}
	return k.ToldEnd(rec).Add(k.EscalateAfter + time.Second)
}

// readCase judges the pages of a case as the kind's read would get them. What is secret here
// or cannot be made of its input is not a part of the judgement.
func (k *Kind) readCase(ctx context.Context, rec ledger.Record, now time.Time, t Test) TestResult {
	pages := t.pages
	if len(pages) == 0 {
		pages = []ledger.Answer{{}}
	}
	trial := k.Try(ctx, rec, now, len(pages), func(page int, _ transport.Request, bad error) (ledger.Answer, error) {
		if page == 1 || transport.LackedHere(bad) {
			bad = nil
		}
		return transport.Written(k.Read.Via(), pages[page-1]), bad
	})
	out := TestResult{Test: t, Got: trial.word, Cause: trial.Cause, Why: trial.Reason}
	for _, page := range trial.Pages {
		out.Steps = append(out.Steps, page.Steps...)
	}
	if n := len(trial.Pages); n > 0 && n < len(pages) && trial.Cause != ledger.CauseNoAnswer {
		out.Got, out.Cause, out.Why = "cannot_tell", ledger.CauseNoAnswer, fmt.Sprintf("only %d of %d pages are asked for", n, len(pages))
	}
	return out
}

func (k *Kind) answerCase(ctx context.Context, rec *ledger.Record, t Test, general GeneralRule) (got, why string, steps []Step) {
	saved := ledger.Answer{}
	if len(t.pages) > 0 {
		saved = t.pages[0]
	}
	// `already` counts only after an earlier attempt in doubt, so there is one.
	second := rec.Attempts[0]
	second.ID, second.N, second.Outcome = "01900000-0000-7000-8000-000000000002", 2, ""
	rec.Attempts = append(rec.Attempts, second)
	rec.Operation.AttemptCount = 2
	a := transport.Written(cmp.Or(saved.Via, "http"), saved)
	steps = k.TraceAnswer(ctx, *rec, a)
	r, err := k.JudgeAnswer(ctx, *rec, a)
	switch {
	case err != nil:
		return string(r.Outcome), err.Error(), steps
	case r.Decided:
		return string(r.Outcome), "a rule of the kind says so", steps
	}
	return string(general(ctx, k, *rec, a)), "the general rule says so", steps
}

// savedAnswer reads an answer of a case. A field that a transport does not have is left out; Via is
// the way that it came, as far as it says so.
func (d decoder) savedAnswer(n *file.Node) (a ledger.Answer) {
	result := map[string]any{"content": []any{}}
	by := func(via string, read file.Reader) file.Reader {
		return func(n *file.Node) {
			a.Via = via
			read(n)
		}
	}
	text := func(out *[]byte) file.Reader {
		return func(n *file.Node) { *out = testBody(file.PlainValue(n)) }
	}
	d.Fields(n, file.Table{
		"status":     d.Integer(&a.Status, 100, 599),
		"headers":    func(n *file.Node) { a.Header = d.plainHeaders(n) },
		"body":       text(&a.Body),
		"exit":       by("command", d.Integer(&a.Exit, 0, 255)),
		"stdout":     by("command", text(&a.Stdout)),
		"stderr":     by("command", text(&a.Stderr)),
		"structured": by("mcp", func(n *file.Node) { result["structuredContent"] = file.PlainValue(n) }),
		"content": by("mcp", func(n *file.Node) {
			d.Must(n, file.List, "a list", "content: [{ type: text, text: … }]")
			result["content"] = file.PlainValue(n)
		}),
		"isError": by("mcp", func(n *file.Node) {
			failed := false
			d.Boolean(&failed)(n)
			result["isError"] = failed
		}),
		"error": by("mcp", func(n *file.Node) {
			a.RPC = &ledger.RPCAnswer{Error: true}
			d.Fields(n, file.Table{"code": d.Integer(&a.RPC.Code, -1_000_000, 1_000_000), "message": d.Text(&a.RPC.Message)})
		}),
		"rows": by("sql", func(n *file.Node) {
			if d.Must(n, file.List, "a list", "rows: [{ id: 1 }], or rows: []") {
				a.Rows = testBody(file.PlainValue(n))
			}
		}),
	})
	if a.Via == "mcp" && a.RPC == nil {
		a.RPC = &ledger.RPCAnswer{Result: testBody(result)}
	}
	return a
}

func (d decoder) test(item *file.Node) Test {
	t := Test{Token: "indoubt-test", Line: item.Line}
	page := func(n *file.Node) { t.pages = append(t.pages, d.savedAnswer(n)) }
	d.Fields(item, file.Table{
		"name":   d.Text(&t.Name),
		"input":  func(n *file.Node) { t.Input = file.PlainValue(n) },
		"token":  d.Text(&t.Token),
		"after":  d.Bound(&t.After),
		"want":   d.Choice(&t.Want, testWants...),
		"answer": page,
		"pages":  func(n *file.Node) { d.Each(n, "a list of answers", "pages: [{ body: … }, { body: … }]", page) },
	})
	if item.Kind == file.Mapping && t.Want == "" {
		d.Fail(item.Place, "does not say what it wants", "want: "+file.Either(testWants))
	}
	return t
}

func (d decoder) plainHeaders(n *file.Node) map[string][]string {
	out := map[string][]string{}
	if n.Kind != file.Mapping {
		d.Fail(n.Place, "must be a mapping (name: value)", "")
	}
	for _, e := range n.Entries {
		if text, ok := d.Scalar(e.Value); ok {
			out[textproto.CanonicalMIMEHeaderKey(e.Name)] = []string{text}
		}
	}
	return out
}

// testBody is the body of a case: text as it is, everything else as JSON.
func testBody(v any) []byte {
	switch x := v.(type) {
	case nil:
		return []byte{}
	case string:
		return []byte(x)
	}
	return ledger.EncodeJSON(v)
}
