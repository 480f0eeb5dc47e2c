package policy

import (
	"context"
	"errors"
	"fmt"

	"indoubt/ledger"
)

// usable refuses an answer that no expression should be asked about.
func usable(a ledger.Answer) error {
	switch {
	case a.Err != nil:
		return fmt.Errorf("no answer: %w", a.Err)
	case a.Truncated && a.Via == "sql":
		return errCutRows
	case a.Truncated:
		return errCut
	case a.Via == "command" && !a.Exited:
		return fmt.Errorf("the command did not end by itself")
	case a.Via == "mcp":
		return usableCall(a)
	case a.Via == "sql":
		if a.Rows == nil {
			return fmt.Errorf("no rows came back")
		}
		return nil
	case a.Via != "command" && a.Status == 0:
		return fmt.Errorf("no answer came")
	case a.Status == 206:
		return fmt.Errorf("answer is only a part of what was asked for (206)")
	case a.Status == 304:
		return fmt.Errorf("answer is \"not modified\" (304), which shows nothing")
	case noAnswer(a.Status): // whatever `valid` says
		return refusal(a, false)
	}
	if old := aged(a.Header); old != "" {
		return errors.New(old)
	}
	return nil
}

// noAnswer reports whether a status says only that the question was not answered.
func noAnswer(status int) bool {
	switch status {
	case 401, 403, 407, 408, 429:
		return true
	}
	return status >= 300 && status < 400 || status >= 500
}

// usableCall is usable for a tool call. That a tool says isError is for `valid`.
func usableCall(a ledger.Answer) error {
	switch {
	case a.RPC == nil:
		return fmt.Errorf("no answer came")
	case a.RPC.Error:
		return rpcError(a.RPC)
	}
	return nil
}

// refusal says why an answer is none, by the rules of its way or by `valid`.
func refusal(a ledger.Answer, byPolicy bool) error {
	switch {
	case a.Via == "command" && a.Exit != 0:
		return fmt.Errorf("the check ended with exit code %d%s", a.Exit, Complaint(a))
	case a.Via == "mcp" && !byPolicy:
		return fmt.Errorf("the tool says that it failed%s", said(a))
	case a.Status == 401 || a.Status == 403 || a.Status == 407:
		return fmt.Errorf("downstream answered %d: the check is not let in", a.Status)
	case a.Status == 429:
		return fmt.Errorf("downstream answered 429: it is asked too often")
	case a.Status != 0 && a.Status != 200:
		return fmt.Errorf("downstream answered %d", a.Status)
	}
	return fmt.Errorf("the answer is not what the policy calls valid%s", Complaint(a))
}

// said is the first text of a tool's answer, ": …", or "".
func said(a ledger.Answer) string {
	content, err := toolAnswer(&a, "content")
	list, ok := content.([]any)
	if err != nil || !ok || len(list) == 0 {
		return ""
	}
	part, _ := list[0].(map[string]any)
	text, _ := part["text"].(string)
	if text = shorten(text, 100); text == "" {
		return ""
	}
	return ": " + text
}

// isValid asks `valid`, and beside it for success where the expression does not
// look at the status, exit code or isError itself. The error says why it is not.
func (r *Read) isValid(ctx context.Context, vars *variables) error {
	if !r.valid.uses("status", "exit", "isError") {
		fine, err := succeeded(vars)
		if err != nil {
			return err
		}
		if !fine {
			return refusal(*vars.answer, false)
		}
	}
	if r.valid == nil {
		return nil
	}
	holds, err := r.valid.truth(ctx, vars)
	if err == nil && !holds {
		err = refusal(*vars.answer, true)
	}
	return err
}

// succeeded reports whether a read's answer is one at all, by the rules of its way.
func succeeded(vars *variables) (bool, error) {
	a := vars.answer
	switch a.Via {
	case "command":
		return a.Exit == 0, nil
	case "mcp":
		failed, err := toolAnswer(a, "isError")
		return failed == false, err
	case "sql":
		return true, nil
	}
	return a.Status == 200, nil
}
