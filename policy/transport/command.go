package transport

import (
	"fmt"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/policy/expr"
	"indoubt/policy/file"
)

type Command struct {
	argv  []*expr.Template
	dir   string
	env   []Pair
	Stdin *expr.Tree
}

const argvHint = "there is no shell: write [tool, find, \"${token}\"]"

func readCommand(d *file.Decoder, n *file.Node) *Command {
	c := &Command{}
	switch n.Kind {
	case file.List:
		c.argv = readArgv(d, n, readAsked)
	case file.Mapping:
		fine := d.Fields(n, file.Table{
			"argv":  func(n *file.Node) { c.argv = readArgv(d, n, readAsked) },
			"dir":   d.Text(&c.dir),
			"env":   func(n *file.Node) { c.env = readEnvironment(d, n) },
			"stdin": d.Data(&c.Stdin),
		})
		if fine && len(c.argv) == 0 {
			d.Fail(n.Place, "says no command", "argv: [tool, find, \"${token}\"]")
		}
	default:
		d.Must(n, file.List, "a list of arguments", argvHint)
	}
	return c
}

func readAsked(d *file.Decoder, n *file.Node) *expr.Template { return d.Template(n, expr.ForRequest) }

// readArgv reads a command; read reads one of its arguments.
func readArgv(d *file.Decoder, n *file.Node, read func(*file.Decoder, *file.Node) *expr.Template) (argv []*expr.Template) {
	if n.Kind != file.List || len(n.Items) == 0 {
		d.Fail(n.Place, "must be a list of arguments", argvHint)
	}
	for i, item := range n.Items {
		a := read(d, item)
		if a == nil {
			continue
		}
		if i == 0 && (a.Text == "" || len(a.Expressions()) > 0) {
			d.Fail(item.Place, "the command itself is written out", "write its name or path")
		}
		argv = append(argv, a)
	}
	return argv
}

func (c *Command) Questions() []*expr.Template {
	return slices.Concat(c.argv, values(c.env), c.Stdin.Templates())
}

func (c *Command) Via() string                 { return "command" }
func (c *Command) Attach(*file.Decoder, Reach) {}
func (c *Command) beside() []*expr.Template    { return nil }

func (c *Command) render(r *Rendering) Request {
	out := &CommandRequest{Dir: c.dir}
	free := false // after `--` nothing is an option
	for i, a := range c.argv {
		v := r.At(fmt.Sprintf("argument %d", i)).Text(a)
		_, literal := a.Beginning()
		switch {
		case strings.HasPrefix(v, "-") && !literal && !free:
			r.At("").Fail(fmt.Errorf("argument %d begins with %q, which the command would take for an option", i, "-"))
		case strings.ContainsRune(v, 0):
			r.At("").Fail(fmt.Errorf("argument %d has a zero byte", i))
		}
		free = free || v == "--" && literal
		out.Argv = append(out.Argv, v)
	}
	out.Env = r.environment(c.env)
	if c.Stdin != nil {
		out.Stdin = ledger.EncodeJSON(r.At("stdin").Tree(c.Stdin))
	} else {
		out.Stdin = r.Stdin()
	}
	return Request{Command: out}
}

// text is the command line as a person reads it, with where it runs and what it
// reads below it.
func (c *CommandRequest) text() string {
	text := strings.Join(ledger.Each(slices.Concat(c.Env, c.Argv), ledger.ShellWord), " ")
	if c.Dir != "" {
		text += "\nin " + c.Dir
	}
	if len(c.Stdin) > 0 {
		text += "\nstdin: " + string(c.Stdin)
	}
	return text
}

func (c *CommandRequest) Leaving() []string {
	return c.Argv[min(1, len(c.Argv)):] // without the name of the program
}

type overCommand struct{}

func (overCommand) complete(a *ledger.Answer)   { a.Exited = true }
func (overCommand) whole(a *ledger.Answer) bool { return a.Exited }

func (overCommand) usable(a *ledger.Answer) error {
	switch {
	case a.Truncated:
		return errCut
	case !a.Exited:
		return fmt.Errorf("the command did not end by itself: %s", a.Signal)
	}
	return nil
}

func (overCommand) succeeded(a *ledger.Answer, _ bool) (bool, error) {
	return a.Exited && a.Exit == 0, nil
}
func (overCommand) document(a *ledger.Answer) (any, error) { return decoded(a, a.Stdout) }

func (overCommand) refusal(a *ledger.Answer, _ bool) error {
	if a.Exit == 0 {
		return nil
	}
	return fmt.Errorf("the check ended with exit code %d%s", a.Exit, complaint(*a))
}
