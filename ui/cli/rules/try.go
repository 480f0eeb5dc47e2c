package rules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ledger/redact"
	"indoubt/policy"
	"indoubt/policy/transport"
	"indoubt/policy/verdict"
	"indoubt/reconcile"
	"indoubt/reconcile/connect"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

type trialOf struct {
	op, input, token string
}

type tryCommand struct{ *base.App }

func newPolicyTryCommand(a *base.App) *cobra.Command {
	var of trialOf
	cmd := &cobra.Command{
		Use:   "try KIND --op ID | --input JSON",
		Short: "Ask once as the check of a kind would, and show what it makes of the answer",
		Long: `Make the check of a kind for one operation, or for an input that was never sent,
page by page, and show each request, its answer, what every expression gives, by
what the check recognises an effect and whose each candidate is, the verdict and
the advice. Nothing is recorded and nothing is decided: to let the
answer count, use ` + "`indoubt check ID`" + `.

Exit 0 whatever the verdict is; 3 when there is no such kind or operation, 5 when
the kind has no check.`,
		Example: "  indoubt policy try stripe.charge --op 0198c1de-7a3b\n" +
			"  indoubt policy try stripe.charge --input '{\"customer\":\"cus_9\",\"amount\":4200}'",
		Args:              base.Exactly("a KIND"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case of.op == "" && of.input == "":
				return base.Usage("policy try needs an operation or an input to look for", "add --op ID, or --input JSON")
			case of.op != "" && (of.input != "" || of.token != ""):
				return base.Usage("--op names the input and the token already", "leave out --input and --token")
			}
			p, err := a.Policy()
			if err != nil {
				return err
			}
			kind, err := kindNamed(a, p, args[0])
			if err != nil {
				return err
			}
			return tryCommand{a}.try(cmd.Context(), p, kind, of)
		},
	}
	f := cmd.Flags()
	f.StringVar(&of.op, "op", "", "the operation to look for")
	f.StringVar(&of.input, "input", "", "the input of an operation that was never sent, as JSON")
	f.StringVar(&of.token, "token", "", "its correlation token (default indoubt-test)")
	return cmd
}

func (c tryCommand) try(ctx context.Context, p *policy.Policy, kind *policy.Kind, of trialOf) error {
	if err := c.MayChange("ask a downstream"); err != nil {
		return err
	}
	if kind.Read == nil {
		return &base.Failure{Code: "no_check", Message: fmt.Sprintf("%s has no check", kind.Name),
			Hint: "write read: for it, and `indoubt policy check`"}
	}
	rec, err := c.record(ctx, kind, of)
	if err != nil {
		return err
	}
	if its := rec.Operation.Kind; p.Kind(its).Pattern != kind.Pattern {
		return base.Usage(fmt.Sprintf("%s is a %s, not a %s", rec.Operation.ID, its, kind.Name),
			"indoubt policy try "+its+" --op "+rec.Operation.ID)
	}
	now := c.Clock()
	if of.op == "" { // nothing was sent, so no clock runs: all of them have run
		now = rec.Now
	}
	if _, err := kind.Read.Request(rec, nil); err != nil {
		return cannotAsk(err)
	}
	var over reconcile.Connections
	defer over.Close()
	trial := kind.Try(ctx, rec, now, reconcile.MaxPages, func(_ int, request transport.Request, bad error) (ledger.Answer, error) {
		if bad != nil {
			return ledger.Answer{}, bad
		}
		return over.Read(ctx, new(connect.HTTP), kind, request), nil
	})
	t := trialJSON{Known: kind.Read.Recognises(), Pages: ledger.Each(trial.Pages, pageOf)}
	t.judge(kind.Read, rec, trial)
	for _, page := range trial.Pages {
		t.withhold(page.Request.Withhold)
	}
	t.withhold(func(text string) string { return redact.Hide(text) })
	return c.Done("", t, t.write)
}

func cannotAsk(err error) error {
	f := &base.Failure{Code: "bad_policy", Message: "the request cannot be made: " + err.Error(), Cause: err}
	if missing := (*transport.MissingError)(nil); errors.As(err, &missing) && missing.What == "variable" {
		f.Hint = "export " + missing.Name
	}
	return f
}

// record is the operation that is named, or one that was never sent.
func (c tryCommand) record(ctx context.Context, kind *policy.Kind, of trialOf) (ledger.Record, error) {
	if of.op != "" {
		s, err := c.LedgerFor(ctx, base.ToLook)
		if err != nil {
			return ledger.Record{}, err
		}
		return base.ReadRecord(ctx, c.App, s, of.op)
	}
	input := []byte(of.input)
	if !json.Valid(input) {
		return ledger.Record{}, base.Usage("--input is not JSON", `write it as '{"customer":"cus_9"}'`)
	}
	rec := kind.Rehearsal(input, cmp.Or(of.token, "indoubt-test"), c.Clock().Truncate(time.Second))
	rec.Now = kind.Late(rec)
	return rec, nil
}

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
				s.Value = json.RawMessage(`"` + redact.Mark + `"`)
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
	t.Verdict, t.Problem = trial.Verdict, base.Text(trial.Reason)
	t.Valid, t.Complete, t.Next = f.Valid, f.Complete, f.Next != nil
	t.Found = base.Each(f.Effects, func(e verdict.Effect) effectJSON { return effectJSON{e.Receipt, e.Same} })
	switch {
	case t.Verdict == ledger.NotThere:
		t.Problem = base.Text("none found, which proves it only where the same check finds another operation before it and one after it")
	case t.Verdict.Tells() && read.NeedsNegativeControl(rec):
		t.Problem = base.Text(trial.Reason + ", which counts only with a control: the same check finding nothing for what was never sent")
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
