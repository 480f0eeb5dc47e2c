package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/reconcile"
	"indoubt/ui/safe"
)

// notifyTrial says which notices `policy try --notify` shows.
type notifyTrial struct {
	notifier, event, incident string
}

// noticeJSON is one notice as it would be sent.
type noticeJSON struct {
	Notifier string  `json:"notifier"`
	Event    string  `json:"event"`
	Text     string  `json:"text"`
	Request  string  `json:"request"`
	Problem  *string `json:"problem"` // why it could not be sent from here
}

// notify shows what notifiers would be told, and sends nothing.
func (c tryCommand) notify(ctx context.Context, p *policy.Policy, of notifyTrial) error {
	notifiers := p.Notifiers()
	if of.notifier != "" {
		n := p.Notifier(of.notifier)
		if n == nil {
			return &failure{Exit: exitNotFound, Code: "not_found", Message: short(p.Path()) + " has no notifier " + of.notifier, Hint: ledger.DidYouMean(of.notifier, names(notifiers))}
		}
		notifiers = []*policy.Notifier{n}
	}
	if len(notifiers) == 0 {
		return &failure{Exit: exitNotFound, Code: "not_found", Message: "the policy names no one to tell", Hint: "write notify: into it, and `indoubt policy check`"}
	}
	if of.event != "" && !slices.Contains(policy.NotifyEvents, of.event) {
		return usage("there is no event "+of.event, "one of: "+strings.Join(policy.NotifyEvents, " "))
	}
	now := c.clock()
	in := reconcile.MadeUp(now)
	if of.incident != "" {
		s, err := c.ledgerFor(ctx, toLook)
		if err != nil {
			return err
		}
		account, err := s.Incident(ctx, of.incident, now)
		if err != nil {
			return err
		}
		in = account.Incident
	}
	out := []noticeJSON{}
	for _, n := range notifiers {
		for _, event := range policy.NotifyEvents {
			if event != cmp.Or(of.event, event) || !n.Wants(event) || of.incident != "" && !n.Wants(event, in.Kinds...) {
				continue
			}
			notice := reconcile.Rehearsal(p, c.ledgerName(), event, in, now)
			rec := notice.Record(n.Name, now)
			one := noticeJSON{Notifier: n.Name, Event: event, Text: notice.Input.Text}
			request, err := p.Kind(rec.Operation.Kind).Send.Request(rec)
			if one.Request = request.Shown; err != nil {
				one.Problem = text(p.Withhold(err.Error()))
			}
			out = append(out, one)
		}
	}
	return c.done(effectNoop, map[string]any{"notices": out}, func(w *safe.Writer) {
		for i, one := range out {
			if i > 0 {
				w.Println("")
			}
			w.Printf("%s is told %s\n", one.Notifier, one.Event)
			if one.Problem != nil {
				w.Printf("  it cannot be sent from here: %s\n  %s\n", *one.Problem, one.Text)
				continue
			}
			for line := range strings.Lines(one.Request) {
				w.Printf("  %s\n", strings.TrimSuffix(line, "\n"))
			}
		}
		if len(out) == 0 {
			w.Println("no one is told of it")
			return
		}
		w.Printf("\nNothing was sent.\n")
	})
}

func names(notifiers []*policy.Notifier) []string {
	return each(notifiers, func(n *policy.Notifier) string { return n.Name })
}
