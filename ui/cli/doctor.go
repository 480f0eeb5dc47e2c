package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/ledger/sqlite"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

func newDoctorCommand(a *app) *cobra.Command {
	var online, rebuild bool
	cmd := &cobra.Command{
		Use: "doctor", GroupID: groupCare,
		Short: "Check the ledger, the policy, secrets and the clock",
		Long: `Check everything that indoubt stands on: the ledger (integrity, schema, home,
file system, size of the log, lock, permissions), the policy, the secrets it
names, the clock, and when something was last written. Nothing is changed.
With --online every downstream is also connected to; nothing is asked of it.
With --rebuild the list of open operations and the counts, which the ledger keeps
beside its history, are first made anew from it; other writers wait meanwhile.

Exit 0: all is well, or only warnings; 1: something has failed.`,
		Args: noArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return (&examination{a: a}).run(cmd.Context(), online, rebuild)
		},
	}
	cmd.Flags().BoolVar(&online, "online", false, "also connect to every downstream")
	cmd.Flags().BoolVar(&rebuild, "rebuild", false, "make the list and the counts anew from the history")
	return cmd
}

// finding is one line of the doctor.
type finding struct {
	Check string `json:"check"`
	Level string `json:"level"` // ok, warn or fail
	Found string `json:"found"`
	Do    string `json:"do,omitempty"`
}

const (
	levelOK   = "ok"
	levelWarn = "warn"
	levelFail = "fail"
)

// examination collects findings.
type examination struct {
	a        *app
	findings []finding
}

func (x *examination) say(check, level, found, do string) {
	x.findings = append(x.findings, finding{check, level, found, do})
}

func (x *examination) ok(check, format string, args ...any) {
	x.say(check, levelOK, fmt.Sprintf(format, args...), "")
}

// broken says what an error means, with its hint.
func (x *examination) broken(check string, err error) {
	f := asFailure(err)
	do := firstLine(f.Hint)
	if do == "" {
		do = "look again in a moment; if it stays, stop what writes to the ledger and look at its disk"
	}
	x.say(check, levelFail, f.Message, do)
}

func (x *examination) run(ctx context.Context, online, rebuild bool) error {
	path := x.a.ledgerFile()
	if rebuild {
		if err := x.rebuild(ctx); err != nil {
			return err
		}
	}
	s, err := x.a.ledgerFor(ctx, toLook)
	if err != nil {
		f := asFailure(err)
		x.say("ledger", levelFail, f.Message, "indoubt doctor --ledger PATH looks at another one")
		if f.Code != "no_ledger" {
			x.findings[0].Do = firstLine(f.Hint)
		}
	} else {
		x.ledger(ctx, s, path)
	}
	if err == nil || !isMissing(err) {
		x.files(ctx, path)
	}
	x.policy(ctx, s, online)
	x.clock(ctx, s)
	if s != nil {
		x.lastWrites(ctx, s)
	}
	return x.report()
}

func (x *examination) ledger(ctx context.Context, s ledger.Store, path string) {
	info, err := s.Info(ctx)
	if err != nil {
		x.broken("ledger", err)
		return
	}
	x.ok("ledger", "%s, schema %d, made %s", short(path), info.Schema, clockTime(info.CreatedAt))
	if info.Copied != "" {
		x.say("home", levelWarn, "it is only looked at: "+info.Copied, "work on the original, or `indoubt adopt`")
	} else if info.Home != "" {
		x.ok("home", "this file is the original, at home in %s", info.Home)
	} else {
		x.ok("home", "this file is the original")
	}
	began := time.Now()
	if err := sqlite.Check(ctx, path); err != nil {
		x.broken("integrity", err)
	} else {
		x.ok("integrity", "checked in %s", time.Since(began).Round(time.Millisecond))
		x.derived(ctx, s)
	}
}

// files looks at the files of the ledger: who may read them, how long the log
// has grown, whether a writer holds the write lock.
func (x *examination) files(ctx context.Context, path string) {
	st, err := sqlite.StorageAt(path)
	if err != nil {
		x.broken("disk", err)
		return
	}
	x.disk(st)
	info, err := os.Stat(path)
	if err != nil {
		x.broken("permissions", err)
		return
	}
	if s := x.a.store; s != nil && runtime.GOOS != "windows" { // there the mode says nothing of who may
		if i, err := s.Info(ctx); err == nil && i.Exposed != "" {
			x.say("permissions", levelWarn, i.Exposed, "chmod 600 "+short(path)+", or share it with a group: indoubt init --group")
		} else if err == nil {
			x.ok("permissions", "%#o", info.Mode().Perm())
		}
	}
	if !writable(path) || !writable(filepath.Dir(path)) {
		x.say("writable", levelWarn, "this user may not write to it: looking only", "use the account of the pipelines, or give this one the right")
	} else {
		x.ok("writable", "by this user")
	}
	if x.a.store == nil { // why is said already
		return
	}
	switch err := sqlite.TryLock(ctx, path); {
	case err == nil:
		x.ok("lock", "free")
	case errors.Is(err, ledger.ErrReadOnly):
		x.ok("lock", "not tried: this user may not write")
	case errors.Is(err, ledger.ErrBusy):
		x.say("lock", levelFail, asFailure(err).Message, "nothing can be recorded: end that process, or its transaction")
	default:
		x.broken("lock", err)
	}
	if _, err := os.Stat(path + ".bell"); err != nil {
		x.say("bell", levelWarn, "there is no bell file: changes are seen up to a second late", "any writer makes it")
	} else {
		x.ok("bell", "there")
	}
}

// disk says what fills the disk, and who keeps the log from being emptied.
func (x *examination) disk(st sqlite.Storage) {
	end := "make room: what cannot be recorded must not be sent"
	if st.Kept() != "" {
		end = "end that read: " + st.Kept()
	}
	switch low := st.Free >= 0 && st.Free < 64<<20; {
	case low:
		x.say("disk", levelFail, "only "+st.Room(), end)
	case st.Free >= 0:
		x.ok("disk", "%s", st.Room())
	}
	switch log := sqlite.Bytes(st.Log()); {
	case st.Grown() && st.Kept() != "":
		x.say("log", levelWarn, "the write-ahead log has grown to "+log+": "+st.Kept(), "end that process, or its transaction")
	case st.Grown():
		x.say("log", levelWarn, "the write-ahead log has grown to "+log, "a reader kept it; the next write empties it")
	default:
		x.ok("log", "write-ahead log of %s", log)
	}
}

// clock compares the machine's clock with the ledger's newest event: a clock
// that was set back makes proofs of absence worthless.
func (x *examination) clock(ctx context.Context, s ledger.Describer) {
	now := x.a.clock()
	if year := now.Year(); year < 2024 || year > 2100 {
		x.say("clock", levelFail, "it says "+clockTime(now), "set the clock")
		return
	}
	if s != nil {
		if info, err := s.Info(ctx); err == nil && info.LastWrite.After(now.Add(2*time.Second)) {
			x.say("clock", levelFail, fmt.Sprintf("it is %s behind the newest event of the ledger", ticket.Age(info.LastWrite.Sub(now))),
				"set the clock; until then deadlines and proofs are wrong")
			return
		}
	}
	x.ok("clock", "%s", clockTime(now))
}

// lastWrites says when the ledger last heard of anything: silence is not health.
func (x *examination) lastWrites(ctx context.Context, s ledger.Store) {
	info, err := s.Info(ctx)
	if err != nil {
		x.broken("last write", err)
		return
	}
	now := x.a.clock()
	if info.LastWrite.IsZero() {
		x.say("last write", levelWarn, "nothing was ever recorded here", "record a write: indoubt run --kind post -- curl --fail-with-body …")
		return
	}
	by := ""
	if info.LastBy != "" {
		by = ", " + info.LastBy
	}
	level, do := levelOK, ""
	if quiet := now.Sub(info.LastWrite); quiet > 24*time.Hour {
		level, do = levelWarn, "silence is not health: check that the pipelines write to this ledger"
	}
	x.say("last write", level, ticket.Age(now.Sub(info.LastWrite))+" ago"+by, do)
	if !info.LastError.IsZero() {
		x.ok("last doubt", "%s ago", ticket.Age(now.Sub(info.LastError)))
	}
	if counts, err := s.Counts(ctx, now); err == nil {
		x.ok("operations", "%d in all, %d need you, %d checking, %d in flight", counts.All, counts.NeedsYou, counts.Checking, counts.InFlight)
	}
	if holds, err := s.Holds(ctx, now); err == nil {
		for _, h := range holds {
			x.say("hold", levelWarn, fmt.Sprintf("%s holds %s: %s", h.Actor.Name, h.Scope, h.Reason), "indoubt release, when it is over")
		}
	}
}

// report prints the findings. Only a failure makes the exit code 1.
func (x *examination) report() error {
	fails, warns := 0, 0
	for _, f := range x.findings {
		switch f.Level {
		case levelFail:
			fails++
		case levelWarn:
			warns++
		}
	}
	data := map[string]any{"checks": x.findings, "failed": fails, "warnings": warns}
	write := func(w *safe.Writer) {
		for _, f := range x.findings {
			w.Printf("%-4s  %-12s %s\n", f.Level, f.Check, firstLine(f.Found))
			if f.Do != "" {
				w.Printf("%19s→ %s\n", "", f.Do)
			}
		}
	}
	if fails > 0 {
		return &failure{Exit: exitError, Code: "unwell", Message: fmt.Sprintf("%d of %d checks failed", fails, len(x.findings)), Data: data, Text: write}
	}
	return x.a.done("", data, write)
}
