package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/reconcile"
	"indoubt/reconcile/connect"
)

type trialOf struct {
	op, input, token string
}

type tryCommand struct{ *app }

func newPolicyTryCommand(a *app) *cobra.Command {
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
		Args:              exactly("a KIND"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case of.op == "" && of.input == "":
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
	return cmd
}

func (c tryCommand) try(ctx context.Context, p *policy.Policy, kind *policy.Kind, of trialOf) error {
	if err := c.mayChange("ask a downstream"); err != nil {
		return err
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
	now := c.clock()
	if of.op == "" { // nothing was sent, so no clock runs: all of them have run
		now = rec.Now
	}
	if _, err := kind.Read.Request(rec, nil); err != nil {
		return cannotAsk(err)
	}
	var over reconcile.Connections
	defer over.Close()
	trial := kind.Try(ctx, rec, now, reconcile.MaxPages, func(_ int, request policy.Request, bad error) (ledger.Answer, error) {
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
	t.withhold(policy.Withhold)
	return c.done("", t, t.write)
}

func cannotAsk(err error) error {
	f := &failure{Code: "bad_policy", Message: "the request cannot be made: " + err.Error(), cause: err}
	if missing := (*policy.MissingSecretError)(nil); errors.As(err, &missing) && !missing.File {
		f.Hint = "export " + missing.Name
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
	if !json.Valid(input) {
		return ledger.Record{}, usage("--input is not JSON", `write it as '{"customer":"cus_9"}'`)
	}
	rec := kind.Rehearsal(input, cmp.Or(of.token, "indoubt-test"), c.clock().Truncate(time.Second))
	rec.Now = kind.Late(rec)
	return rec, nil
}
