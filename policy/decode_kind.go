package policy

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/policy/expr"
)

var (
	kindName   = shortName{lazyregexp.New(`^[A-Za-z0-9_.*/:@-]+$`), 200}
	headerName = shortName{lazyregexp.New("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"), 100}
	redactPath = lazyregexp.New(`^(?:[\w$*-]+)(?:\.[\w$*-]+|\[(?:\d+|\*)\])*$`)
)

// shortName is a pattern for a text of at most so many bytes. A bound in the pattern
// itself is compiled as that many copies, before main.
type shortName struct {
	*lazyregexp.Regexp
	most int
}

// MatchString reports whether text is short enough and matches.
func (b shortName) MatchString(text string) bool {
	return len(text) <= b.most && b.Regexp.MatchString(text)
}

// NamesKind reports whether a policy can name this kind.
func NamesKind(kind string) bool {
	return kindName.MatchString(kind) && !strings.Contains(kind, "*")
}

// notInDefaults are fields that belong to one kind: a default for them would
// prove, send or name things that it was not written for.
var notInDefaults = map[string]string{
	"lands_within":   "what proves absence is said for each kind, never inherited",
	"visible_within": "what proves absence is said for each kind, never inherited",
	"visible_for":    "what proves absence is said for each kind, never inherited",
	"match":          "what a request is of is said for each kind",
	"input":          "what a kind sees of a request is said for each kind",
	"downstream":     "", "title": "", "target": "", "link": "", "key": "", "token": "", "read": "", "resend": "", "answer": "", "tests": "",
}

// kindFields reads the fields of `defaults` or of one kind into k.
func (d fileDecoder) kindFields(k *Kind, n *node) {
	known := d.kindTable(k)
	for i, f := range known {
		known[i].read = func(n *node) {
			if why, own := notInDefaults[f.name]; own && k == d.policy.defaults {
				d.fail(n.place, "does not belong into `defaults`", cmp.Or(why, "say it for each kind"))
				return
			}
			k.origins[f.name] = n.key
			f.read(n)
		}
	}
	d.fields(n, known...)
}

func (d fileDecoder) kindTable(k *Kind) []field {
	return []field{
		{"downstream", func(n *node) { d.downstream(k, n) }},
		{"title", d.filled(&k.title, expr.ForOperation)},
		{"target", d.filled(&k.target, expr.ForOperation)},
		{"link", func(n *node) { k.link = d.link(n) }},
		{"cost", d.mapping(d.cost(k, "duplicate", &k.duplicate), d.cost(k, "miss", &k.miss))},
		{"effect", func(n *node) {
			d.choice((*string)(&k.Effect), "read", "once", "safe", "replaces")(n)
			if k == d.policy.defaults && k.Effect.Safe() {
				d.fail(n.place, "only a kind can be safe to repeat", "say it for each kind")
			}
		}},
		{"deadline", func(n *node) {
			if d.duration(&k.Deadline)(n); k.Deadline < ledger.MinDeadline || k.Deadline > ledger.MaxDeadline {
				d.fail(n.place, "must be from 10ms to 30d", "")
			}
		}},
		{"escalate_after", d.duration(&k.EscalateAfter)},
		{"verify", d.duration(&k.Looks.Verify)},
		{"lands_within", d.bound(&k.LandsWithin)},
		{"visible_within", d.bound(&k.VisibleWithin)},
		{"visible_for", d.bound(&k.VisibleFor)},
		{"retry", d.retry(&k.Retry)},
		{"input", func(n *node) { d.view(k, n) }},
		{"key", func(n *node) { d.key(&k.Key, n) }},
		{"token", func(n *node) { d.token(&k.Token, n) }},
		{"redact", func(n *node) { d.redact(k, n) }},
		{"read", func(n *node) { k.Read = d.read(n) }},
		{"resend", d.choice(&k.Resend, "pipeline", ResendHere)},
		{"answer", func(n *node) { d.answerRules(k, n) }},
		{"repeat", d.choice(&k.Repeat, "hold", "allow", "replay")},
		{"match", func(n *node) { d.matches(k, n) }},
		{"tests", func(n *node) {
			d.each(n, "a list of cases", "- { name: …, answer: { status: 200, body: … }, want: landed }", func(item *node) { k.Tests = append(k.Tests, d.test(item)) })
		}},
	}
}

func (d fileDecoder) retry(r *RetryRule) reader {
	return d.mapping(
		field{"max", d.integer(&r.Max, 0, 100)},
		field{"backoff", parsed(d.decoder, r, func(text string) (RetryRule, error) {
			low, high, err := parseRange(text)
			return RetryRule{r.Max, low, high}, err
		}, "a backoff is written 500ms..30s")},
	)
}

func (d fileDecoder) downstream(k *Kind, n *node) {
	name, ok := d.scalar(n)
	ds, known := d.policy.downstreams[name]
	switch {
	case known:
		k.Downstream = ds
	case ok:
		d.fail(n.place, fmt.Sprintf("there is no downstream %q", name), ledger.DidYouMean(name, sortedNames(d.policy.downstreams)))
	}
}

func (d fileDecoder) link(n *node) *expr.Template {
	t := d.template(n, expr.ForOperation)
	if t == nil {
		return nil
	}
	if host, written := t.Beginning(); !written || !originWritten(host) {
		d.fail(n.place, "must begin with https://host/ written out", "only the part after the host may be computed")
		return nil
	}
	return t
}

// originWritten reports whether text begins with a scheme and a whole host, so
// that nothing computed can lead to another one.
func originWritten(text string) bool {
	scheme, rest, _ := strings.Cut(text, "://")
	host, _, path := strings.Cut(rest, "/")
	u, err := url.Parse("http://" + host)
	return (scheme == "https" || scheme == "http") && path && err == nil && u.Host != "" && u.User == nil
}

func (d fileDecoder) key(k *KeyRule, n *node) {
	d.fields(n,
		field{"from", func(n *node) {
			d.strings(&k.From)(n)
			for i, f := range k.From {
				if _, err := expr.ParsePath(f); err != nil {
					d.fail(n.item(i), err.Error(), "for example customer or order.id")
				}
			}
			if len(k.From) == 0 {
				d.fail(n.place, "names no field of the input", "")
			}
		}},
		field{"ttl", d.duration(&k.TTL)},
	)
}

func (d fileDecoder) token(t *TokenRule, n *node) {
	if n.kind == scalarNode {
		word := ""
		d.choice(&word, "argument")(n)
		t.Argument = word == "argument"
		return
	}
	inInput := func(out *string) reader {
		return parsed(d.decoder, out, func(text string) (string, error) {
			_, err := expr.ParsePath(text)
			return text, err
		}, "for example metadata.indoubt or entities[0].observations")
	}
	d.fields(n, field{"into", inInput(&t.Into)}, field{"append", inInput(&t.Append)})
	if n.kind == mappingNode && len(n.entries) == 0 {
		d.fail(n.place, "does not say where the token goes", "token: { into: metadata.indoubt }, token: { append: tags }, or token: argument")
	}
	if t.Into != "" && t.Append != "" {
		d.fail(n.place, "`into` and `append` exclude each other", "leave out one of the two")
	}
}

func (d fileDecoder) redact(k *Kind, n *node) {
	var own []string
	d.strings(&own)(n)
	for i, p := range own {
		if !redactPath.MatchString(p) {
			d.fail(n.item(i), fmt.Sprintf("%q is not a path into the input", p), "for example card.number or items.*.email")
		}
	}
	// What the defaults hide stays hidden: a kind can only hide more.
	k.Redact = slices.Concat(k.Redact, own)
}
