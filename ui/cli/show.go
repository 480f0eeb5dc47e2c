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
	o := v.rec.Operation
	line := func(head, format string, args ...any) {
		w.Printf("%-8s "+format+"\n", append([]any{head}, args...)...)
	}
	w.Printf("%s\n", v.title())
	w.Printf("%s@%d\n\n", o.ID, o.Version)

	line("STATE", "%s, %s, since %s, by %s", string(v.state), said(v.lane), clockTime(o.UpdatedAt), o.Actor)
	if o.Reason != "" {
		line("", "%s", o.Reason)
	}
	if o.Conflict != ledger.NoConflict {
		line("!", "%s: %s", strings.ToUpper(landed(v)), o.ConflictNote)
	}
	if v.row.Parked(v.now) {
		line("PARKED", "until %s", clockTime(o.ParkedUntil))
	}
	if h := v.rec.HeldBy(); h != nil {
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
	writeAttempts(w, v.rec.Attempts)
	writeReads(w, v.rec.Reads)
	for _, r := range v.rec.Related {
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
	}
}

// writeAdvice tells what is known, what it costs and what to do.
func writeAdvice(line func(head, format string, args ...any), v view) {
	switch v.state {
	case ledger.Uncertain:
		line("KNOWN", "a guess: %.0f %% that it landed, from %d cases (%.0f–%.0f %%)", 100*v.odds.P, v.odds.N, 100*v.odds.Low, 100*v.odds.High)
	case ledger.Committed:
		line("KNOWN", "it landed")
	case ledger.Failed:
		line("KNOWN", "it did not land")
	case ledger.Abandoned:
		line("KNOWN", "left as it is: sent or not stays unknown, or unsent")
	case ledger.Pending:
		line("KNOWN", "in flight until %s", clockTime(v.rec.Operation.DeadlineAt))
	}
	if v.lane == ledger.LaneResolved {
		return
	}
	line("PRICE", "twice %s, never %s", price(v.rec.Pricing.Duplicate), price(v.rec.Pricing.Miss))
	if v.advice.Arithmetic != "" && v.rec.Operation.Conflict == ledger.NoConflict {
		line("", "%s", v.advice.Arithmetic)
	}
	if v.advice.Verb != "" {
		line("DO", "%s: %s", v.advice.Verb, v.advice.Reason)
	}
	if c := clock(v); c != "" {
		line("CLOCK", "%s", c)
	}
	if v.kind.Read != nil {
		line("CHECK", "recognises it by %s", v.kind.Read.Recognises())
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
		w.Println(fmt.Sprintf("  %d  %s  %s", len(reads)-i, clockTime(r.BeganAt), checkWords(r)))
	}
}

// checkWords are what a check found, and why.
func checkWords(r ledger.Read) string {
	if r.Verdict == ledger.Absent && r.Cause == ledger.CauseGone {
		return r.Reason
	}
	return verdictWords(r.Verdict) + ": " + r.Reason
}

// verdictWords are the verdicts as the screen says them.
func verdictWords(v ledger.Verdict) string {
	switch v {
	case ledger.Landed:
		return "landed"
	case ledger.Absent:
		return "did not land (proven)"
	case ledger.Duplicated:
		return "happened twice"
	case ledger.Mismatch:
		return "landed, but different"
	}
	return "cannot tell"
}

// said is a lane in plain words.
func said(l ledger.Lane) string {
	switch l {
	case ledger.LaneConflict:
		return "in conflict"
	case ledger.LaneInFlight:
		return "waiting for its answer"
	case ledger.LaneUnfetched:
		return "one send allowed, waiting for its pipeline"
	case ledger.LaneDecide:
		return "needs you"
	case ledger.LaneReading:
		return "being checked"
	case ledger.LaneNotLanded:
		return "did not land"
	}
	return "settled"
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
