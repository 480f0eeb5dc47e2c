package file

import (
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/ledger/redact"
)

// secretLint looks for secrets that are written out.
type secretLint struct {
	found redact.Box
	noted int // also those that are too short to be kept
	in    []*Node
}

// refuseSecrets refuses secrets that are written out. It runs before the file is decoded, so
// that no problem shows them.
func (d *Decoder) refuseSecrets(root *Node) {
	l := &secretLint{}
	for _, e := range root.Entries {
		if e.Value.Kind != Mapping {
			l.walk(e.Value, "", e.Name)
		}
		for _, own := range e.Value.Entries { // its name is the file's own, and means nothing here
			l.walk(own.Value, "", "")
		}
	}
	d.src.secrets = l.found.Forms()
	for _, n := range l.in {
		d.Fail(n.Place, "holds a secret that is written out",
			"renew it, and name one where something is sent: ${env.NAME} or ${file(\"/path\")}; the file is kept in git")
	}
}

// walk looks at what stands under a name, in what stands under holder.
func (l *secretLint) walk(n *Node, holder, name string) {
	switch n.Kind {
	case Mapping:
		for _, e := range n.Entries {
			l.walk(e.Value, name, e.Name)
		}
	case List:
		if name == "command" || name == "argv" {
			l.command(n)
			return
		}
		for _, item := range n.Items {
			l.walk(item, holder, name)
		}
	case Scalar:
		before := l.noted
		redact.Replace(n.Text, l.note)
		for _, v := range redact.Passwords(n.Text) {
			l.note(v)
		}
		if secretly(n, holder, name) {
			l.note(n.Text)
		}
		if l.noted > before {
			l.in = append(l.in, n)
		}
	}
}

func (l *secretLint) command(n *Node) {
	argv := ledger.Each(n.Items, func(item *Node) string { return item.Text })
	for i, shown := range redact.Argv(argv, l.note) {
		if shown != argv[i] {
			l.in = append(l.in, n.Items[i])
		}
	}
}

// note keeps a secret, and gives what stands for it.
func (l *secretLint) note(v string) string {
	if v == "" || byName(v) {
		return v
	}
	l.noted++
	l.found.Add(v)
	return redact.Mark
}

// byName reports whether a text is the name of a secret, ${…}, or a variable that a
// shell should have filled in.
func byName(v string) bool {
	v = strings.TrimLeft(v, `"'`)
	return strings.HasPrefix(v, "${") || shellVariable.MatchString(v) || strings.HasPrefix(v, "$(")
}

// mild are values of headers that are named like secrets and switch something.
var mild = []string{"no-check", "nocheck", "fetch", "required", "none", "true", "false"}

// secretly reports whether a text is secret because of its name. In a header and in the
// environment more names are, and what is the path of one is none.
func secretly(n *Node, holder, name string) bool {
	sent := holder == "headers" || holder == "env"
	if !redact.Name(name) && !(sent && redact.Variable(name)) || strings.Contains(n.Path, ".tests[") {
		return false
	}
	path := holder == "env" && strings.ContainsAny(n.Text[:min(1, len(n.Text))], "/~.")
	return !path && !slices.Contains(mild, strings.ToLower(n.Text)) && !strings.Contains(n.Text, "${")
}

// shellVariable is $NAME at the beginning of a text.
var shellVariable = lazyregexp.New(`^\$[A-Za-z_][A-Za-z0-9_]+`)
