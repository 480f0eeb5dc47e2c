package cli

import (
	"bytes"
	"context"
	"encoding/json"
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
	return &cobra.Command{
		Use: "show ID", GroupID: groupLook,
		Short: "Show one operation: what was meant, what was seen, what is known, what to do",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := someArgs("an id")(cmd, args); err != nil {
				return err
			}
			return maxArgs(1)(cmd, args)
		},
		ValidArgsFunction: a.completeIDs(nil, false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.show(cmd.Context(), args[0])
		},
	}
}

// maxEvents bounds how much history one command prints.
const maxEvents = 1000

func (a *app) show(ctx context.Context, id string) error {
	s, err := a.ledgerFor(ctx, toLook)
	if err != nil {
		return err
	}
	rec, err := a.read(ctx, s, id)
	if err != nil {
		return err
	}
	events, err := s.Events(ctx, rec.Operation.ID, 0, maxEvents)
	if err != nil {
		return err
	}
	v := see(a.policyToLookBy(), rec)
	data := showJSON{v.asJSON(), attemptsJSON(rec.Attempts), readsJSON(rec.Reads), grantsJSON(rec.Grants), eventsJSON(events)}
	return a.done("", data, func(w *safe.Writer) { writeTicket(w, v, events) })
}

// read finds one operation by its id, as its writer wrote it, or the beginning of
// that. A copied ID@VERSION names the operation too.
func (a *app) read(ctx context.Context, s ledger.Store, id string) (ledger.Record, error) {
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
func writeTicket(w *safe.Writer, v view, events []ledger.Event) {
	o := v.Record.Operation
	line := func(head, format string, args ...any) {
		w.Printf("%-8s "+format+"\n", append([]any{head}, args...)...)
	}
	w.Printf("%s\n", v.title())
	w.Printf("%s@%d\n\n", o.ID, o.Version)

	line("STATE", "%s, %s, since %s, by %s", string(v.state), ticket.Lane(v.lane), clockTime(o.UpdatedAt), o.Actor)
	if o.Reason != "" {
		line("", "%s", o.Reason)
	}
	if o.Conflict != ledger.NoConflict {
		line("!", "%s: %s", ticket.Conflict(o.Conflict), o.ConflictNote)
	}
	if v.Row.Parked(v.Now) {
		line("PARKED", "until %s", clockTime(o.ParkedUntil))
	}
	if h := v.Record.HeldBy(); h != nil {
		line("HOLD", "%s holds %s: %s", h.Actor.Name, string(h.Scope), h.Reason)
	}

	line("KIND", "%s", o.Kind)
	if t := v.target(); t != "" {
		line("TARGET", "%s", t)
	}
	line("SOURCE", "%s", sourceText(o.Source))
	if o.Session != "" {
		line("SESSION", "%s", o.Session)
	}
	line("KEY", "%s", o.Key)
	if o.Token != "" {
		sent := "not known to have been sent"
		if o.TokenSent {
			sent = "sent along"
		}
		line("TOKEN", "%s (%s)", o.Token, sent)
	}
	if len(o.Receipts) > 0 {
		line("RECEIPT", "%s", strings.Join(o.Receipts, ", "))
	}
	if link := v.kind.Link(o); link != "" {
		line("LINK", "%s", link)
	}
	if o.Command != nil {
		line("COMMAND", "%s", strings.Join(o.Command.Argv, " "))
	}
	writeInput(w, o)

	w.Println()
	writeAdvice(line, v)
	w.Printf("\nSEEN\n")
	for _, e := range events {
		w.Println("  " + eventLine(e, false))
	}
	writeAttempts(w, v.Record.Attempts)
	writeReads(w, v.Record.Reads)
	for _, r := range v.Record.Related {
		how := "same wish (twin)"
		if r.Overtook {
			how = "newer on the same target"
		}
		line("RELATED", "%s: %s %s, %s, %s", how, r.ID, r.Title, string(r.State), clockTime(r.CreatedAt))
	}
}

func writeInput(w *safe.Writer, o ledger.Operation) {
	if len(o.Input) == 0 || string(o.Input) == "null" {
		return
	}
	var b bytes.Buffer
	if json.Indent(&b, o.Input, "         ", "  ") != nil {
		b.Reset()
		b.Write(o.Input)
	}
	fmt.Fprintf(w, "%-8s %s\n", "INPUT", safe.Lines(b.String()))
	if o.Redacted {
		w.Printf("%-8s parts of it are kept as digests only: it cannot be sent from here\n", "")
		if o.Command != nil {
			w.Printf("%-8s next time, name its secrets: indoubt run --expand NAME -- … '${NAME}'\n", "")
		}
	}
}

// writeAdvice tells what is known, what it costs and what to do.
func writeAdvice(line func(head, format string, args ...any), v view) {
	known, _ := v.Known()
	line("KNOWN", "%s", known)
	if v.lane == ledger.LaneResolved {
		return
	}
	line("PRICE", "twice %s, never %s", ticket.FullCost(v.Record.Pricing.Duplicate), ticket.FullCost(v.Record.Pricing.Miss))
	a := v.Facts.Advice
	if a.Arithmetic != "" && v.Record.Operation.Conflict == ledger.NoConflict {
		line("", "%s", a.Arithmetic)
	}
	if a.Verb != "" {
		line("DO", "%s: %s", a.Verb, a.Reason)
	}
	if c, _ := v.Clock(); c != "–" {
		line("CLOCK", "%s", c)
	}
	if v.Facts.Recognises != "" {
		line("CHECK", "recognises it by %s", v.Facts.Recognises)
	}
	if !v.kind.Known {
		line("POLICY", "none for this kind: defaults apply, costs are guesses")
	}
}

func writeAttempts(w *safe.Writer, attempts []ledger.Attempt) {
	if len(attempts) > 0 {
		w.Println("ATTEMPTS")
	}
	for _, t := range attempts {
		s := fmt.Sprintf("  %d  %s  %s by %s", t.N, clockTime(t.StartedAt), t.Sender, t.Actor)
		if t.Outcome != "" {
			s += fmt.Sprintf("  %s after %s", t.Outcome, t.EndedAt.Sub(t.StartedAt).Round(time.Millisecond))
		} else {
			s += "  in flight, until " + clockTime(t.DeadlineAt)
		}
		for _, more := range []string{string(t.ErrorClass), t.Error, t.Receipt} {
			if more != "" {
				s += "  " + more
			}
		}
		if t.LateOutcome != "" {
			s += fmt.Sprintf("  late answer %s: %s %s", clockTime(t.LateAt), t.LateOutcome, t.LateReceipt)
		}
		w.Println(s)
	}
}

func writeReads(w *safe.Writer, reads []ledger.Read) {
	if len(reads) > 0 {
		w.Println("CHECKS")
	}
	for i := len(reads) - 1; i >= 0; i-- {
		r := reads[i]
		w.Println(fmt.Sprintf("  %d  %s  %s", len(reads)-i, clockTime(r.BeganAt), ticket.Verdict(r)))
	}
}

func sourceText(s ledger.Source) string {
	out := s.Pipeline
	if s.Run != "" {
		out += " run " + s.Run
	}
	if s.Host != "" {
		out += " on " + s.Host
	}
	if out == "" {
		return "unknown"
	}
	return out
}

// clockTime is a time in the zone of whoever looks.
func clockTime(t time.Time) string {
	switch {
	case t.IsZero():
		return "–"
	case !t.Before(ledger.Never):
		return "for ever"
	}
	return t.Local().Format("2006-01-02 15:04:05 MST")
}
