package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// trialJSON is what the answers show.
type trialJSON struct {
	Pages    []pageJSON     `json:"pages"`
	Found    []effectJSON   `json:"found"`
	Valid    bool           `json:"valid"`
	Complete bool           `json:"complete"`
	Next     bool           `json:"next"`
	Known    string         `json:"recognises"` // by what an effect is recognised
	Problem  *string        `json:"problem"`
	Verdict  ledger.Verdict `json:"verdict"`
}

// pageJSON is one request, its answer, and what every expression makes of it.
type pageJSON struct {
	Request string     `json:"request"`
	Answer  answerJSON `json:"answer"`
	Steps   []stepJSON `json:"steps"`
}

// stepJSON is one expression and what it gave.
type stepJSON struct {
	Name       string          `json:"name"`
	Expression string          `json:"expression"`
	Value      json.RawMessage `json:"value"`
	Error      *string         `json:"error"`
}

func stepsAsJSON(steps []policy.Step) []stepJSON {
	out := make([]stepJSON, 0, len(steps))
	for _, one := range steps {
		s := stepJSON{Name: one.Name, Expression: one.Expression, Value: raw(one.Value)}
		if one.Err != nil {
			s.Error = text(one.Err.Error())
		}
		out = append(out, s)
	}
	return out
}

// result is the value as a person reads it.
func (s stepJSON) result() string {
	if s.Error != nil {
		return "error: " + *s.Error
	}
	return string(s.Value)
}

type answerJSON struct {
	Status int             `json:"status"`
	Exit   *int            `json:"exit"`
	Body   string          `json:"body"`
	Stderr string          `json:"stderr"`
	Result json.RawMessage `json:"result"`
	Rows   json.RawMessage `json:"rows"`
	Error  *string         `json:"error"`
}

func answerAsJSON(a ledger.Answer) answerJSON {
	out := answerJSON{Status: a.Status, Body: string(a.Body), Rows: raw(a.Rows), Result: raw(nil)}
	if a.Exited {
		out.Exit, out.Body = &a.Exit, string(a.Stdout)
	}
	out.Stderr = string(a.Stderr)
	if a.RPC != nil {
		out.Result = raw(a.RPC.Result)
		if a.RPC.Error {
			out.Error = text(fmt.Sprintf("error %d: %s", a.RPC.Code, a.RPC.Message))
		}
	}
	if a.Err != nil {
		out.Error = text(a.Err.Error())
	}
	return out
}

// text is the answer as a person reads it.
func (a answerJSON) text() string {
	parts := []string{}
	for _, part := range []string{a.Body, a.Stderr, known(a.Result), known(a.Rows)} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if a.Error != nil {
		parts = append(parts, *a.Error)
	}
	return strings.Join(parts, "\n")
}

func known(b json.RawMessage) string {
	if string(b) == "null" {
		return ""
	}
	return string(b)
}

// withheld is a JSON text without secrets.
func withheld(b json.RawMessage, hide func(string) string) json.RawMessage {
	if out := json.RawMessage(hide(string(b))); json.Valid(out) {
		return out
	}
	return json.RawMessage(`"` + policy.Withheld + `"`)
}

// withhold takes secrets out of what came back: the other side may repeat those of
// the request, and a saved answer may hold any.
func (t *trialJSON) withhold(hide func(string) string) {
	line := func(s *string) {
		if s != nil {
			*s = hide(*s)
		}
	}
	data := func(b json.RawMessage) json.RawMessage { return withheld(b, hide) }
	line(t.Problem)
	for i := range t.Found {
		line(&t.Found[i].Receipt)
	}
	for _, page := range t.Pages {
		for i := range page.Steps {
			page.Steps[i].Value = data(page.Steps[i].Value)
			line(page.Steps[i].Error)
		}
	}
	for i := range t.Pages {
		a := &t.Pages[i].Answer
		line(&a.Body)
		line(&a.Stderr)
		line(a.Error)
		a.Result, a.Rows = data(a.Result), data(a.Rows)
	}
}

type effectJSON struct {
	Receipt string `json:"receipt"`
	Same    bool   `json:"same"`
}

// judge says what the answers show. A verdict needs more than that: that the check finds
// what is there, and only that.
func (t *trialJSON) judge(read *policy.Read, rec ledger.Record, trial policy.Trial) {
	f := trial.Found
	t.Verdict, t.Problem = trial.Verdict, text(trial.Reason)
	t.Valid, t.Complete, t.Next = f.Valid, f.Complete, f.Next != nil
	for _, e := range f.Effects {
		t.Found = append(t.Found, effectJSON{e.Receipt, e.Same})
	}
	switch {
	case t.Verdict == ledger.NotThere:
		t.Problem = text("none found, which proves it only where the same check finds another operation before it and one after it")
	case t.Verdict.Tells() && read.NeedsNegativeControl(rec):
		t.Problem = text(trial.Reason + ", which counts only with a control: the same check finding nothing for what was never sent")
	}
}

// maxShown bounds what a person is shown of an answer, in bytes.
const maxShown = 8 << 10

// beginning is a text as far as a person reads it.
func beginning(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return fmt.Sprintf("%s\n… %d bytes more; --json has them", strings.ToValidUTF8(s[:maxShown], ""), len(s)-maxShown)
}

func (t trialJSON) write(w *safe.Writer) {
	block := func(head, body string) {
		w.Println(safe.Exact(head))
		for _, line := range strings.Split(strings.TrimRight(body, "\n"), "\n") {
			w.Println(safe.Exact("  " + line))
		}
	}
	for i, page := range t.Pages {
		number := ""
		if len(t.Pages) > 1 {
			number = fmt.Sprintf("   page %d", i+1)
		}
		block("REQUEST"+number, page.Request)
		head := "ANSWER" + strings.Replace(number, " ", "  ", 1)
		if page.Answer.Status > 0 {
			head += fmt.Sprintf("  status %d", page.Answer.Status)
		}
		if page.Answer.Exit != nil {
			head += fmt.Sprintf("  exit %d", *page.Answer.Exit)
		}
		block(head, beginning(page.Answer.text()))
		for _, one := range page.Steps {
			block(fmt.Sprintf("%-9s %s", strings.ToUpper(one.Name), one.Expression), beginning(one.result()))
		}
	}
	words := ticket.VerdictWord(t.Verdict)
	if t.Verdict == ledger.NotThere {
		words = "did not land"
	}
	w.Println(safe.Exact("RECOGNISES " + t.Known))
	line := "VERDICT   " + words
	if t.Problem != nil {
		line += ": " + *t.Problem
	}
	w.Println(safe.Exact(line))
}
