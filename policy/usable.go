package policy

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/redact"
	"indoubt/policy/expr"
)

// usable refuses an answer that no expression may be evaluated on.
func usable(a ledger.Answer) error {
	switch {
	case a.Err != nil && a.Status != 0 && len(a.Body) > 0:
		return fmt.Errorf("answer broke off after %d bytes: %s", len(a.Body), cmp.Or(string(a.Class), a.Err.Error()))
	case a.Err != nil && a.Class != "" && (a.Class != ledger.ClassEOF || a.Via != "mcp"): // a server that ended says why
		return fmt.Errorf("the check got no answer: %s%s", a.Class, Complaint(a))
	case a.Err != nil:
		return fmt.Errorf("the check got no answer: %w", a.Err)
	case a.Truncated && a.Via == "sql":
		return errCutRows
	case a.Truncated:
		return errCut
	case a.Via == "command" && !a.Exited:
		return fmt.Errorf("the command did not end by itself: %s", a.Signal)
	case a.Via == "mcp" && a.RPC != nil && a.RPC.Error:
		return rpcError(a.RPC)
	case a.Via == "mcp" && a.RPC != nil, a.Via == "sql" && a.Rows != nil:
		return nil // that a tool says isError is for `valid`
	case a.Via == "sql":
		return fmt.Errorf("no rows came back")
	case a.Via != "command" && a.Status == 0:
		return fmt.Errorf("no answer came")
	}
	return answered(a)
}

// AnswerError says what is wrong with an answer as it came, before any expression
// reads it.
type AnswerError struct{ Why string }

func (e *AnswerError) Error() string { return e.Why }

// answered refuses an HTTP answer that does not answer the request, or an old one.
func answered(a ledger.Answer) error {
	switch {
	case a.Status == 206:
		return &AnswerError{"answer is only a part of what was asked for (206)"}
	case a.Status == 304:
		return &AnswerError{`answer is "not modified" (304), which shows nothing`}
	case unanswered(a.Status): // `valid` cannot accept it
		return refusal(a, false)
	}
	if old := aged(a.Header); old != "" {
		return &AnswerError{old}
	}
	return nil
}

// unanswered reports whether a status says that the request was not answered.
func unanswered(status int) bool {
	return status >= 300 && status < 400 || status >= 500 || slices.Contains([]int{401, 403, 407, 408, 429}, status)
}

// refusal says why an answer is not valid, by the rules of its transport or by `valid`.
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
	content, _ := toolAnswer(&a, "content")
	list, _ := content.([]any)
	if len(list) == 0 {
		return ""
	}
	part, _ := list[0].(map[string]any)
	text, _ := part["text"].(string)
	if text = expr.Shorten(text, 100); text == "" {
		return ""
	}
	return ": " + text
}

// isValid evaluates `valid`. Where that does not look at the status, exit code or
// isError itself, the answer must also be a success. The error says why it is not.
func (r *Read) isValid(ctx context.Context, vars *variables) error {
	if !r.valid.Uses("status", "exit", "isError") {
		fine, err := succeeded(vars.answer, vars.answer.Status == 200)
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
	holds, err := r.valid.Truth(ctx, vars.Names)
	if err == nil && !holds {
		err = refusal(*vars.answer, true)
	}
	return err
}

// Stale says why an answer may show less than there is now: it comes from a
// cache (RFC 9111 §5.1, §5.5; RFC 9211), or from a replica. "" when it is fresh.
func Stale(a ledger.Answer) string {
	h := http.Header(a.Header)
	if h.Get("X-Indoubt-Stale") != "" { // of a database that follows another one
		return "answer came from a replica, which may lag behind"
	}
	if old := aged(h); old != "" {
		return old
	}
	for _, warning := range h.Values("Warning") {
		if code, _, _ := strings.Cut(strings.TrimSpace(warning), " "); code == "110" || code == "111" || code == "112" || code == "113" {
			return fmt.Sprintf("answer came from a cache (Warning: %s)", code)
		}
	}
	for _, name := range []string{"Cache-Status", "X-Cache", "X-Cache-Status", "Cf-Cache-Status"} {
		if v := strings.Join(h.Values(name), ", "); saysHit(v) {
			return fmt.Sprintf("answer came from a cache (%s: %s)", name, expr.Shorten(v, 60))
		}
	}
	// A cache that hides itself leaves the date of what it kept. Dates are in
	// whole seconds.
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		if old := a.BeganAt.Sub(date); old > Skew+time.Second {
			return fmt.Sprintf("answer is dated %s before it was asked for: it came from a cache, or the downstream's clock is off", Brief(old.Round(time.Second)))
		}
	}
	return ""
}

// WithoutAge is the answer without the age that was taken account of.
func WithoutAge(a ledger.Answer) ledger.Answer {
	if _, old := a.Header["Age"]; old {
		a.Header = maps.Clone(a.Header)
		delete(a.Header, "Age")
	}
	return a
}

// aged says how old an answer is by its own headers, "" when it is fresh.
func aged(h http.Header) string {
	for _, age := range h.Values("Age") {
		age = strings.TrimSpace(age)
		seconds, err := strconv.ParseFloat(age, 64)
		switch {
		case age == "" || err == nil && seconds == 0:
		case err != nil || !(seconds > 0):
			return "answer came from a cache, of unknown age"
		default:
			return fmt.Sprintf("answer came from a cache, %s s old", expr.FormatNumber(seconds))
		}
	}
	return ""
}

// saysHit reports whether a cache on the way answered by itself.
func saysHit(v string) bool {
	words := strings.FieldsFunc(strings.ToLower(v), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	for i, w := range words {
		switch w {
		case "hit", "refreshhit", "stale", "updating":
			no := i+1 < len(words) && words[i+1] == "0" // hit=?0
			why := i > 0 && words[i-1] == "fwd"         // fwd=stale: it went on because of that
			if !no && !why {
				return true
			}
		}
	}
	return false
}

const (
	// maxComplaint bounds, in bytes, how much of a command's standard error stands
	// in a reason.
	maxComplaint = 400
	// searched is how much of the end of standard error is searched for it.
	searched = 16 << 10
)

// Complaint is the end of a command's standard error as ": …" on one line, without
// what looks like a secret, and "" where the command wrote nothing. It keeps whole
// words: half a secret would not be recognised.
func Complaint(a ledger.Answer) string {
	text := a.Stderr
	if len(text) > searched {
		text = text[len(text)-searched:]
		if i := bytes.IndexAny(text, " \t\r\n"); i >= 0 {
			text = text[i:]
		}
	}
	said := strings.Join(strings.Fields(redact.Without(strings.ToValidUTF8(string(text), "\uFFFD"), nil)), " ")
	if over := len(said) - maxComplaint; over > 0 {
		if _, said, _ = strings.Cut(said[over:], " "); said != "" {
			said = "… " + said
		}
	}
	if said == "" {
		return ""
	}
	return ": " + said
}
