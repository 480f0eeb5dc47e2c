package cli

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/sqlite"
)

// purpose is what a command wants of the ledger.
type purpose int

const (
	toLook     purpose = iota // read-only; the ledger must exist
	toChange                  // the ledger must exist: a mistyped path is not an all-clear
	toCreate                  // for writers of operations: a missing ledger is made
	toMakeAnew                // also where one was before, as was asked for
)

// ledgerFile is the path of the ledger in force.
func (a *app) ledgerFile() string {
	if a.ledgerPath != "" {
		return a.ledgerPath
	}
	return sqlite.DefaultPath()
}

// open opens the ledger. Under --read-only nothing is ever opened for writing.
func (a *app) open(ctx context.Context, why purpose) (ledger.Store, error) {
	path := a.ledgerFile()
	if strings.HasPrefix(path, "postgres://") || strings.HasPrefix(path, "postgresql://") {
		return nil, &failure{Exit: exitUsage, Code: "usage", Message: "this indoubt keeps its ledger in a SQLite file, not on a PostgreSQL server",
			Hint: "give --ledger the path of a file on a local disk"}
	}
	if a.ledgerPath == "" && runtime.GOOS != "windows" && a.usedLedgers() == "" {
		return nil, &failure{Exit: exitUsage, Code: "no_home", Message: "there is no HOME to find the ledger by",
			Hint: "name it with --ledger PATH or INDOUBT_LEDGER"}
	}
	o := a.ledgerOptions()
	o.ReadOnly, o.Anew = why == toLook || a.readOnly, why == toMakeAnew
	if why >= toCreate && !a.readOnly {
		return opened(sqlite.Create(ctx, path, o))
	}
	return opened(sqlite.Open(ctx, path, o))
}

func (a *app) ledgerOptions() sqlite.Options {
	return sqlite.Options{Clock: a.clock, Steady: a.steady, Actor: a.actor(), Used: a.usedLedgers(), Home: a.home, Group: a.group,
		LeaveLog: slices.Contains([]string{"run", "begin", "settle"}, a.program)}
}

// usedLedgers is the file that lists which ledgers this account has used.
func (a *app) usedLedgers() string {
	state := a.env("XDG_STATE_HOME")
	if state == "" {
		home := a.env("HOME")
		if home == "" {
			return ""
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "indoubt", "ledgers")
}

// opened keeps a nil *sqlite.Store from becoming a store that is not nil.
func opened(s *sqlite.Store, err error) (ledger.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
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
