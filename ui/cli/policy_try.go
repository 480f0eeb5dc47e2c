package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/reconcile"
	"indoubt/reconcile/connect"
)

// trialOf says what `policy try` is to try a kind on.
type trialOf struct {
	op, input, token string
	answers          []string
}

// tryCommand makes the check of a kind once.
type tryCommand struct{ *app }

func newPolicyTryCommand(a *app) *cobra.Command {
	var of trialOf
	cmd := &cobra.Command{
		Use:   "try KIND --op ID | --input JSON [--answer FILE]…",
		Short: "Ask once as the check of a kind would, and show what it makes of the answer",
		Long: `Make the check of a kind for one operation, or for an input that was never sent,
page by page, and show each request, its answer, what every expression gives, by
what the check recognises an effect and whose each candidate is, the verdict and
the advice. Nothing is recorded and nothing is decided: to let the
answer count, use ` + "`indoubt check ID`" + `.

With --answer nothing is asked: the answer is read from a file, or from standard
input (-); the following pages are further --answer. The file is the text of an
HTTP response as curl -i prints it, a mapping as under tests: in the policy
(status, headers, body; exit, stdout, stderr; structured, content, isError; rows), or
else a bare body.

Exit 0 whatever the verdict is; 3 when there is no such kind or operation, 5 when
the kind has no check.`,
		Example: "  indoubt policy try stripe.charge --op 0198c1de-7a3b\n" +
			"  indoubt policy try stripe.charge --input '{\"customer\":\"cus_9\",\"amount\":4200}' --answer found.http",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := someArgs("a KIND")(cmd, args); err != nil {
				return err
			}
			return maxArgs(1)(cmd, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case of.op == "" && of.input == "" && len(of.answers) == 0:
				return usage("policy try needs an operation or an input to look for", "add --op ID, or --input JSON")
			case of.op != "" && (of.input != "" || of.token != ""):
				return usage("--op names the input and the token already", "leave out --input and --token")
			}
			p, err := a.policy()
			if err != nil {
				return err
			}
			kind, err := a.kindNamed(p, args[0])
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
	f.StringArrayVar(&of.answers, "answer", nil, "a file with a saved answer, one a page; nothing is asked")
	return cmd
}

func (c tryCommand) try(ctx context.Context, p *policy.Policy, kind *policy.Kind, of trialOf) error {
	if len(of.answers) == 0 {
		if err := c.mayChange("ask a downstream"); err != nil {
			return err
		}
	}
	if kind.Read == nil {
		return &failure{Code: "no_check", Message: fmt.Sprintf("%s has no check", kind.Name), Hint: "write read: for it, and `indoubt policy check`"}
	}
	rec, err := c.record(ctx, kind, of)
	if err != nil {
		return err
	}
	if its := rec.Operation.Kind; p.Kind(its).Pattern != kind.Pattern {
		return usage(fmt.Sprintf("%s is a %s, not a %s", rec.Operation.ID, its, kind.Name), "indoubt policy try "+its+" --op "+rec.Operation.ID)
	}
	saved, err := c.savedAnswers(of.answers)
	if err != nil {
		return err
	}
	now := c.clock()
	if of.op == "" { // nothing was sent, so no clock runs: all of them have run
		now = rec.Now
	}
	requests, answers, err := lookUp(ctx, kind, rec, saved)
	if err != nil {
		return err
	}
	t := trialJSON{Found: []effectJSON{}, Known: kind.Read.Recognises()}
	trial := kind.Try(ctx, rec, now, answers...)
	for i, answer := range answers {
		page := pageJSON{Request: requests[i].Shown, Answer: answerAsJSON(answer)}
		page.Steps = stepsAsJSON(slices.DeleteFunc(slices.Clone(trial.Steps), func(s policy.Step) bool { return s.Page != i+1 }))
		t.Pages = append(t.Pages, page)
	}
	t.judge(kind.Read, rec, trial)
	for _, r := range requests {
		t.withhold(r.Withhold)
	}
	t.withhold(policy.Withhold)
	return c.done("", t, t.write)
}

// lookUp asks page by page, or takes the saved answers, and gives the request of each.
func lookUp(ctx context.Context, kind *policy.Kind, rec ledger.Record, saved []*policy.SavedAnswer) (requests []policy.Request, answers []ledger.Answer, err error) {
	var cursor any
	var all policy.Findings
	var over reconcile.Connections
	defer over.Close()
	for page := 1; ; page++ {
		request, err := kind.Read.Request(rec, cursor)
		switch missing := (*policy.MissingSecretError)(nil); {
		case page > 1 && cursor == nil:
			request = policy.Request{Shown: "would not be made: the page before is the last"}
		case err == nil:
		case errors.As(err, &missing) && saved != nil: // nothing is asked, so nothing is missing
			request.Shown = "cannot be made here: " + err.Error()
		case page > 1: // the trial says so, too
			return requests, answers, nil
		default:
			return nil, nil, cannotAsk(err)
		}
		var answer ledger.Answer
		if saved != nil {
			answer = saved[page-1].Answer(kind.Read.Via())
		} else {
			answer = over.Read(ctx, new(connect.HTTP), kind, request)
		}
		requests, answers = append(requests, request), append(answers, answer)
		if saved != nil && page == len(saved) {
			return requests, answers, nil
		}
		found, err := kind.Read.JudgePage(ctx, rec, cursor, answer)
		if cursor = found.Next; saved != nil {
			continue // there is one more, whether or not it would be asked for
		}
		if err != nil {
			return requests, answers, nil
		}
		if cursor = all.Add(found, reconcile.MaxPages); cursor == nil {
			return requests, answers, nil
		}
	}
}

func cannotAsk(err error) error {
	f := &failure{Code: "bad_policy", Message: "the request cannot be made: " + err.Error(), cause: err}
	if missing := (*policy.MissingSecretError)(nil); errors.As(err, &missing) && !missing.File {
		f.Hint = "export " + missing.Name + ", or try a saved answer: --answer FILE"
	}
	return f
}

// record is the operation that is named, or one that was never sent.
func (c tryCommand) record(ctx context.Context, kind *policy.Kind, of trialOf) (ledger.Record, error) {
	if of.op != "" {
		s, err := c.ledgerFor(ctx, toLook)
		if err != nil {
			return ledger.Record{}, err
		}
		return c.read(ctx, s, of.op)
	}
	input := []byte(of.input)
	if of.input == "" {
		input = []byte("{}")
	}
	if !json.Valid(input) {
		return ledger.Record{}, usage("--input is not JSON", `write it as '{"customer":"cus_9"}'`)
	}
	token := of.token
	if token == "" {
		token = "indoubt-test"
	}
	rec := kind.Rehearsal(input, token, c.clock().Truncate(time.Second))
	rec.Now = kind.Late(rec)
	return rec, nil
}

// maxSaved bounds a saved answer.
const maxSaved = 16 << 20

// savedAnswers reads the answers from their files; nil when none is named.
func (c tryCommand) savedAnswers(paths []string) ([]*policy.SavedAnswer, error) {
	var out []*policy.SavedAnswer
	for _, path := range paths {
		saved, err := c.savedAnswer(path)
		if err != nil {
			return nil, err
		}
		out = append(out, saved)
	}
	return out, nil
}

func (c tryCommand) savedAnswer(path string) (*policy.SavedAnswer, error) {
	var in io.Reader = c.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, noAnswer("no_file", err)
		}
		defer f.Close()
		in = f
	}
	content, err := io.ReadAll(io.LimitReader(in, maxSaved+1))
	if err == nil && len(content) > maxSaved {
		err = errors.New("it is longer than 16 MiB")
	}
	if err != nil {
		return nil, noAnswer("no_file", err)
	}
	saved, err := policy.ParseSavedAnswer(path, content)
	if err != nil {
		return nil, noAnswer("usage", err)
	}
	return &saved, nil
}

func noAnswer(code string, err error) error {
	return &failure{Code: code, Message: "the answer cannot be read: " + err.Error(),
		Hint: "name a file with what the other side said; the page of the policy shows its form", cause: err}
}
