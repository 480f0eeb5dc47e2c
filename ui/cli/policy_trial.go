package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/ui/safe"
)

// trialJSON is what one answer shows. Outcome is of an answer to the write,
// Verdict of one to the check.
type trialJSON struct {
	Request  string         `json:"request"`
	Answer   answerJSON     `json:"answer"`
	Found    []effectJSON   `json:"found"`
	Valid    bool           `json:"valid"`
	Complete bool           `json:"complete"`
	Next     bool           `json:"next"`
	Problem  *string        `json:"problem"`
	Verdict  ledger.Verdict `json:"verdict,omitempty"`
	Outcome  *string        `json:"outcome"`
	Advice   *adviceJSON    `json:"advice"`
	Steps    []stepJSON     `json:"steps"`
}

// stepJSON is one expression and what it gave.
type stepJSON struct {
	Name       string          `json:"name"`
	Expression string          `json:"expression"`
	Value      json.RawMessage `json:"value"`
	Error      *string         `json:"error"`
}

func stepAsJSON(one policy.Step) stepJSON {
	s := stepJSON{Name: one.Name, Expression: one.Expression, Value: raw(one.Value)}
	if one.Err != nil {
		s.Error = text(one.Err.Error())
	}
	return s
}

type answerJSON struct {
	Status   int             `json:"status"`
	Exit     *int            `json:"exit"`
	Body     string          `json:"body"`
	Result   json.RawMessage `json:"result"`
	Rows     json.RawMessage `json:"rows"`
	Affected int64           `json:"affected"`
	Error    *string         `json:"error"`
}

func answerAsJSON(a ledger.Answer) answerJSON {
	out := answerJSON{Status: a.Status, Body: string(a.Body), Rows: raw(a.Rows), Result: raw(nil), Affected: a.Affected}
	if a.Exited {
		out.Exit, out.Body = &a.Exit, string(a.Stdout)
	}
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
	for _, part := range []string{a.Body, known(a.Result), known(a.Rows)} {
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

// withhold takes the secrets of the request out of what came back: the other
// side may repeat them.
func (t *trialJSON) withhold(r policy.Request) {
	line := func(s *string) {
		if s != nil {
			*s = r.Withhold(*s)
		}
	}
	data := func(b json.RawMessage) json.RawMessage {
		if out := json.RawMessage(r.Withhold(string(b))); json.Valid(out) {
			return out
		}
		return json.RawMessage(`"` + policy.Withheld + `"`)
	}
	line(&t.Answer.Body)
	line(t.Answer.Error)
	line(t.Problem)
	t.Answer.Result, t.Answer.Rows = data(t.Answer.Result), data(t.Answer.Rows)
	for i := range t.Found {
		line(&t.Found[i].Receipt)
		line(t.Found[i].Differs)
	}
	for i := range t.Steps {
		t.Steps[i].Value = data(t.Steps[i].Value)
		line(t.Steps[i].Error)
	}
}

type effectJSON struct {
	Receipt string  `json:"receipt"`
	Same    bool    `json:"same"`
	Differs *string `json:"differs"`
}

// judge says what this one answer shows. Proof that nothing landed needs more
// than one answer: a check that is known to find.
func (t *trialJSON) judge(trial policy.Trial) {
	f := trial.Found
	t.Verdict, t.Problem, t.Advice = trial.Verdict, text(trial.Reason), &adviceJSON{trial.Advice.Verb, trial.Advice.Reason}
	t.Valid, t.Complete, t.Next = f.Valid, f.Complete, f.Next != nil
	for _, e := range f.Effects {
		t.Found = append(t.Found, effectJSON{e.Receipt, e.Same, text(e.Differs)})
	}
	if t.Verdict == ledger.Absent {
		t.Problem = text("none found, which proves it only with a control: the same check finding something that is there")
	}
}

func (t trialJSON) write(w io.Writer) {
	block := func(head, body string) {
		fmt.Fprintln(w, head)
		for _, line := range strings.Split(strings.TrimRight(safe.Lines(body), "\n"), "\n") {
			fmt.Fprintln(w, "  "+line)
		}
	}
	block("REQUEST", t.Request)
	head := "ANSWER"
	if t.Answer.Status > 0 {
		head += fmt.Sprintf("  status %d", t.Answer.Status)
	}
	if t.Answer.Exit != nil {
		head += fmt.Sprintf("  exit %d", *t.Answer.Exit)
	}
	block(head, t.Answer.text())
	for _, one := range t.Steps {
		value := string(one.Value)
		if one.Error != nil {
			value = "error: " + *one.Error
		}
		block(fmt.Sprintf("%-9s %s", strings.ToUpper(one.Name), safe.Text(one.Expression)), value)
	}
	line := "VERDICT   " + verdictWords(t.Verdict)
	if t.Outcome != nil {
		line = "OUTCOME   " + *t.Outcome
	}
	if t.Problem != nil {
		line += ": " + *t.Problem
	}
	fmt.Fprintln(w, safe.Lines(line))
	if t.Advice != nil {
		fmt.Fprintln(w, safe.Lines("ADVICE    "+t.Advice.Verb+": "+t.Advice.Reason))
	}
}
