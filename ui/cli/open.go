package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
	"indoubt/ledger/open"
)

type purpose int

const (
	toLook   purpose = iota // read-only; the ledger must exist
	toChange                // the ledger must exist: a mistyped path is not an all-clear
	toCheck                 // the same, for the engine
	toSettle                // the same, for one who has sent
	toCreate                // for writers of operations: a missing file is made
)

// unless is what the ledger is opened for, which a rehearsal only looks at.
func (why purpose) unless(dryRun bool) purpose {
	if dryRun {
		return toLook
	}
	return why
}

func (a *app) place() (open.Place, error) {
	if a.ledgerPath != "" {
		return open.At(a.ledgerPath)
	}
	return open.At(open.Default())
}

// ledgerName is the name of the ledger in force, without a password.
func (a *app) ledgerName() string {
	at, err := a.place()
	if err != nil {
		return "this name"
	}
	return at.String()
}

// open opens the ledger. Under --read-only nothing is ever opened for writing.
func (a *app) open(ctx context.Context, why purpose) (ledger.Store, error) {
	at, err := a.place()
	if err != nil {
		return nil, err
	}
	if a.ledgerPath == "" && stateDir(a.env) == "" {
		return nil, &failure{Code: "usage", Message: "there is no HOME to find the ledger by",
			Hint: "name it with --ledger PATH or INDOUBT_LEDGER"}
	}
	o := a.ledgerOptions()
	o.To = map[purpose]string{toChange: "decide", toCheck: "check", toSettle: "record", toCreate: "record"}[why]
	if o.ReadOnly = why == toLook || a.readOnly; why == toCreate && !a.readOnly {
		return at.Create(ctx, o)
	}
	return at.Open(ctx, o)
}

// lookedAt opens the ledger for its answers, with a warning where they may not be how things are.
func lookedAt(ctx context.Context, a *app) (ledger.Store, error) {
	s, err := a.ledgerFor(ctx, toLook)
	if err != nil {
		return nil, err
	}
	switch info, err := s.Info(ctx); {
	case err != nil:
		return nil, err
	case info.MovedTo != "":
		a.warnf("this ledger has moved to %s, and is shown as it was: --ledger / INDOUBT_LEDGER", info.MovedTo)
	case info.Copied != "":
		a.warnf("this ledger is a copy, and is shown as it was: %s", info.Copied)
	case !info.Failover.At.IsZero():
		a.warnf("%s: look for it, and then `indoubt adopt`", info.Failover)
	case info.Lacks != "":
		a.warnf("%s: look for what was sent since, and then `indoubt adopt`", info.Lacks)
	}
	return s, nil
}

func (a *app) ledgerOptions() open.Options {
	o := open.Options{Actor: a.actor(), State: stateDir(a.env), KeyFile: strings.TrimSpace(a.env(digestkey.Variable))}
	if a.steady != nil { // another time was told; else a ledger goes by the clock of its store
		o.Clock, o.Steady = a.clock, a.steady
	}
	return o
}

// elsewhere opens a ledger of another name as this one is opened: that which has moved there.
func elsewhere(a *app) func(context.Context, string) (ledger.Store, error) {
	return func(ctx context.Context, name string) (ledger.Store, error) {
		o := a.ledgerOptions()
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

// short is a path as a person writes it, with ~ for the home directory.
func short(path string) string {
	home, err := os.UserHomeDir()
	if err != nil || home == "" || home == "/" {
		return path
	}
	if rel, err := filepath.Rel(home, path); err == nil && filepath.IsAbs(path) && rel != ".." && !strings.HasPrefix(rel, "../") {
		return filepath.Join("~", rel)
	}
	return path
}
