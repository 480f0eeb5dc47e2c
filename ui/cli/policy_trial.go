package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

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
	Request string        `json:"request"`
	Status  int           `json:"status,omitempty"`
	Exit    *int          `json:"exit,omitempty"`
	Answer  string        `json:"answer"`
	Steps   []policy.Step `json:"steps"`
}

func pageOf(page policy.TrialPage) pageJSON {
	a := page.Answer
	out := pageJSON{Request: page.Request.Shown, Status: a.Status, Steps: page.Steps}
	parts := []string{string(a.Body), string(a.Stdout), string(a.Stderr), string(a.Rows)}
	if a.Exited {
		out.Exit = &a.Exit
	}
	switch {
	case a.RPC != nil && a.RPC.Error:
		parts = append(parts, fmt.Sprintf("error %d: %s", a.RPC.Code, a.RPC.Message))
	case a.RPC != nil:
		parts = append(parts, string(a.RPC.Result))
	}
	if a.Err != nil {
		parts = append(parts, a.Err.Error())
	}
	out.Answer = strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "\n")
	return out
}

func gave(s policy.Step) string {
	if s.Error != "" {
		return "error: " + s.Error
	}
	return string(s.Value)
}

// withhold takes secrets out of what came back: the other side may repeat those of the request.
func (t *trialJSON) withhold(hide func(string) string) {
	if t.Problem != nil {
		*t.Problem = hide(*t.Problem)
	}
	for i := range t.Found {
		t.Found[i].Receipt = hide(t.Found[i].Receipt)
	}
	for i := range t.Pages {
		page := &t.Pages[i]
		page.Answer = hide(page.Answer)
		for j := range page.Steps {
			s := &page.Steps[j]
			s.Error = hide(s.Error)
			if s.Value == nil {
				continue
			}
			if s.Value = json.RawMessage(hide(string(s.Value))); !json.Valid(s.Value) {
				s.Value = json.RawMessage(`"` + policy.Withheld + `"`)
			}
		}
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
	t.Found = each(f.Effects, func(e policy.Effect) effectJSON { return effectJSON{e.Receipt, e.Same} })
	switch {
	case t.Verdict == ledger.NotThere:
		t.Problem = text("none found, which proves it only where the same check finds another operation before it and one after it")
	case t.Verdict.Tells() && read.NeedsNegativeControl(rec):
		t.Problem = text(trial.Reason + ", which counts only with a control: the same check finding nothing for what was never sent")
	}
}

// maxShown bounds what a person is shown of an answer, in bytes.
const maxShown = 8 << 10

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
		if page.Status > 0 {
			head += fmt.Sprintf("  status %d", page.Status)
		}
		if page.Exit != nil {
			head += fmt.Sprintf("  exit %d", *page.Exit)
		}
		block(head, beginning(page.Answer))
		for _, one := range page.Steps {
			block(fmt.Sprintf("%-9s %s", strings.ToUpper(one.Name), one.Expression), beginning(gave(one)))
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
