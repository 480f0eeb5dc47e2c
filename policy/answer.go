package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/policy/expr"
)

// JudgeAnswer applies the kind's own rules (`committed`, `refused`, `already`) to an
// answer to a write. Decided is false when none applies: the general rule of the
// outcome decides then. A rule that fails decides for uncertain, and the error says
// why.
func (k *Kind) JudgeAnswer(ctx context.Context, rec ledger.Record, a ledger.Answer) (ledger.Ruling, error) {
	if !whole(a) {
		return ledger.Ruling{}, nil // there is nothing to rule on
	}
	vars := k.variables(rec).withAnswer(&a)
	doubt := func(err error) (ledger.Ruling, error) {
		return ledger.Ruling{Decided: true, Outcome: ledger.OutcomeUncertain}, err
	}
	var err error
	ask := func(name string, e *expr.Expression) (holds bool) {
		if e == nil || err != nil {
			return false
		}
		if holds, err = e.Truth(ctx, vars.Names); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return holds
	}
	refused, committed := ask("refused", k.refused), ask("committed", k.committed)
	already := earlierDoubt(rec) && ask("already", k.already)
	if err != nil {
		return doubt(err)
	}
	switch {
	case refused && (committed || already):
		return doubt(fmt.Errorf("the rules say that it was refused and that it is there"))
	case committed || already:
		out := ledger.Ruling{Decided: true, Outcome: ledger.OutcomeCommitted, Already: already}
		out.Receipt = k.answerReceipt(ctx, vars)
		return out, nil
	case refused:
		return ledger.Ruling{Decided: true, Outcome: ledger.OutcomeFailed, Proof: ledger.Refused}, nil
	case k.committed != nil && success(a):
		// The kind says exactly when it is committed, and this is not it.
		return doubt(nil)
	case k.receipt == nil && (k.Read == nil || k.Read.receipt == nil): // nothing is to be read in it, however long it is
	case success(a):
		return ledger.Ruling{Receipt: k.answerReceipt(ctx, vars)}, nil
	}
	return ledger.Ruling{}, nil
}

func whole(a ledger.Answer) bool {
	switch {
	case a.Err != nil:
		return false
	case a.Via == "mcp":
		return a.RPC != nil
	}
	return a.Exited || a.Status != 0
}

// success reports whether an answer says, by the rules of its transport, that a write
// was done.
func success(a ledger.Answer) bool {
	done, err := succeeded(&a, a.Status >= 200 && a.Status < 300)
	return done && err == nil
}

// succeeded reports whether an answer is a success by the rules of its transport.
// status says whether its HTTP status is one.
func succeeded(a *ledger.Answer, status bool) (bool, error) {
	switch {
	case a.Via == "mcp":
		failed, err := toolAnswer(a, "isError")
		return failed == false, err
	case a.Via == "sql":
		return true, nil
	case a.Via == "command" || a.Status == 0:
		return a.Exited && a.Exit == 0, nil
	}
	return status, nil
}

// earlierDoubt reports whether an attempt before the newest is in doubt.
func earlierDoubt(rec ledger.Record) bool {
	earlier := rec.Attempts[:max(0, len(rec.Attempts)-1)]
	return slices.ContainsFunc(earlier, func(a ledger.Attempt) bool { return a.Final() == ledger.OutcomeUncertain && a.Proof == "" })
}

// answerReceipt reads the receipt from an answer that committed: by
// `answer.receipt`, else by the read's `receipt` with the answer as the effect.
// A receipt is a convenience, so an error means only that there is none.
func (k *Kind) answerReceipt(ctx context.Context, vars *variables) string {
	e, with := k.receipt, vars
	if e == nil && k.Read != nil && k.Read.receipt != nil {
		doc, err := vars.document()
		if _, object := doc.(map[string]any); err != nil || !object {
			return ""
		}
		e, with = k.Read.receipt, vars.effect(expr.NewValue(doc))
	}
	text, err := receiptOf(ctx, e, with)
	if err != nil {
		return ""
	}
	return text
}

// toolResult decodes the result of an MCP tool call. A response that is an error
// has none.
func toolResult(a *ledger.Answer) (map[string]any, error) {
	switch {
	case a.RPC == nil:
		return nil, fmt.Errorf("an answer of this kind has no tool result")
	case a.RPC.Error:
		return nil, rpcError(a.RPC)
	case a.Truncated:
		return nil, errCut
	}
	doc, err := expr.Decode(a.RPC.Result)
	if errors.Is(err, expr.ErrTwice) {
		return nil, fmt.Errorf("the server's result is JSON that names a member twice")
	}
	result, ok := doc.(map[string]any)
	if err != nil || !ok {
		return nil, fmt.Errorf("the server's result is not a JSON object")
	}
	return result, nil
}

func rpcError(r *ledger.RPCAnswer) error {
	return fmt.Errorf("the server answered error %d: %s", r.Code, expr.Shorten(r.Message, 200))
}

// toolAnswer is `content`, `structured` or `isError` of a tool's answer. A missing one
// is an error, except isError, which is false then (MCP 2025-06-18). Of a JSON-RPC error
// the content is its message.
func toolAnswer(a *ledger.Answer, name string) (any, error) {
	if a.RPC == nil {
		return nil, fmt.Errorf("an answer of this kind has no `%s`", name)
	}
	if a.RPC.Error { // a tool's error, from a server whose library throws it as one of the protocol's
		switch name {
		case "isError":
			return true, nil
		case "content":
			return []any{map[string]any{"type": "text", "text": a.RPC.Message}}, nil
		}
	}
	result, err := toolResult(a)
	if err != nil {
		return nil, err
	}
	switch name {
	case "isError":
		switch v := result["isError"].(type) {
		case nil:
			return false, nil
		case bool:
			return v, nil
		}
		return nil, fmt.Errorf("`isError` is neither true nor false")
	case "content":
		list, ok := result["content"].([]any)
		if !ok {
			return nil, fmt.Errorf("the tool's answer has no content")
		}
		return list, nil
	}
	v, ok := result["structuredContent"]
	if !ok || v == nil {
		return nil, fmt.Errorf("the tool's answer has no structured content")
	}
	return v, nil
}

// toolDocument is the JSON a tool answered with: its structured content, else
// the one text it gave.
func toolDocument(a *ledger.Answer) (any, error) {
	result, err := toolResult(a)
	if err != nil {
		return nil, err
	}
	if v := result["structuredContent"]; v != nil {
		return v, nil
	}
	list, _ := result["content"].([]any)
	if len(list) != 1 {
		return nil, fmt.Errorf("the tool answered with %d parts, not one", len(list))
	}
	part, _ := list[0].(map[string]any)
	text, ok := part["text"].(string)
	if !ok {
		return nil, fmt.Errorf("the tool's answer is not text")
	}
	doc, err := expr.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("the tool's text is not JSON")
	}
	return doc, nil
}

// rowsOf is `rows` of a database's answer.
func rowsOf(a *ledger.Answer) (any, error) {
	switch {
	case a.Via != "sql":
		return nil, errors.New("an answer of this kind has no `rows`")
	case a.Truncated:
		return nil, errCutRows
	case len(bytes.TrimSpace(a.Rows)) == 0:
		return nil, fmt.Errorf("no rows came back")
	}
	doc, err := expr.Decode(a.Rows)
	rows, ok := doc.([]any)
	if err != nil || !ok {
		return nil, fmt.Errorf("the rows cannot be read")
	}
	return rows, nil
}

// linkOf is the address of a Link header (RFC 8288) with that relation, "" when
// there is none.
func linkOf(a *ledger.Answer, rel string) string {
	for _, m := range oneLink.FindAllStringSubmatch(strings.Join(a.Header["Link"], ", "), -1) {
		if relates(m[2], rel) {
			return strings.TrimSpace(m[1])
		}
	}
	return ""
}

// oneLink is an address and its parameters, which end at a comma outside of quotes.
var oneLink = lazyregexp.New(`<([^>]*)>((?:[^",]|"(?:\\.|[^"\\])*(?:"|$))*)`)

// relates reports whether a link's parameters name the relation; the first `rel`
// counts, and it may name several.
func relates(parameters, rel string) bool {
	for _, p := range strings.Split(parameters, ";") {
		name, value, ok := strings.Cut(p, "=")
		if ok && strings.EqualFold(strings.TrimSpace(name), "rel") {
			relations := strings.Fields(strings.Trim(strings.TrimSpace(value), `"`))
			return slices.ContainsFunc(relations, func(one string) bool { return strings.EqualFold(one, rel) })
		}
	}
	return false
}
