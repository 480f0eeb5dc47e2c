package policy

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"indoubt/ledger/lazyregexp"
	"indoubt/ledger/redact"
)

// use is what a value of the file is for: it decides what counts as a secret in it.
type use int

const (
	elsewhere use = iota // nothing that is sent: expressions, clocks, cases
	inHeaders
	inEnvironment
	inData      // what becomes JSON, a form, a query, a tool's arguments
	inArguments // of a command
	inAddress
	inDSN
)

// uses are what the fields of a file begin. Below them it is the same, but for
// fields that begin something of their own.
var uses = map[string]use{
	"headers": inHeaders, "env": inEnvironment, "query": inData, "json": inData, "form": inData, "stdin": inData, "arguments": inData, "args": inData,
	"argv": inArguments, "command": inArguments, "base": inAddress, "url": inAddress, "link": inAddress,
	"get": inAddress, "post": inAddress, "put": inAddress,
	"sqlite": inDSN, "postgres": inDSN, "tests": elsewhere,
}

// secretLint looks for secrets that are written out.
type secretLint struct {
	found secretBox
	in    []*node
}

// refuseSecrets refuses secrets that are written out. It runs before the file is decoded, so
// that no problem shows them.
func (d checker) refuseSecrets(root *node) {
	l := &secretLint{}
	for _, e := range root.entries {
		if e.value.kind == mappingNode && (e.name == "kinds" || e.name == "downstreams" || e.name == "notify") {
			for _, own := range e.value.entries { // the name means nothing here
				l.walk(own.value, "", elsewhere)
			}
			continue
		}
		l.walk(e.value, e.name, elsewhere)
	}
	longestFirst(l.found.values)
	d.src.secrets = l.found.values
	for _, n := range l.in {
		d.fail(n.place, "holds a secret that is written out", "renew it, and name one where something is sent: ${env.NAME} or ${file(\"/path\")}; the file is kept in git")
	}
}

func (l *secretLint) walk(n *node, name string, in use) {
	switch n.kind {
	case mappingNode:
		for _, e := range n.entries {
			l.walk(e.value, e.name, below(in, e))
		}
	case sequenceNode:
		flag := ""
		for _, item := range n.items {
			own := name
			if in == inArguments {
				own, flag = flag, item.text
			}
			l.walk(item, own, in)
		}
	case scalarNode:
		if l.look(n.text, name, in) {
			l.in = append(l.in, n)
		}
	}
}

// below is the use of a field's value.
func below(in use, e entry) use {
	own, known := uses[e.name]
	switch {
	case strings.Contains(e.value.path, ".tests["), !known, in == inHeaders, in == inEnvironment:
		return in
	case in == inData: // its names are those of the other side
		return in
	}
	return own
}

// look keeps the secrets in a text. It reports whether there was one, also one that is
// too short to be kept.
func (l *secretLint) look(text, name string, in use) (any bool) {
	keep := func(v string) string {
		if v != "" && !byName(v) {
			any = true
			l.found.add(v)
		}
		return v
	}
	redact.Replace(text, keep)
	for _, v := range append(passwords(text, in), namedSecrets(text, name, in)...) {
		keep(v)
	}
	return any
}

// byName reports whether a text is the name of a secret, ${…}, or a variable that a
// shell should have filled in.
func byName(v string) bool {
	v = strings.TrimLeft(v, `"'`)
	return strings.HasPrefix(v, "${") || shellVariable.MatchString(v) || strings.HasPrefix(v, "$(")
}

// mild are values of headers that are named like secrets and switch something.
var mild = map[string]bool{"no-check": true, "nocheck": true, "fetch": true, "required": true, "none": true, "true": true, "false": true}

// secretly reports whether what stands under a name is secret.
func secretly(name string, in use) bool {
	switch in {
	case inHeaders, inEnvironment:
		return redact.Variable(name)
	case inData:
		return redact.Name(name)
	case inArguments: // the argument before
		return strings.HasPrefix(name, "--") && !strings.Contains(name, "=") && redact.Variable(name)
	}
	return false
}

// namedSecrets is the text, or what of it is secret, if its name says so.
func namedSecrets(text, name string, in use) (out []string) {
	if !secretly(name, in) || byName(text) || strings.Contains(text, "${") || mild[strings.ToLower(text)] || strings.HasPrefix(text, "-") {
		return nil
	}
	if in == inEnvironment && strings.ContainsAny(text[:min(1, len(text))], "/~.") {
		return nil // the path of one
	}
	switch name = redact.PlainName(name); {
	case strings.HasSuffix(name, "authorization"):
		if _, rest, ok := strings.Cut(text, " "); ok {
			text = rest
		}
	case strings.HasSuffix(name, "cookie"):
		for _, pair := range strings.Split(text, ";") {
			_, v, _ := strings.Cut(pair, "=")
			out = append(out, v)
		}
	}
	return append(out, text)
}

var userinfo = lazyregexp.New(`(?i)^https?://([^/?#\s@]+)@`)

// passwords are the passwords in an address that only its form shows.
func passwords(text string, in use) []string {
	m := userinfo.FindStringSubmatch(text)
	if in != inAddress || m == nil {
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
func (b *secretBox) parts(text string, in use) {
	redact.Replace(text, func(v string) string { b.add(v); return v })
	for _, v := range passwords(text, in) {
		b.add(v)
	}
}

// Withhold is a text without the secrets that were put into the request, also
// where the other side repeats them as JSON or in an address.
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

// longestFirst sorts secrets: one may begin with another.
func longestFirst(secrets []string) {
	slices.SortStableFunc(secrets, func(a, b string) int { return len(b) - len(a) })
}

func withhold(text string, secrets []string) string {
	secrets = slices.Clone(secrets)
	longestFirst(secrets)
	for _, v := range secrets {
		quoted, _ := json.Marshal(v)
		for _, form := range []string{v, string(quoted[1 : len(quoted)-1]), url.QueryEscape(v), url.PathEscape(v)} {
			text = strings.ReplaceAll(text, form, Withheld)
		}
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
