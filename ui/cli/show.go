package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

func newShowCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "show ID", GroupID: groupLook,
		Short: "Show one operation: what was meant, what was seen, what is known, what to do",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := someArgs("an id")(cmd, args); err != nil {
				return err
			}
			return maxArgs(1)(cmd, args)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.show(cmd.Context(), args[0])
		},
	}
	return cmd
}

// maxEvents bounds how much history one command prints.
const maxEvents = 1000

func (a *app) show(ctx context.Context, id string) error {
	s, err := lookedAt(ctx, a)
	if err != nil {
		return err
	}
	rec, err := a.read(ctx, s, id)
	if err != nil {
		return err
	}
	events, err := s.History(ctx, ledger.HistoryQuery{Operation: rec.Operation.ID, Limit: maxEvents})
	if err != nil {
		return err
	}
	v := see(a.policyToLookBy(), rec)
	v.Events = events
	return a.done("", historyJSON(v), func(w *safe.Writer) { writeTicket(w, v) })
}

// read finds one operation by its id, as its writer wrote it, or the beginning of
// that. A copied ID@VERSION names the operation too.
func (a *app) read(ctx context.Context, s ledger.Reader, id string) (ledger.Record, error) {
	id = strings.TrimSpace(id)
	if id == "" {
		return ledger.Record{}, usage("an id is empty", "`indoubt list` prints ids")
	}
	rec, err := s.Read(ctx, ledger.Locator{ID: id})
	if before, _, versioned := cutVersion(id); errors.Is(err, ledger.ErrNotFound) && versioned && before != "" {
		rec, err = s.Read(ctx, ledger.Locator{ID: before})
	}
	if errors.Is(err, ledger.ErrNotFound) && len(id) < 4 {
		return rec, usage(fmt.Sprintf("%q is too short for the beginning of an id", id), "write at least 4 characters of it")
	}
	if err != nil {
		return rec, explainID(id, err)
	}
	return rec, nil
}

// cutVersion takes ID@VERSION apart. An id may have an @ of its own.
func cutVersion(arg string) (id string, version int64, given bool) {
	if i := strings.LastIndexByte(arg, '@'); i >= 0 {
		if n, err := strconv.ParseInt(arg[i+1:], 10, 64); err == nil {
			return arg[:i], n, true
		}
	}
	return arg, 0, false
}

// writeTicket prints one operation the way a person tells it.
func writeTicket(w *safe.Writer, v ticket.Ticket) {
	o := v.Record.Operation
	say := safe.Say
	line := func(head string, text safe.Text) {
		if !text.Empty() {
			w.Printf("%-8s %s\n", head, text)
		}
	}
	title := v.Title()
	if title.Empty() {
		title = say("%s %s", o.Kind, o.Key)
	}
	w.Printf("%s\n%s@%d\n\n", title, o.ID, o.Version)
	line("STATE", say("%s, %s, last changed %s by %s", string(v.State()), ticket.Lane(v.Lane()), clockTime(o.UpdatedAt), ticket.Who(o.Actor)))
	line("", safe.Of(o.Reason))
	if o.Conflict != ledger.NoConflict {
		line("!", say("%s: %s", ticket.Conflict(o.Conflict), o.ConflictNote))
	}
	if v.Row.Parked(v.Now) {
		line("PARKED", say("until %s", clockTime(o.ParkedUntil)))
	}
	if h := v.Record.HeldBy(); h != nil {
		line("HOLD", say("%s holds %s: %s", ticket.Who(h.Actor.Name), string(h.Scope), h.Reason))
	}
	line("KIND", v.Kind())
	line("TARGET", v.Target())
	line("SOURCE", ticket.Source(o.Source))
	line("SESSION", safe.Of(o.Session))
	line("KEY", safe.Of(o.KeyToSend()))
	if o.Token != "" {
		sent := "not known to have been sent"
		if o.TokenSent {
			sent = "sent along"
		}
		line("TOKEN", say("%s (%s)", o.Token, sent))
	}
	line("RECEIPT", ticket.List(o.Receipts))
	line("LINK", safe.Of(v.Facts.Link))
	if o.Command != nil {
		line("COMMAND", safe.Of(strings.Join(o.Command.Argv, " ")))
	}
	writeInput(w, o)

	w.Println()
	writeAdvice(line, v)
	w.Printf("\nSEEN\n")
	for _, e := range ticket.Unnamed(v.Timeline()) {
		w.Println(say("  %s  %-10s %s", clockTime(e.At), e.Who, v.Says(e)))
	}
	for _, r := range v.Record.Related {
		how := "earlier"
		if r.Overtook {
			how = "later"
		}
		line("RELATED", say("%s on the same target: %s %s", how, r.ID, v.Other(r)))
	}
}

func writeInput(w *safe.Writer, o ledger.Operation) {
	if gone := o.Gone(); gone != "" {
		w.Printf("%-8s %s: what it said is not kept, and it cannot be sent from here\n", "GONE", gone)
		return
	}
	lines := ticket.Input(o.Input)
	if len(lines) == 0 {
		return
	}
	w.Println(safe.Say("%-8s %s", "INPUT", safe.Join(lines, "\n         ")))
	if o.Redacted {
		w.Printf("%-8s parts of it are kept as digests only: it cannot be sent from here\n", "")
		if o.Command != nil {
			w.Printf("%-8s next time, name its secrets: indoubt run --expand NAME -- … '${NAME}'\n", "")
		}
	}
}

// writeAdvice tells what is known, what it costs and what to do.
func writeAdvice(line func(head string, text safe.Text), v ticket.Ticket) {
	known, _ := v.Known()
	line("KNOWN", known)
	if v.Lane() == ledger.LaneResolved {
		return
	}
	line("PRICE", safe.Say("twice %s, never %s", ticket.FullCost(v.Record.Pricing.Duplicate), ticket.FullCost(v.Record.Pricing.Miss)))
	line("", v.Price(whole))
	if a := v.Facts.Advice; a.Verb != "" {
		line("DO", safe.Say("%s: %s", a.Verb, a.Reason))
	}
	if c, _ := v.Clock(); c != safe.Say("–") {
		line("CLOCK", c)
	}
	if v.Facts.Recognises != "" {
		line("CHECK", safe.Say("recognises it by %s", v.Facts.Recognises))
	}
	if v.Facts.Pattern == "" {
		line("POLICY", safe.Say("none for this kind: defaults apply, costs are guesses"))
	}
}

// clockTime is a time in the reader's zone.
func clockTime(t time.Time) string {
	switch {
	case t.IsZero():
		return "–"
	case !t.Before(ledger.Never):
		return "for ever"
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}
