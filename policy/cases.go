package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"indoubt/ledger"
)

// testWants are the results a case of `tests:` may name. The first five are of
// the read, the rest of the rules for an answer to a write.
var testWants = []string{"landed", "none", "duplicated", "mismatch", "cannot_tell", "committed", "failed", "uncertain"}

// TestResult is what became of one case.
type TestResult struct {
	Test Test
	Got  string
	Why  string // why, where the result is not plain
	OK   bool
}

// RunTests runs the kind's own cases, with the evaluator the engine uses.
func (k *Kind) RunTests(ctx context.Context) []TestResult {
	var out []TestResult
	for _, t := range k.Tests {
		got, why := k.runTest(ctx, t)
		out = append(out, TestResult{Test: t, Got: got, Why: why, OK: got == t.Want})
	}
	return out
}

func (k *Kind) runTest(ctx context.Context, t Test) (got, why string) {
	input, err := marshal(t.Input)
	if err != nil {
		return "cannot_tell", err.Error()
	}
	rec := ledger.Record{Found: true, Operation: ledger.Operation{
		ID: "01900000-0000-7000-8000-000000000000", Kind: k.Name, Key: "k-test", Token: t.Token, TokenSent: true, Input: input,
		State: ledger.Uncertain, AttemptCount: 1,
	}}
	a := ledger.Answer{Via: "http", Sent: true, Status: t.Status, Header: t.Header, Body: []byte(t.Body)}
	if k.Read != nil && k.Read.Via() == "command" || k.Read == nil && k.Send.Via() == "command" {
		a = ledger.Answer{Via: "command", Sent: true, Exited: true, Exit: t.Exit, Stdout: []byte(t.Body)}
	}
	switch t.Want {
	case "committed", "failed", "uncertain":
		return k.runAnswerTest(ctx, rec, a)
	}
	if k.Read == nil {
		return "cannot_tell", "the kind has no read"
	}
	f, err := k.Read.Judge(ctx, rec, a)
	if err != nil {
		return "cannot_tell", err.Error()
	}
	return f.verdict()
}

func (k *Kind) runAnswerTest(ctx context.Context, rec ledger.Record, a ledger.Answer) (got, why string) {
	// `already` counts only after an earlier attempt in doubt, so there is one.
	rec.Attempts = []ledger.Attempt{{N: 1, Outcome: ledger.OutcomeUncertain, EndedAt: time.Unix(0, 0)}, {N: 2}}
	r, err := k.JudgeAnswer(ctx, rec, a)
	if err != nil {
		why = err.Error()
	}
	if !r.Decided {
		return "undecided", "no rule of the kind applies; the general rule decides"
	}
	return string(r.Outcome), why
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

// plainValue is a node as data, for the cases of `tests:`.
func plainValue(n *node) any {
	switch n.kind {
	case mappingNode:
		out := map[string]any{}
		for _, e := range n.entries {
			out[e.key] = plainValue(e.value)
		}
		return out
	case sequenceNode:
		out := []any{}
		for _, i := range n.items {
			out = append(out, plainValue(i))
		}
		return out
	case nullNode:
		return nil
	}
	if n.boolean {
		return n.text == "true"
	}
	if v, ok := jsonNumber(n.text); ok && n.number {
		return v
	}
	return n.text
}

// testBody is the body of a case: text as it is, everything else as JSON.
func testBody(v any) string {
	switch x := v.(type) {
	case nil:
		return ""
	case string:
		return x
	}
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}
