package policy

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"indoubt/policy/file"

	"indoubt/ledger"
	"indoubt/policy/expr"
)

type commandRule struct {
	argv  []*expr.Template
	dir   string
	env   []pair
	stdin *expr.Tree
}

const argvHint = "there is no shell: write [tool, find, \"${token}\"]"

func (d decoder) command(n *file.Node) *commandRule {
	c := &commandRule{}
	asked := func(n *file.Node) *expr.Template { return d.Template(n, expr.ForRequest) }
	switch n.Kind {
	case file.List:
		c.argv = d.argv(n, asked)
	case file.Mapping:
		fine := d.Fields(n, file.Table{
			"argv":  func(n *file.Node) { c.argv = d.argv(n, asked) },
			"dir":   d.Text(&c.dir),
			"env":   func(n *file.Node) { c.env = d.environment(n) },
			"stdin": d.Data(&c.stdin),
		})
		if fine && len(c.argv) == 0 {
			d.Fail(n.Place, "says no command", "argv: [tool, find, \"${token}\"]")
		}
	default:
		d.Must(n, file.List, "a list of arguments", argvHint)
	}
	return c
}

// argv reads a command; read reads one of its arguments.
func (d decoder) argv(n *file.Node, read func(*file.Node) *expr.Template) (argv []*expr.Template) {
	if n.Kind != file.List || len(n.Items) == 0 {
		d.Fail(n.Place, "must be a list of arguments", argvHint)
	}
	for i, item := range n.Items {
		a := read(item)
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

func (c *commandRule) questions() []*expr.Template {
	return slices.Concat(c.argv, values(c.env), c.stdin.Templates())
}

func (c *commandRule) via() string              { return "command" }
func (c *commandRule) beside() []*expr.Template { return nil }

func (c *commandRule) render(r *rendering) Request {
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
	out.Stdin = c.input(r)
	return Request{Command: out}
}

// input is the JSON a command gets on its standard input: what the policy says,
// else the operation.
func (c *commandRule) input(r *rendering) []byte {
	if c.stdin != nil {
		return ledger.EncodeJSON(r.At("stdin").Tree(c.stdin))
	}
	o := r.vars.rec.Operation
	return ledger.EncodeJSON(map[string]any{
		"id": o.ID, "kind": o.Kind, "key": o.KeyToSend(), "token": o.Token, "receipt": o.Receipt(), "input": r.vars.kind.seenJSON(o), "cursor": r.vars.cursor,
	})
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

func (c *CommandRequest) leaving() []string {
	return c.Argv[min(1, len(c.Argv)):] // without the name of the program
}

// againCommand renders the command line as `run` recorded it.
func againCommand(vars *variables, digest Digest) (Request, error) {
	req, err := vars.twice(func(show bool) (Request, error) { return recordedCommand(vars, digest, show) })
	req.Shown += "\nin your environment"
	return req, err
}

// recordedCommand fills in {{key}} and {{token}}, and ${NAME}, read from the environment now,
// where its value is the one it had. What is shown keeps the name.
func recordedCommand(vars *variables, digest Digest, show bool) (Request, error) {
	o := vars.rec.Operation
	out := &CommandRequest{Dir: o.Command.Dir}
	if !show {
		out.Env = []string{"INDOUBT_KEY=" + o.KeyToSend(), "INDOUBT_TOKEN=" + o.Token}
	}
	for _, a := range o.Command.Argv {
		if strings.Contains(a, digestPrefix) {
			return Request{}, errors.New("parts of its command are secret, and not kept; a secret that is named is read anew: " +
				"indoubt run --expand NAME -- … '${NAME}'")
		}
		// One pass over the argument: a value that looks like a placeholder is not expanded again.
		pairs := []string{"{{key}}", o.KeyToSend(), "{{token}}", o.Token}
		for _, name := range sortedNames(o.Command.Expand) {
			mark := "${" + name + "}"
			if show || !strings.Contains(a, mark) {
				continue
			}
			v, ok := os.LookupEnv(name)
			if !ok {
				return Request{}, &MissingSecretError{Name: name}
			}
			if err := sameValue(o.Command.Expand[name], v, name, "your environment has", digest); err != nil {
				return Request{}, err
			}
			vars.secrets.Add(v)
			pairs = append(pairs, mark, v)
		}
		v := strings.NewReplacer(pairs...).Replace(a)
		if strings.HasPrefix(v, "-") && !strings.HasPrefix(a, "-") {
			return Request{}, fmt.Errorf("a value makes argument %d begin with %q, which the command would take for an option", len(out.Argv), "-")
		}
		out.Argv = append(out.Argv, v)
	}
	return Request{Command: out}, nil
}
