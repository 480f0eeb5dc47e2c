// Package base is what every command of the program stands on: the App with its streams,
// flags and opened ledger, the policy that is in force, what is printed and how, failures
// with their exit codes, and the words about a wrong command line.
//
// It knows no command. It may import the ledger, the policy, the engine, ui/safe and
// ui/ticket; a package of commands imports it, and ui/cli joins them. What two commands of
// different packages need is added here, what one needs stays with that one.
// TestArrowsPointDown in ui/house holds this.
package base

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/adrg/xdg"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"indoubt/ledger"
	"indoubt/ledger/open"
	"indoubt/policy"
	"indoubt/reconcile"
	"indoubt/ui/safe"
)

// App is one run of the program: its streams, its global flags, and what the
// commands need opened. Fields that a test may want to say otherwise are set by
// NewApp and never after.
type App struct {
	In     *bufio.Reader
	Out    *safe.Writer
	ErrOut *safe.Writer
	Env    func(string) string
	Clock  ledger.Clock
	Steady ledger.SteadyClock // nil: the host's
	// rawOut and rawErr go past the door. They are for what a wrapped command or
	// server says itself, for its replay, and for protocols.
	RawOut, RawErr io.Writer
	// terminal reports whether a person sits at both ends: standard input and
	// output are a terminal.
	Terminal func() bool
	Width    func() int // columns of the output, 0 when it is no terminal
	Stdin    io.Reader  // as given, for the console

	LedgerPath, PolicyPath, As string
	ReadOnly                   bool
	JSON                       bool   // one JSON object is printed
	Banner                     string // shown in the console's header

	Store ledger.Store
	past  *reconcile.History // of the store: what the odds rest on
	Live  *LivePolicy
	warn  map[string]bool

	program string              // console, or the command
	engines []*reconcile.Engine // they may keep servers and pools open
}

// NewApp is a run of the program on these streams, with the environment and clock of this process.
func NewApp(stdin io.Reader, stdout, stderr io.Writer) *App {
	a := &App{In: bufio.NewReader(stdin), Stdin: stdin, Env: os.Getenv, Clock: time.Now, warn: map[string]bool{},
		Out: safe.NewWriter(stdout), ErrOut: safe.NewWriter(stderr), RawOut: stdout, RawErr: stderr}
	a.Terminal = func() bool { return IsTerminal(stdin) && IsTerminal(stdout) }
	a.Width = func() (width int) {
		if f, ok := stdout.(*os.File); ok {
			width, _, _ = term.GetSize(int(f.Fd()))
		}
		return width
	}
	return a
}

// IsTerminal reports whether a stream is a file that is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Prepare fills what no flag said from the environment.
func (a *App) Prepare(cmd *cobra.Command) error {
	if a.program = cmd.Name(); !cmd.HasParent() {
		a.program = "console"
	}
	if err := swallowed(cmd); err != nil {
		return err
	}
	for _, name := range []string{"ledger", "policy", "as", "key", "idempotency-key"} {
		if f := cmd.Flag(name); f != nil && f.Changed && strings.TrimSpace(f.Value.String()) == "" {
			return Usage("--"+name+" is empty", "is a variable not set? leave it out for the default")
		}
	}
	if f := cmd.Flag("ledger"); f != nil && f.Changed {
		if err := open.InArgument(a.LedgerPath); err != nil {
			return err
		}
	}
	a.LedgerPath = cmp.Or(a.LedgerPath, a.Env("INDOUBT_LEDGER"))
	a.PolicyPath = cmp.Or(a.PolicyPath, a.Env("INDOUBT_POLICY"))
	a.As = cmp.Or(a.As, a.Env("INDOUBT_ACTOR"))
	if ledger.ReservedActor(a.As) {
		return Usage(fmt.Sprintf("%q is a name that indoubt signs with itself", strings.TrimSpace(a.As)),
			"say who you are with --as NAME or INDOUBT_ACTOR")
	}
	return nil
}

// Actor is the person at this command line. The name is a label; who is logged
// in and where stands beside it.
func (a *App) Actor() ledger.Actor {
	login := OSUser()
	who := ledger.Actor{Name: cmp.Or(strings.TrimSpace(a.As), login), OSUser: login, Terminal: a.Terminal()}
	who.Host, _ = os.Hostname()
	return who
}

// Machine is the actor of something that acts without a person: a pipeline or a
// proxy. Its name is the first of these that is given and not reserved.
func (a *App) Machine(names ...string) ledger.Actor {
	who := a.Actor()
	who.Machine, who.Terminal = true, false
	for _, name := range append([]string{a.As}, names...) {
		if who.Name = strings.TrimSpace(name); who.Name != "" && !ledger.ReservedActor(who.Name) {
			break
		}
	}
	return who
}

// SharedAccount reports whether the name of the actor says nothing about the
// person: the first decision asks.
func (a *App) SharedAccount() bool {
	if strings.TrimSpace(a.As) != "" {
		return false
	}
	switch OSUser() {
	case "", "root", "admin", "oncall", "on-call", "ops", "operator", "deploy", "ubuntu", "debian", "ec2-user", "vagrant":
		return true
	}
	return false
}

// OSUser is the name of the account that this process runs as.
func OSUser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return os.Getenv("USER")
}

// PolicyFile is the path in force, and whether it was named. A file that
// was named must exist; the default one may be missing.
func (a *App) PolicyFile() (path string, named bool) {
	return cmp.Or(a.PolicyPath, filepath.Join(xdg.ConfigHome, "indoubt", "policy.yaml")), a.PolicyPath != ""
}

// Policy is what is worked by: what is in force in the ledger, once that is open, else the
// file. A file that is broken, or missing where it was named, is an error.
func (a *App) Policy() (*policy.Policy, error) {
	path, named := a.PolicyFile()
	rules := a.Rules()
	now := rules.Now()
	if now.broken != nil {
		return nil, now.broken
	}
	if _, err := os.Stat(path); named && errors.Is(err, fs.ErrNotExist) {
		return nil, &Failure{Code: "no_file", Message: "no policy file at " + Short(path),
			Hint: "check --policy / INDOUBT_POLICY, or write one: indoubt policy init"}
	}
	return rules.InForce(), nil
}

// PolicyToLookBy is the policy for commands that only look: a broken file is
// said on standard error, and what is in force or the built-in defaults stand in.
func (a *App) PolicyToLookBy() *policy.Policy {
	p, err := a.Policy()
	if err != nil {
		a.Warnf("the policy cannot be used, built-in defaults stand in: %s", FirstLine(AsFailure(err).Message))
		return a.Rules().InForce()
	}
	return p
}

// Engine makes the engine that reads, and that retries when a person asks. With
// notify it also tells people. What they find is signed by the check, with the
// command and the person it runs for.
func (a *App) Engine(store ledger.Store, p func() *policy.Policy, notify bool, log func(string)) *reconcile.Engine {
	e := reconcile.New(reconcile.Options{
		Store: store, Policy: p, Actor: a.Actor(), Program: a.program,
		Notify: notify && !a.ReadOnly, ReadOnly: a.ReadOnly, Clock: a.Clock, Steady: a.Steady, Log: log,
	})
	a.engines = append(a.engines, e)
	return e
}

// Warnf says something on standard error, once.
func (a *App) Warnf(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); !a.warn[line] {
		a.warn[line] = true
		a.ErrOut.Println(safe.Exact("warning: " + line))
	}
}

// Tell is where a recorder says what its user should know.
func (a *App) Tell(line string) { a.ErrOut.Println("indoubt: " + FirstLine(line)) }

// MayChange refuses a change where only looking is asked for, before anything is opened.
func (a *App) MayChange(verb string) error {
	if a.ReadOnly {
		return &Failure{Code: "read_only", Message: "cannot " + verb + ": --read-only is given", Hint: "leave --read-only out"}
	}
	return nil
}

// Close lets go of the engines and of the ledger.
func (a *App) Close() {
	for _, e := range a.engines {
		e.Close()
	}
	a.engines = nil
	if a.Store != nil {
		a.Store.Close()
		a.Store, a.past, a.Live = nil, nil, nil
	}
}

// ConfirmYes asks a person for a y. Everything else, and the end of input, is no.
func (a *App) ConfirmYes(question string) bool {
	answer, err := a.Ask(question + " [y/N] ")
	return err == nil && (strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes"))
}

// Ask puts a question on standard error and reads one line.
func (a *App) Ask(question string) (string, error) {
	fmt.Fprint(a.ErrOut, question) // which may stand in several lines
	line, err := a.In.ReadString('\n')
	if err != nil && line == "" {
		a.ErrOut.Println()
		return "", err
	}
	return strings.TrimSpace(line), nil
}

// LedgerFor opens the ledger: one of look, change and create.
func (a *App) LedgerFor(ctx context.Context, why Purpose) (ledger.Store, error) {
	if a.Store != nil {
		return a.Store, nil
	}
	s, err := a.Open(ctx, why)
	if err != nil {
		return nil, err
	}
	Keep(a, s)
	return s, nil
}

// Keep makes an opened ledger the one that this run works on.
func Keep(a *App, s ledger.Store) {
	a.Store, a.past = s, reconcile.NewHistory(s)
	if a.Live != nil {
		a.Live.Over(s)
	}
}
