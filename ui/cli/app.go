package cli

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

// app is one run of the program: its streams, its global flags, and what the
// commands need opened. Fields that a test may want to say otherwise are set by
// newApp and never after.
type app struct {
	in     *bufio.Reader
	out    *safe.Writer
	errOut *safe.Writer
	env    func(string) string
	clock  ledger.Clock
	steady ledger.SteadyClock // nil: the host's
	// rawOut and rawErr go past the door. They are for what a wrapped command or
	// server says itself, for its replay, and for protocols.
	rawOut, rawErr io.Writer
	// terminal reports whether a person sits at both ends: standard input and
	// output are a terminal.
	terminal func() bool
	width    func() int // columns of the output, 0 when it is no terminal
	stdin    io.Reader  // as given, for the console

	ledgerPath, policyPath, as string
	readOnly                   bool
	json                       bool   // one JSON object is printed
	banner                     string // shown in the console's header

	store ledger.Store
	past  *reconcile.History // of the store: what the odds rest on
	live  *livePolicy
	warn  map[string]bool

	program string              // console, or the command
	engines []*reconcile.Engine // they may keep servers and pools open
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	a := &app{in: bufio.NewReader(stdin), stdin: stdin, env: os.Getenv, clock: time.Now, warn: map[string]bool{},
		out: safe.NewWriter(stdout), errOut: safe.NewWriter(stderr), rawOut: stdout, rawErr: stderr}
	a.terminal = func() bool { return isTerminal(stdin) && isTerminal(stdout) }
	a.width = func() (width int) {
		if f, ok := stdout.(*os.File); ok {
			width, _, _ = term.GetSize(int(f.Fd()))
		}
		return width
	}
	return a
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// prepare fills what no flag said from the environment.
func (a *app) prepare(cmd *cobra.Command) error {
	if a.program = cmd.Name(); !cmd.HasParent() {
		a.program = "console"
	}
	if err := swallowed(cmd); err != nil {
		return err
	}
	for _, name := range []string{"ledger", "policy", "as", "key", "idempotency-key"} {
		if f := cmd.Flag(name); f != nil && f.Changed && strings.TrimSpace(f.Value.String()) == "" {
			return usage("--"+name+" is empty", "is a variable not set? leave it out for the default")
		}
	}
	if f := cmd.Flag("ledger"); f != nil && f.Changed {
		if err := open.InArgument(a.ledgerPath); err != nil {
			return err
		}
	}
	a.ledgerPath = cmp.Or(a.ledgerPath, a.env("INDOUBT_LEDGER"))
	a.policyPath = cmp.Or(a.policyPath, a.env("INDOUBT_POLICY"))
	a.as = cmp.Or(a.as, a.env("INDOUBT_ACTOR"))
	if ledger.ReservedActor(a.as) {
		return usage(fmt.Sprintf("%q is a name that indoubt signs with itself", strings.TrimSpace(a.as)), "say who you are with --as NAME or INDOUBT_ACTOR")
	}
	return nil
}

// actor is the person at this command line. The name is a label; who is logged
// in and where stands beside it.
func (a *app) actor() ledger.Actor {
	login := osUser()
	who := ledger.Actor{Name: cmp.Or(strings.TrimSpace(a.as), login), OSUser: login, Terminal: a.terminal()}
	who.Host, _ = os.Hostname()
	return who
}

// machine is the actor of something that acts without a person: a pipeline or a
// proxy. Its name is the first of these that is given and not reserved.
func (a *app) machine(names ...string) ledger.Actor {
	who := a.actor()
	who.Machine, who.Terminal = true, false
	for _, name := range append([]string{a.as}, names...) {
		if who.Name = strings.TrimSpace(name); who.Name != "" && !ledger.ReservedActor(who.Name) {
			break
		}
	}
	return who
}

// sharedAccount reports whether the name of the actor says nothing about the
// person: the first decision asks.
func (a *app) sharedAccount() bool {
	if strings.TrimSpace(a.as) != "" {
		return false
	}
	switch osUser() {
	case "", "root", "admin", "oncall", "on-call", "ops", "operator", "deploy", "ubuntu", "debian", "ec2-user", "vagrant":
		return true
	}
	return false
}

func osUser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return os.Getenv("USER")
}

// policyFile is the path in force, and whether it was named. A file that
// was named must exist; the default one may be missing.
func (a *app) policyFile() (path string, named bool) {
	return cmp.Or(a.policyPath, filepath.Join(xdg.ConfigHome, "indoubt", "policy.yaml")), a.policyPath != ""
}

// policy is what is worked by: what is in force in the ledger, once that is open, else the
// file. A file that is broken, or missing where it was named, is an error.
func (a *app) policy() (*policy.Policy, error) {
	path, named := a.policyFile()
	rules := a.rules()
	now := rules.now()
	if now.broken != nil {
		return nil, now.broken
	}
	if _, err := os.Stat(path); named && errors.Is(err, fs.ErrNotExist) {
		return nil, &failure{Code: "no_file", Message: "no policy file at " + short(path),
			Hint: "check --policy / INDOUBT_POLICY, or write one: indoubt policy init"}
	}
	return rules.inForce(), nil
}

// policyToLookBy is the policy for commands that only look: a broken file is
// said on standard error, and what is in force or the built-in defaults stand in.
func (a *app) policyToLookBy() *policy.Policy {
	p, err := a.policy()
	if err != nil {
		a.warnf("the policy cannot be used, built-in defaults stand in: %s", firstLine(asFailure(err).Message))
		return a.rules().inForce()
	}
	return p
}

// engine makes the engine that reads, and that retries when a person asks. With
// notify it also tells people. What they find is signed by the check, with the
// command and the person it runs for.
func (a *app) engine(store ledger.Store, p func() *policy.Policy, notify bool, log func(string)) *reconcile.Engine {
	e := reconcile.New(reconcile.Options{
		Store: store, Policy: p, Actor: a.actor(), Program: a.program, Notify: notify && !a.readOnly, ReadOnly: a.readOnly, Clock: a.clock, Steady: a.steady, Log: log,
	})
	a.engines = append(a.engines, e)
	return e
}

// warnf says something on standard error, once.
func (a *app) warnf(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); !a.warn[line] {
		a.warn[line] = true
		a.errOut.Println(safe.Exact("warning: " + line))
	}
}

// mayChange refuses a change where only looking is asked for, before anything is opened.
func (a *app) mayChange(verb string) error {
	if a.readOnly {
		return &failure{Code: "read_only", Message: "cannot " + verb + ": --read-only is given", Hint: "leave --read-only out"}
	}
	return nil
}

func (a *app) close() {
	for _, e := range a.engines {
		e.Close()
	}
	a.engines = nil
	if a.store != nil {
		a.store.Close()
		a.store, a.past, a.live = nil, nil, nil
	}
}

// confirmYes asks a person for a y. Everything else, and the end of input, is no.
func (a *app) confirmYes(question string) bool {
	answer, err := a.ask(question + " [y/N] ")
	return err == nil && (strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes"))
}

// ask puts a question on standard error and reads one line.
func (a *app) ask(question string) (string, error) {
	fmt.Fprint(a.errOut, question) // which may stand in several lines
	line, err := a.in.ReadString('\n')
	if err != nil && line == "" {
		a.errOut.Println()
		return "", err
	}
	return strings.TrimSpace(line), nil
}

// ledgerFor opens the ledger: one of look, change and create.
func (a *app) ledgerFor(ctx context.Context, why purpose) (ledger.Store, error) {
	if a.store != nil {
		return a.store, nil
	}
	s, err := a.open(ctx, why)
	if err != nil {
		return nil, err
	}
	keep(a, s)
	return s, nil
}

func keep(a *app, s ledger.Store) {
	a.store, a.past = s, reconcile.NewHistory(s)
	if a.live != nil {
		a.live.over(s)
	}
}
