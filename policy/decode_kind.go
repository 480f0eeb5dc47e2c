package policy

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

var (
	kindName   = regexp.MustCompile(`^[A-Za-z0-9_.*/:@-]{1,200}$`)
	headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$")
)

// notInDefaults are fields that belong to one kind: a default for them would
// prove, send or name things nobody thought of.
var notInDefaults = map[string]string{
	"lands_within":   "what proves absence is said for each kind, never inherited",
	"visible_within": "what proves absence is said for each kind, never inherited",
	"visible_for":    "what proves absence is said for each kind, never inherited",
	"idempotent":     "only a kind can be safe to repeat",
	"match":          "what a request is of is said for each kind",
	"downstream":     "", "title": "", "target": "", "link": "", "key": "", "token": "", "read": "", "send": "", "tests": "",
	"committed": "", "refused": "", "already": "",
}

// kindFields reads the fields of `defaults` or of one kind into k.
func (d *decoder) kindFields(k *Kind, n *node, path string, defaults bool) {
	known := d.kindTable(k)
	if defaults {
		for i, f := range known {
			why, refused := notInDefaults[f.name]
			if !refused {
				continue
			}
			if why == "" {
				why = "say it for each kind"
			}
			known[i].read = func(n *node, path string) { d.fail(n.at, path, "does not belong into `defaults`", why) }
		}
	}
	if k.origins == nil {
		k.origins = map[string]position{}
	}
	for i, f := range known {
		known[i].read = func(n *node, path string) {
			k.origins[f.name] = n.key
			f.read(n, path)
		}
	}
	d.fields(n, path, known)
}

func (d *decoder) kindTable(k *Kind) []field {
	return []field{
		{"downstream", func(n *node, path string) { d.kindDownstream(k, n, path) }},
		{"title", func(n *node, path string) { k.title = d.template(n, path, scopeOperation) }},
		{"target", func(n *node, path string) { k.target = d.template(n, path, scopeOperation) }},
		{"link", func(n *node, path string) { d.link(k, n, path) }},
		{"cost", func(n *node, path string) { d.costs(k, n, path) }},
		{"look", func(n *node, path string) { d.amount(n, path, &k.Look) }},
		{"access", func(n *node, path string) { d.choice(n, path, &k.Access, "read", "write") }},
		{"idempotent", func(n *node, path string) { d.boolean(n, path, &k.Idempotent) }},
		{"deadline", func(n *node, path string) {
			d.duration(n, path, &k.Deadline)
			if !deadlineSane(k.Deadline) {
				d.fail(n.at, path, "must be from 10ms to 30d", "")
			}
		}},
		{"timeout", func(n *node, path string) { d.duration(n, path, &k.Timeout) }},
		{"escalate_after", func(n *node, path string) { d.duration(n, path, &k.EscalateAfter) }},
		{"recheck_after", func(n *node, path string) { d.duration(n, path, &k.RecheckAfter) }},
		{"skew", func(n *node, path string) { d.duration(n, path, &k.Skew) }},
		{"lands_within", func(n *node, path string) { d.optionalDuration(n, path, &k.LandsWithin) }},
		{"visible_within", func(n *node, path string) { d.optionalDuration(n, path, &k.VisibleWithin) }},
		{"visible_for", func(n *node, path string) { d.optionalDuration(n, path, &k.VisibleFor) }},
		{"retry", func(n *node, path string) { d.retry(k, n, path) }},
		{"auto", func(n *node, path string) { d.auto(k, n, path) }},
		{"key", func(n *node, path string) { d.key(k, n, path) }},
		{"token", func(n *node, path string) { d.token(k, n, path) }},
		{"redact", func(n *node, path string) { d.redact(k, n, path) }},
		{"read", func(n *node, path string) { d.read(k, n, path) }},
		{"send", func(n *node, path string) { d.send(k, n, path) }},
		{"committed", func(n *node, path string) { k.committed = d.expression(n, path, scopeAnswer, wantBool) }},
		{"refused", func(n *node, path string) { k.refused = d.expression(n, path, scopeAnswer, wantBool) }},
		{"already", func(n *node, path string) { k.already = d.expression(n, path, scopeAnswer, wantBool) }},
		{"repeat", func(n *node, path string) { d.choice(n, path, &k.Repeat, "allow", "replay") }},
		{"cancel", func(n *node, path string) { d.choice(n, path, &k.Cancel, "keep", "forward") }},
		{"match", func(n *node, path string) { d.matches(k, n, path) }},
		{"hold", func(n *node, path string) { d.choice(n, path, &k.Hold, "none") }},
		{"control", func(n *node, path string) {
			word := ""
			d.choice(n, path, &word, "on", "off", "true", "false")
			k.Control = word == "on" || word == "true"
		}},
		{"unattended_risk", func(n *node, path string) { d.boolean(n, path, &k.UnattendedRisk) }},
		{"tests", func(n *node, path string) { d.tests(k, n, path) }},
	}
}

func (d *decoder) kindDownstream(k *Kind, n *node, path string) {
	name, ok := d.scalar(n, path)
	if !ok {
		return
	}
	ds, known := d.policy.downstreams[name]
	if !known {
		d.fail(n.at, path, fmt.Sprintf("there is no downstream %q", name), didYouMean(name, sortedNames(d.policy.downstreams)))
		return
	}
	k.Downstream = ds
}

func (d *decoder) link(k *Kind, n *node, path string) {
	t := d.template(n, path, scopeOperation)
	if t == nil {
		return
	}
	if first := t.parts[0]; first.expr != nil || !originWritten(first.literal) {
		d.fail(n.at, path, "must begin with https://host/ written out", "only the part after the host may be computed")
		return
	}
	k.link = t
}

// originWritten reports whether text begins with a scheme and a whole host, so
// that nothing computed can lead to another one.
func originWritten(text string) bool {
	rest, ok := strings.CutPrefix(text, "https://")
	if !ok {
		if rest, ok = strings.CutPrefix(text, "http://"); !ok {
			return false
		}
	}
	host, _, path := strings.Cut(rest, "/")
	u, err := url.Parse("http://" + host)
	return path && err == nil && u.Host != "" && u.User == nil
}

func (d *decoder) retry(k *Kind, n *node, path string) {
	d.fields(n, path, []field{
		{"max", func(n *node, path string) { d.integer(n, path, &k.Retry.Max, 0, 100) }},
		{"backoff", func(n *node, path string) {
			text, ok := d.scalar(n, path)
			if !ok {
				return
			}
			low, high, err := parseRange(text)
			if err != nil {
				d.fail(n.at, path, err.Error(), "a backoff is written 500ms..30s")
				return
			}
			k.Retry.BackoffMin, k.Retry.BackoffMax = low, high
		}},
	})
}

func (d *decoder) auto(k *Kind, n *node, path string) {
	d.fields(n, path, []field{
		{"confirm", func(n *node, path string) { d.boolean(n, path, &k.Auto.Confirm) }},
		{"deny", func(n *node, path string) { d.boolean(n, path, &k.Auto.Deny) }},
		{"retry", func(n *node, path string) { d.choice(n, path, &k.Auto.Retry, "never", "absent", "key_safe") }},
	})
}

func (d *decoder) key(k *Kind, n *node, path string) {
	strategies := []string{"random", "content", "session", "row"}
	if n.kind == scalarNode {
		d.choice(n, path, &k.Key.Strategy, strategies...)
		return
	}
	d.fields(n, path, []field{
		{"from", func(n *node, path string) {
			d.strings(n, path, &k.Key.From)
			for i, f := range k.Key.From {
				if _, err := parsePath(f); err != nil {
					d.fail(n.at, index(path, i), err.Error(), "for example customer or order.id")
				}
			}
			if len(k.Key.From) == 0 {
				d.fail(n.at, path, "names no field of the input", "")
			}
		}},
		{"strategy", func(n *node, path string) { d.choice(n, path, &k.Key.Strategy, append(strategies, "fields")...) }},
		{"window", func(n *node, path string) { d.duration(n, path, &k.Key.Window) }},
		{"ttl", func(n *node, path string) { d.duration(n, path, &k.Key.TTL) }},
	})
	switch {
	case k.Key.Strategy == "" && len(k.Key.From) > 0:
		k.Key.Strategy = "fields"
	case len(k.Key.From) > 0 && k.Key.Strategy != "fields" && k.Key.Strategy != "row":
		d.fail(n.at, path, fmt.Sprintf("`from` has no meaning beside strategy %q", k.Key.Strategy), "leave out one of the two")
	case k.Key.Strategy == "fields" && len(k.Key.From) == 0:
		d.fail(n.at, path, "a key made from fields needs `from`", "key: { from: [customer, invoice] }")
	}
}

func (d *decoder) token(k *Kind, n *node, path string) {
	if n.kind == scalarNode {
		word := ""
		d.choice(n, path, &word, "argument")
		k.Token.Argument = word == "argument"
		return
	}
	place := func(out *string) func(n *node, path string) {
		return func(n *node, path string) {
			text, ok := d.scalar(n, path)
			if !ok {
				return
			}
			if _, err := parsePath(text); err != nil {
				d.fail(n.at, path, err.Error(), "for example metadata.indoubt or entities[0].observations")
				return
			}
			*out = text
		}
	}
	d.fields(n, path, []field{{"into", place(&k.Token.Into)}, {"append", place(&k.Token.Append)}})
	if n.kind == mappingNode && len(n.entries) == 0 {
		d.fail(n.at, path, "does not say where the token goes", "token: { into: metadata.indoubt }, token: { append: tags }, or token: argument")
	}
	if k.Token.Into != "" && k.Token.Append != "" {
		d.fail(n.at, path, "`into` and `append` exclude each other", "leave out one of the two")
	}
}

var redactPath = regexp.MustCompile(`^(?:[\w$*-]+)(?:\.[\w$*-]+|\[(?:\d+|\*)\])*$`)

func (d *decoder) redact(k *Kind, n *node, path string) {
	var own []string
	d.strings(n, path, &own)
	for i, p := range own {
		if !redactPath.MatchString(p) {
			d.fail(n.at, index(path, i), fmt.Sprintf("%q is no path into the input", p), "for example card.number or items.*.email")
		}
	}
	// What the defaults hide stays hidden: a kind can only hide more.
	k.Redact = append(append([]string(nil), k.Redact...), own...)
}
