package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/reconcile/connect"
	"indoubt/ui/safe"
)

func newPolicyTryCommand(a *app) *cobra.Command {
	var op string
	cmd := &cobra.Command{
		Use:   "try KIND --op ID",
		Short: "Ask once as the check of a kind would, and show what it makes of the answer",
		Long: `Make the check of a kind for one operation, show the request, the answer and
what the policy finds in it. Nothing is recorded and nothing is decided: to let
the answer count, use ` + "`indoubt reconcile ID`.",
		Example: "  indoubt policy try stripe.charge --op 0198c1de-7a3b",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := someArgs("a KIND")(cmd, args); err != nil {
				return err
			}
			return maxArgs(1)(cmd, args)
		},
		ValidArgsFunction: a.completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			if op == "" {
				return usage("policy try needs an operation to look for", "add --op ID")
			}
			p, err := a.policy()
			if err != nil {
				return err
			}
			return a.tryCheck(cmd.Context(), p.Kind(args[0]), op)
		},
	}
	cmd.Flags().StringVar(&op, "op", "", "the operation to look for")
	_ = cmd.RegisterFlagCompletionFunc("op", a.completeIDs(nil, false))
	return cmd
}

type trialJSON struct {
	Request  string         `json:"request"`
	Answer   answerJSON     `json:"answer"`
	Found    []effectJSON   `json:"found"`
	Valid    bool           `json:"valid"`
	Complete bool           `json:"complete"`
	Next     bool           `json:"next"`
	Problem  *string        `json:"problem"`
	Verdict  ledger.Verdict `json:"verdict"`
	Steps    []stepJSON     `json:"steps"`
}

// stepJSON is one expression of the check and what it gave.
type stepJSON struct {
	Name       string          `json:"name"`
	Expression string          `json:"expression"`
	Value      json.RawMessage `json:"value"`
	Error      *string         `json:"error"`
}

type answerJSON struct {
	Status int     `json:"status"`
	Exit   *int    `json:"exit"`
	Body   string  `json:"body"`
	Error  *string `json:"error"`
}

type effectJSON struct {
	Receipt string `json:"receipt"`
	Same    bool   `json:"same"`
}

func (a *app) tryCheck(ctx context.Context, kind *policy.Kind, op string) error {
	if err := a.mayChange("ask a downstream"); err != nil {
		return err
	}
	if kind.Read == nil {
		return &failure{Exit: exitRefused, Code: "no_check", Message: fmt.Sprintf("%s has no check", kind.Name), Hint: "write read: for it, and `indoubt policy check`"}
	}
	s, err := a.ledgerFor(ctx, toLook)
	if err != nil {
		return err
	}
	rec, err := a.read(ctx, s, op)
	if err != nil {
		return err
	}
	request, err := kind.Read.Request(rec, nil)
	if err != nil {
		return &failure{Exit: exitError, Code: "bad_request", Message: "the request cannot be made: " + err.Error(), cause: err}
	}
	t := trialJSON{Found: []effectJSON{}, Steps: []stepJSON{}}
	answer := ask(ctx, kind, request, &t)
	t.Answer = answerJSON{Status: answer.Status, Body: string(answer.Body)}
	if answer.Exited {
		t.Answer.Exit, t.Answer.Body = &answer.Exit, string(answer.Stdout)
	}
	if answer.Err != nil {
		t.Answer.Error = text(answer.Err.Error())
	}
	for _, one := range kind.Read.Trace(ctx, rec, answer) {
		step := stepJSON{Name: one.Name, Expression: one.Expression, Value: raw(one.Value)}
		if one.Err != nil {
			step.Error = text(one.Err.Error())
		}
		t.Steps = append(t.Steps, step)
	}
	t.judge(ctx, kind, rec, answer)
	return a.done("", t, t.write)
}

// ask carries a rendered request out, as the engine does.
func ask(ctx context.Context, kind *policy.Kind, r policy.Request, t *trialJSON) ledger.Answer {
	if r.HTTP != nil {
		t.Request = r.HTTP.Shown
		return new(connect.HTTP).Read(ctx, connect.HTTPRequest{Method: r.HTTP.Method, URL: r.HTTP.URL, Header: r.HTTP.Header, Body: r.HTTP.Body, Timeout: kind.Timeout})
	}
	t.Request = r.Command.Shown
	return connect.Command(ctx, connect.CommandRequest{Argv: r.Command.Argv, Dir: r.Command.Dir, Env: r.Command.Env, Stdin: r.Command.Stdin, Timeout: kind.Timeout})
}

// judge says what this one answer shows. Proof that nothing landed needs more
// than one answer: the time that has passed, and a check that is known to find.
func (t *trialJSON) judge(ctx context.Context, kind *policy.Kind, rec ledger.Record, answer ledger.Answer) {
	t.Verdict = ledger.Inconclusive
	found, err := kind.Read.Judge(ctx, rec, answer)
	if err != nil {
		t.Problem = text(err.Error())
		return
	}
	t.Valid, t.Complete, t.Next = found.Valid, found.Complete, found.Next != nil
	for _, e := range found.Effects {
		t.Found = append(t.Found, effectJSON{e.Receipt, e.Same})
	}
	switch {
	case !found.Valid:
		t.Problem = text("the answer is not valid")
	case len(found.Effects) > 1:
		t.Verdict = ledger.Duplicated
	case len(found.Effects) == 1 && found.Effects[0].Same:
		t.Verdict = ledger.Landed
	case len(found.Effects) == 1:
		t.Verdict = ledger.Mismatch
	default:
		t.Problem = text("none found here; a check proves it only when it is complete, late enough, and has been seen to find something")
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
	body := t.Answer.Body
	if t.Answer.Error != nil {
		body += "\n" + *t.Answer.Error
	}
	block(head, body)
	for _, one := range t.Steps {
		value := string(one.Value)
		if one.Error != nil {
			value = "error: " + *one.Error
		}
		block(fmt.Sprintf("%-9s %s", strings.ToUpper(one.Name), safe.Text(one.Expression)), value)
	}
	line := "VERDICT   " + verdictWords(t.Verdict)
	if t.Problem != nil {
		line += ": " + *t.Problem
	}
	fmt.Fprintln(w, safe.Lines(line))
}
