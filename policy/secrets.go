package policy

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/ledger/redact"
)

// secretLint looks for secrets that are written out.
type secretLint struct {
	found secretBox
	noted int // also those that are too short to be kept
	in    []*node
}

// refuseSecrets refuses secrets that are written out. It runs before the file is decoded, so
// that no problem shows them.
func (d fileDecoder) refuseSecrets(root *node) {
	l := &secretLint{}
	for _, e := range root.entries {
		if e.value.kind != mappingNode {
			l.walk(e.value, "", e.name)
		}
		for _, own := range e.value.entries { // its name is the file's own, and means nothing here
			l.walk(own.value, "", "")
		}
	}
	d.src.secrets = l.found.forms()
	for _, n := range l.in {
		d.fail(n.place, "holds a secret that is written out", "renew it, and name one where something is sent: ${env.NAME} or ${file(\"/path\")}; the file is kept in git")
	}
}

// walk looks at what stands under a name, in what stands under holder.
func (l *secretLint) walk(n *node, holder, name string) {
	switch n.kind {
	case mappingNode:
		for _, e := range n.entries {
			l.walk(e.value, name, e.name)
		}
	case sequenceNode:
		if name == "command" || name == "argv" {
			l.command(n)
			return
		}
		for _, item := range n.items {
			l.walk(item, holder, name)
		}
	case scalarNode:
		before := l.noted
		redact.Replace(n.text, l.note)
		for _, v := range passwords(n.text) {
			l.note(v)
		}
		if secretly(n, holder, name) {
			l.note(n.text)
		}
		if l.noted > before {
			l.in = append(l.in, n)
		}
	}
}

// command looks at the arguments of a command.
func (l *secretLint) command(n *node) {
	argv := ledger.Each(n.items, func(item *node) string { return item.text })
	for i, shown := range redact.Argv(argv, l.note) {
		if shown != argv[i] {
			l.in = append(l.in, n.items[i])
		}
	}
}

// note keeps a secret, and gives what stands for it.
func (l *secretLint) note(v string) string {
	if v == "" || byName(v) {
		return v
	}
	l.noted++
	l.found.add(v)
	return redact.Mark
}

// byName reports whether a text is the name of a secret, ${…}, or a variable that a
// shell should have filled in.
func byName(v string) bool {
	v = strings.TrimLeft(v, `"'`)
	return strings.HasPrefix(v, "${") || shellVariable.MatchString(v) || strings.HasPrefix(v, "$(")
}

// mild are values of headers that are named like secrets and switch something.
var mild = map[string]bool{"no-check": true, "nocheck": true, "fetch": true, "required": true, "none": true, "true": true, "false": true}

// secretly reports whether a text is secret because of its name. In a header and in the
// environment more names are, and what is the path of one is none.
func secretly(n *node, holder, name string) bool {
	sent := holder == "headers" || holder == "env"
	if !redact.Name(name) && !(sent && redact.Variable(name)) || strings.Contains(n.path, ".tests[") {
		return false
	}
	path := holder == "env" && strings.ContainsAny(n.text[:min(1, len(n.text))], "/~.")
	return !path && !mild[strings.ToLower(n.text)] && !strings.Contains(n.text, "${")
}

var userinfo = lazyregexp.New(`(?i)^https?://([^/?#\s@]+)@`)

// passwords are the passwords in an address that only its form shows.
func passwords(text string) []string {
	m := userinfo.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	if user, password, ok := strings.Cut(m[1], ":"); ok && user != "" {
		return []string{password, m[1]}
	}
	return m[1:]
}

// shellVariable is $NAME at the beginning of a text.
var shellVariable = lazyregexp.New(`^\$[A-Za-z_][A-Za-z0-9_]+`)

// Withheld stands for a secret in what is shown or kept.
const Withheld = redact.Mark

// minSecret is the length below which a value is too common to be looked for.
const minSecret = 6

// secretBox collects the secrets that were put into a request, so that they are
// known again where the other side repeats them.
type secretBox struct{ values []string }

func (b *secretBox) add(v string) {
	if v = strings.TrimSpace(v); len(v) < minSecret || slices.Contains(b.values, v) {
		return
	}
	b.values = append(b.values, v)
}

// parts adds the secrets inside an address or a DSN: an error repeats them alone.
func (b *secretBox) parts(text string) {
	redact.Replace(text, func(v string) string { b.add(v); return v })
	for _, v := range passwords(text) {
		b.add(v)
	}
}

// forms are the secrets as they are, and as the other side may repeat them in JSON or in an
// address.
func (b *secretBox) forms() (all []string) {
	for _, v := range b.values {
		quoted, _ := json.Marshal(v)
		all = append(all, v, string(quoted[1:len(quoted)-1]), url.QueryEscape(v), url.PathEscape(v))
	}
	return longestFirst(all)
}

// longestFirst sorts secrets, each once: one may begin with another.
func longestFirst(secrets []string) []string {
	secrets = slices.Compact(slices.Sorted(slices.Values(secrets)))
	slices.SortStableFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	return secrets
}

// Withhold is a text without the secrets that were put into the request.
func (r Request) Withhold(text string) string { return withhold(text, r.Secrets) }

// WithholdFrom is err with its text as Withhold gives it.
func (r Request) WithholdFrom(err error) error {
	if err == nil {
		return nil
	}
	if text := r.Withhold(err.Error()); text != err.Error() {
		return &withheldError{text, err}
	}
	return err
}

type withheldError struct {
	text string
	err  error
}

func (e *withheldError) Error() string { return e.text }
func (e *withheldError) Unwrap() error { return e.err }

func withhold(text string, secrets []string) string {
	for _, v := range longestFirst(secrets) {
		text = strings.ReplaceAll(text, v, Withheld)
	}
	return text
}

// Withhold is a text without what looks like a secret.
func Withhold(text string) string { return hide(text) }

// hide is Withhold, but for the given words, which are none. A secret's name stays.
func hide(text string, none ...string) string {
	return redact.Replace(text, func(v string) string {
		if strings.HasPrefix(v, "${") || slices.Contains(none, v) {
			return v
		}
		return Withheld
	})
}
