// Package care makes ledgers and looks after them: init, adopt, backup, copy, prune and
// doctor, one file a command.
//
// It stands on ui/cli/base, and on ui/cli/rules for a ledger that begins under a policy; no
// other package of commands may be imported. A new command is a file here with its New
// function and a line in ui/cli/root.go; a new finding of doctor is a method of examination.
// TestArrowsPointDown in ui/house holds this.
package care

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// NewDoctor is `indoubt doctor`.
func NewDoctor(a *base.App) *cobra.Command {
	return &cobra.Command{
		Use: "doctor", GroupID: base.GroupCare,
		Short: "Check the ledger, the policy and its secrets",
		Long: `Check everything that indoubt stands on: the ledger (integrity, schema, home,
file system, lock, permissions), the policy, the secrets that its checks need, and
when something was last written. Nothing is changed.

Exit 0: all is well, or only warnings; 1: something has failed.`,
		Args: base.MaxArgs(0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return (&examination{a: a}).run(cmd.Context())
		},
	}
}

type examination struct {
	a        *base.App
	findings []ledger.Finding
}

func (x *examination) say(check, level, found, do string) {
	x.findings = append(x.findings, ledger.Finding{Check: check, Level: level, Found: found, Do: do})
}

func (x *examination) ok(check, format string, args ...any) {
	x.say(check, ledger.LevelOK, fmt.Sprintf(format, args...), "")
}

func (x *examination) broken(check string, err error) {
	f := base.AsFailure(err)
	x.say(check, ledger.LevelFail, f.Message, cmp.Or(base.FirstLine(f.Hint), lookAgain))
}

const lookAgain = "look again in a moment; if it stays, stop what writes to the ledger and look at its disk"

func (x *examination) run(ctx context.Context) error {
	s, err := x.a.LedgerFor(ctx, base.ToLook)
	if err != nil {
		f := base.AsFailure(err)
		x.say("ledger", ledger.LevelFail, f.Message, "indoubt init makes one; indoubt doctor --ledger PATH looks at another one")
		if f.Code != "no_ledger" {
			x.findings[0].Do = base.FirstLine(f.Hint)
		}
	} else {
		x.ledger(ctx, s)
	}
	if err == nil || !base.IsMissing(err) {
		x.where(ctx)
	}
	x.policy(ctx, s)
	if s != nil {
		x.lastWrites(ctx, s)
	}
	return x.report()
}

func (x *examination) ledger(ctx context.Context, s ledger.Store) {
	info, err := s.Info(ctx)
	if err != nil {
		x.broken("ledger", err)
		return
	}
	x.ok("ledger", "%s, schema %d, made %s", base.Short(x.a.LedgerName()), info.Schema, base.ClockTime(info.CreatedAt))
	at, err := x.a.Place()
	if err != nil {
		x.broken("ledger", err)
		return
	}
	file, ok := at.(interface{ Check(context.Context) error })
	switch {
	case info.MovedTo != "":
		x.say("home", ledger.LevelWarn, "it has moved to "+info.MovedTo+", and is only looked at here",
			"work there: --ledger / INDOUBT_LEDGER")
	case info.Copied != "":
		x.say("home", ledger.LevelWarn, "it is only looked at: "+info.Copied, "work on the original, or `indoubt adopt`")
	case !info.Failover.At.IsZero():
		x.say("home", ledger.LevelFail, info.Failover.String()+": nothing is begun or allowed",
			"look at the other sides for what is missing (reconcile/README.md), then `indoubt adopt`")
	case ok:
		x.ok("home", "this file is the original")
	}
	if info.Lacks != "" {
		x.say("newest", ledger.LevelFail, info.Lacks,
			"bring its newest state back; where that is lost, look at the other sides for what was sent since, and then `indoubt adopt`")
	}
	if ok {
		began := time.Now()
		if err := file.Check(ctx); err != nil {
			x.broken("integrity", err)
			return
		}
		x.ok("integrity", "checked in %s", time.Since(began).Round(time.Millisecond))
	}
	x.derived(ctx, s)
	x.backups(info)
}

// where looks at where the ledger is kept, as its place can.
func (x *examination) where(ctx context.Context) {
	at, err := x.a.Place()
	if err != nil {
		return
	}
	if e, ok := at.(interface {
		Examine(ctx context.Context, s ledger.Store, name func(string) string) []ledger.Finding
	}); ok {
		for _, f := range e.Examine(ctx, x.a.Store, base.Short) {
			if f.Err != nil {
				failed := base.AsFailure(f.Err)
				f.Found, f.Do = failed.Message, cmp.Or(f.Do, base.FirstLine(failed.Hint), lookAgain)
			}
			x.findings = append(x.findings, f)
		}
	}
}

// lastWrites says when the ledger last heard of anything: silence is not health.
func (x *examination) lastWrites(ctx context.Context, s ledger.Store) {
	info, err := s.Info(ctx)
	if err != nil {
		x.broken("last write", err)
		return
	}
	now := x.a.Clock()
	if info.LastWrite.IsZero() {
		x.say("last write", ledger.LevelWarn, "nothing was ever recorded here",
			"record a write: indoubt run --kind post -- curl --fail-with-body …")
		return
	}
	by := ""
	if info.LastBy != "" {
		by = ", " + info.LastBy
	}
	level, do := ledger.LevelOK, ""
	if quiet := now.Sub(info.LastWrite); quiet > 24*time.Hour {
		level, do = ledger.LevelWarn, "silence is not health: check that the pipelines write to this ledger"
	}
	x.say("last write", level, ticket.Ago(now.Sub(info.LastWrite))+by, do)
	if l := info.Look; l != nil {
		said := base.LookedFor(l, x.a.PolicyToLookBy())
		x.say("look first", ledger.LevelWarn, "it was adopted at "+base.ClockTime(l.Adopted)+": "+said[0], said[1])
	}
	if holds, err := s.Holds(ctx, now); err == nil {
		for _, h := range holds {
			what, do := string(h.Scope), h.Scope.Release()+", when it is over"
			if h.Begins {
				what += ", begins too"
			}
			if h.Reason == info.Lacks {
				do = "" // a release is refused: see newest
			}
			x.say("hold", ledger.LevelWarn, fmt.Sprintf("%s holds %s: %s", h.Actor.Name, what, h.Reason), do)
		}
	}
}

// report prints the findings. Only a failure makes the exit code 1.
func (x *examination) report() error {
	fails, warns := 0, 0
	for _, f := range x.findings {
		switch f.Level {
		case ledger.LevelFail:
			fails++
		case ledger.LevelWarn:
			warns++
		}
	}
	data := map[string]any{"checks": x.findings, "failed": fails, "warnings": warns}
	write := func(w *safe.Writer) {
		for _, f := range x.findings {
			w.Printf("%-4s  %-12s %s\n", f.Level, f.Check, base.FirstLine(f.Found))
			if f.Do != "" {
				w.Printf("%19s→ %s\n", "", f.Do)
			}
		}
	}
	if fails > 0 {
		return &base.Failure{Code: "unwell", Message: fmt.Sprintf("%d of %d checks failed", fails, len(x.findings)),
			Hint: "do what stands behind each →, then: indoubt doctor", Data: data, Text: write}
	}
	return x.a.Done("", data, write)
}

// deriver is a store that keeps something beside its history.
type deriver interface {
	Deviations(ctx context.Context) ([]ledger.Deviation, error)
}

// derived compares what the ledger keeps beside its history with the history: a
// list that misses an operation in doubt hides it.
func (x *examination) derived(ctx context.Context, s ledger.Store) {
	kept, ok := s.(deriver)
	if !ok {
		return
	}
	deviations, err := kept.Deviations(ctx)
	if err != nil {
		x.broken("derived", err)
		return
	}
	if len(deviations) == 0 {
		x.ok("derived", "the list and the counts are what the history says")
		return
	}
	wrong := ledger.Each(deviations, func(d ledger.Deviation) string {
		return fmt.Sprintf("%s has %s (%s)", d.Table, ticket.Plural(d.Rows, "wrong row", "wrong rows"), d.One)
	})
	x.say("derived", ledger.LevelFail, strings.Join(wrong, "; "),
		"somebody wrote past the guards: indoubt log ID says how it came to stand there; restore a backup")
}
