package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/policy/advice"
	"indoubt/policy/expr"
	"indoubt/policy/file"
	"indoubt/policy/transport"
)

var (
	kindName   = file.Short(`^[A-Za-z0-9_.*/:@-]+$`, 200)
	redactPath = lazyregexp.New(`^(?:[\w$*-]+)(?:\.[\w$*-]+|\[(?:\d+|\*)\])*$`)
)

// NamesKind reports whether a policy can name this kind.
func NamesKind(kind string) bool {
	return kindName(kind) && !strings.Contains(kind, "*")
}

// notInDefaults are fields that belong to one kind: a default for them would
// prove, send or name things that it was not written for.
var notInDefaults = map[string]string{
	"lands_within":   "what proves absence is said for each kind, never inherited",
	"visible_within": "what proves absence is said for each kind, never inherited",
	"visible_for":    "what proves absence is said for each kind, never inherited",
	"match":          "what a request is of is said for each kind",
	"input":          "what a kind sees of a request is said for each kind",
	"downstream":     "", "title": "", "target": "", "link": "", "key": "", "token": "", "read": "", "resend": "", "answer": "",
	"tests": "",
}

// kindFields reads the fields of `defaults` or of one kind into k.
func (d decoder) kindFields(k *Kind, n *file.Node) {
	known := d.kindTable(k)
	for name, read := range known {
		known[name] = func(n *file.Node) {
			if why, own := notInDefaults[name]; own && k == d.policy.defaults {
				d.Fail(n.Place, "does not belong into `defaults`", cmp.Or(why, "say it for each kind"))
				return
			}
			k.origins[name] = n.Key
			read(n)
		}
	}
	d.Fields(n, known)
}

func (d decoder) kindTable(k *Kind) file.Table {
	return file.Table{
		"downstream": func(n *file.Node) { d.downstream(k, n) },
		"title":      d.Filled(&k.title, expr.ForOperation),
		"target":     d.Filled(&k.target, expr.ForOperation),
		"link":       func(n *file.Node) { k.link = d.link(n) },
		"cost":       d.Mapping(file.Table{"duplicate": d.cost(k, "duplicate", &k.duplicate), "miss": d.cost(k, "miss", &k.miss)}),
		"effect": func(n *file.Node) {
			d.Choice((*string)(&k.Effect), "read", "once", "safe", "replaces")(n)
			if k == d.policy.defaults && k.Effect.Safe() {
				d.Fail(n.Place, "only a kind can be safe to repeat", "say it for each kind")
			}
		},
		"deadline": func(n *file.Node) {
			if d.Duration(&k.Deadline)(n); k.Deadline < ledger.MinDeadline || k.Deadline > ledger.MaxDeadline {
				d.Fail(n.Place, "must be from 10ms to 30d", "")
			}
		},
		"escalate_after": d.Duration(&k.EscalateAfter),
		"verify":         d.Duration(&k.Looks.Verify),
		"lands_within":   d.Bound(&k.LandsWithin),
		"visible_within": d.Bound(&k.VisibleWithin),
		"visible_for":    d.Bound(&k.VisibleFor),
		"retry":          d.retry(&k.Retry),
		"input":          func(n *file.Node) { d.view(k, n) },
		"key":            func(n *file.Node) { d.key(&k.Key, n) },
		"token":          func(n *file.Node) { d.token(&k.Token, n) },
		"redact":         func(n *file.Node) { d.redact(k, n) },
		"read":           func(n *file.Node) { k.Read = d.read(n) },
		"resend":         d.Choice(&k.Resend, "pipeline", advice.ResendHere),
		"answer":         func(n *file.Node) { d.answerRules(k, n) },
		"repeat":         d.Choice(&k.Repeat, "hold", "allow", "replay"),
		"match":          func(n *file.Node) { d.matches(k, n) },
		"tests": func(n *file.Node) {
			d.Each(n, "a list of cases", "- { name: …, answer: { status: 200, body: … }, want: landed }",
				func(item *file.Node) { k.Tests = append(k.Tests, d.test(item)) })
		},
	}
}

func (d decoder) retry(r *RetryRule) file.Reader {
	return d.Mapping(file.Table{
		"max": d.Integer(&r.Max, 0, 100),
		"backoff": file.Parsed(d.Decoder, r, func(text string) (RetryRule, error) {
			low, high, err := file.ParseRange(text)
			return RetryRule{r.Max, low, high}, err
		}, "a backoff is written 500ms..30s"),
	})
}

func (d decoder) downstream(k *Kind, n *file.Node) {
	name, ok := d.Scalar(n)
	ds, known := d.policy.downstreams[name]
	switch {
	case known:
		k.Downstream = ds
	case ok:
		d.Fail(n.Place, fmt.Sprintf("there is no downstream %q", name), ledger.DidYouMean(name, sortedNames(d.policy.downstreams)))
	}
}

func (d decoder) link(n *file.Node) *expr.Template {
	t := d.Template(n, expr.ForOperation)
	if t == nil {
		return nil
	}
	if host, written := t.Beginning(); !written || !transport.OriginWritten(host) {
		d.Fail(n.Place, "must begin with https://host/ written out", "only the part after the host may be computed")
		return nil
	}
	return t
}

func (d decoder) key(k *KeyRule, n *file.Node) {
	d.Fields(n, file.Table{
		"from": func(n *file.Node) {
			d.Texts(&k.From)(n)
			for i, f := range k.From {
				if _, err := expr.ParsePath(f); err != nil {
					d.Fail(n.Item(i), err.Error(), "for example customer or order.id")
				}
			}
			if len(k.From) == 0 {
				d.Fail(n.Place, "names no field of the input", "")
			}
		},
		"ttl": d.Duration(&k.TTL),
	})
}

func (d decoder) token(t *TokenRule, n *file.Node) {
	if n.Kind == file.Scalar {
		word := ""
		d.Choice(&word, "argument")(n)
		t.Argument = word == "argument"
		return
	}
	inInput := func(out *string) file.Reader {
		return file.Parsed(d.Decoder, out, func(text string) (string, error) {
			_, err := expr.ParsePath(text)
			return text, err
		}, "for example metadata.indoubt or entities[0].observations")
	}
	d.Fields(n, file.Table{"into": inInput(&t.Into), "append": inInput(&t.Append)})
	if n.Kind == file.Mapping && len(n.Entries) == 0 {
		d.Fail(n.Place, "does not say where the token goes",
			"token: { into: metadata.indoubt }, token: { append: tags }, or token: argument")
	}
	if t.Into != "" && t.Append != "" {
		d.Fail(n.Place, "`into` and `append` exclude each other", "leave out one of the two")
	}
}

func (d decoder) redact(k *Kind, n *file.Node) {
	var own []string
	d.Texts(&own)(n)
	for i, p := range own {
		if !redactPath.MatchString(p) {
			d.Fail(n.Item(i), fmt.Sprintf("%q is not a path into the input", p), "for example card.number or items.*.email")
		}
	}
	// What the defaults hide stays hidden: a kind can only hide more.
	k.Redact = slices.Concat(k.Redact, own)
}

// answerRules reads `answer:`, what an answer to the write says.
func (d decoder) answerRules(k *Kind, n *file.Node) {
	d.Fields(n, file.Table{
		"committed": d.Rule(&k.committed, expr.ForAnswer, expr.Bool),
		"refused":   d.Rule(&k.refused, expr.ForAnswer, expr.Bool),
		"already":   d.Rule(&k.already, expr.ForAnswer, expr.Bool),
		"receipt":   d.Rule(&k.receipt, expr.ForAnswer, expr.Any),
	})
}
