package base

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
	"indoubt/ledger/open"
)

// Purpose is what a command opens the ledger for.
type Purpose int

const (
	ToLook   Purpose = iota // read-only; the ledger must exist
	ToChange                // the ledger must exist: a mistyped path is not an all-clear
	ToCheck                 // the same, for the engine
	ToSettle                // the same, for one who has sent
	ToCreate                // for writers of operations: a missing file is made
)

// Unless is what the ledger is opened for, which a rehearsal only looks at.
func (why Purpose) Unless(dryRun bool) Purpose {
	if dryRun {
		return ToLook
	}
	return why
}

// Place is where the ledger in force is, whether it exists or not.
func (a *App) Place() (open.Place, error) {
	if a.LedgerPath != "" {
		return open.At(a.LedgerPath)
	}
	return open.At(open.Default())
}

// LedgerName is the name of the ledger in force, without a password.
func (a *App) LedgerName() string {
	at, err := a.Place()
	if err != nil {
		return "this name"
	}
	return at.String()
}

// Open opens the ledger. Under --read-only nothing is ever opened for writing.
func (a *App) Open(ctx context.Context, why Purpose) (ledger.Store, error) {
	at, err := a.Place()
	if err != nil {
		return nil, err
	}
	if a.LedgerPath == "" && stateDir(a.Env) == "" {
		return nil, &Failure{Code: "usage", Message: "there is no HOME to find the ledger by",
			Hint: "name it with --ledger PATH or INDOUBT_LEDGER"}
	}
	o := a.LedgerOptions()
	o.To = map[Purpose]string{ToChange: "decide", ToCheck: "check", ToSettle: "record", ToCreate: "record"}[why]
	if o.ReadOnly = why == ToLook || a.ReadOnly; why == ToCreate && !a.ReadOnly {
		return at.Create(ctx, o)
	}
	return at.Open(ctx, o)
}

// LookedAt opens the ledger for its answers, with a warning where they may not be how things are.
func LookedAt(ctx context.Context, a *App) (ledger.Store, error) {
	s, err := a.LedgerFor(ctx, ToLook)
	if err != nil {
		return nil, err
	}
	switch info, err := s.Info(ctx); {
	case err != nil:
		return nil, err
	case info.MovedTo != "":
		a.Warnf("this ledger has moved to %s, and is shown as it was: --ledger / INDOUBT_LEDGER", info.MovedTo)
	case info.Copied != "":
		a.Warnf("this ledger is a copy, and is shown as it was: %s", info.Copied)
	case !info.Failover.At.IsZero():
		a.Warnf("%s: look for it, and then `indoubt adopt`", info.Failover)
	case info.Lacks != "":
		a.Warnf("%s: look for what was sent since, and then `indoubt adopt`", info.Lacks)
	}
	return s, nil
}

// LedgerOptions say who opens a ledger here, by which clock and with which key file.
func (a *App) LedgerOptions() open.Options {
	o := open.Options{Actor: a.Actor(), State: stateDir(a.Env), KeyFile: strings.TrimSpace(a.Env(digestkey.Variable))}
	if a.Steady != nil { // another time was told; else a ledger goes by the clock of its store
		o.Clock, o.Steady = a.Clock, a.Steady
	}
	return o
}

// Elsewhere opens a ledger of another name as this one is opened: that which has moved there.
func Elsewhere(a *App) func(context.Context, string) (ledger.Store, error) {
	return func(ctx context.Context, name string) (ledger.Store, error) {
		o := a.LedgerOptions()
		o.To = "record"
		return open.Moved(ctx, name, o)
	}
}

// stateDir is where an account keeps what lasts, "" where it has no home.
func stateDir(env func(string) string) string {
	state := env("XDG_STATE_HOME")
	if state == "" {
		home := env("HOME")
		if home == "" {
			return ""
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "indoubt")
}

// Short is a path as a person writes it, with ~ for the home directory.
func Short(path string) string {
	home, err := os.UserHomeDir()
	if err != nil || home == "" || home == "/" {
		return path
	}
	if rel, err := filepath.Rel(home, path); err == nil && filepath.IsAbs(path) && rel != ".." && !strings.HasPrefix(rel, "../") {
		return filepath.Join("~", rel)
	}
	return path
}

// Copied refuses to rehearse what the ledger would refuse to do.
func Copied(ctx context.Context, s ledger.Describer) error {
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	if info.Copied != "" {
		return fmt.Errorf("%w (%s)", ledger.ErrCopied, info.Copied)
	}
	return nil
}
