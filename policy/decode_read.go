package policy

import (
	"fmt"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/policy/expr"
)

func (d fileDecoder) read(n *node) *Read {
	r := &Read{MaxBody: defaultMaxBody}
	known := append(d.ways(&r.way),
		field{"valid", d.rule(&r.valid, expr.ForAnswer, expr.Bool)},
		field{"list", d.rule(&r.list, expr.ForList, expr.List)},
		field{"mark", func(n *node) {
			if r.asked = n.kind == scalarNode && n.text == "asked"; !r.asked {
				place, form := d.shown(n, `{ it.body: "<!-- ${token} -->" }`)
				r.mark = d.ofCandidate(place, expr.Any)
				if form != nil {
					r.markAs = d.markAs(form)
				}
			}
		}},
		field{"name", func(n *node) {
			place, text := d.shown(n, `{ it.invoice: "${input.invoice}" }`)
			r.mark = d.ofCandidate(place, expr.Any)
			if r.markKey = text == nil; !r.markKey {
				r.markIs = d.varying(text, expr.ForName, "name a field: ${input.invoice}")
			}
		}},
		field{"created", func(n *node) { r.created = d.ofCandidate(n, expr.Any) }},
		field{"unique", d.boolean(&r.unique)},
		field{"final", func(n *node) { r.final = d.ofCandidate(n, expr.Bool) }},
		field{"state", d.rule(&r.state, expr.ForAnswer, expr.Bool)},
		field{"complete", d.rule(&r.complete, expr.ForAnswer, expr.Bool)},
		field{"next", d.rule(&r.next, expr.ForAnswer, expr.Any)},
		field{"stable", d.boolean(&r.stable)},
		field{"consistent", d.boolean(&r.consistent)},
		field{"same", d.rule(&r.same, expr.ForEffect, expr.Bool)},
		field{"receipt", d.rule(&r.receipt, expr.ForEffect, expr.Any)},
		field{"reply", d.rule(&r.reply, expr.ForEffect, expr.Any)},
		field{"max_body", parsed(d.decoder, &r.MaxBody, parseSize, "a size is written 64KiB or 4MB")},
		field{"read_only", d.boolean(&r.readOnly)},
	)
	fine := d.fields(n, known...)
	if fine && r.way == nil {
		d.fail(n.place, "says nothing to ask with", waysHint)
	}
	switch {
	case r.way == nil:
		return nil
	case !fine:
		return r
	}
	d.identity(r, n)
	if h, http := r.way.(*httpRule); http && h.method != "GET" && h.method != "POST" {
		d.fail(n.place, fmt.Sprintf("a read does not %s", strings.ToLower(h.method)), "use get, or post for a search")
	}
	return r
}

// everyOne says of a candidate that it need not be looked at.
const everyOne = "true"

// ofCandidate reads an expression on one candidate, which must look at it.
func (d fileDecoder) ofCandidate(n *node, want expr.Type) *expr.Expression {
	e := d.expression(n, expr.ForMark, want)
	if e != nil && !e.Uses("it") && e.Text != everyOne {
		d.fail(n.place, "says the same of every candidate: it does not look at `it`", "for example it.metadata.indoubt")
	}
	return e
}

// shown is where a candidate shows something, and the text that it shows there, nil where
// that is not said.
func (d fileDecoder) shown(n *node, example string) (place, text *node) {
	switch {
	case n.kind != mappingNode:
		return n, nil
	case len(n.entries) != 1:
		d.fail(n.place, "names one place of a candidate, and what it shows there", "for example "+example)
		return &node{place: n.place, kind: scalarNode, broken: true}, n
	}
	e := n.entries[0]
	return &node{place: e.named(), kind: scalarNode, text: e.name, block: true}, e.value
}

// varying reads text that must hold something of the operation.
func (d fileDecoder) varying(n *node, s expr.Scope, hint string) *expr.Template {
	t := d.template(n, s)
	if t != nil && len(t.Expressions()) == 0 {
		d.fail(n.place, "is the same for every operation", hint)
	}
	return t
}

// markAs reads the form of a token, which must differ from token to token.
func (d fileDecoder) markAs(n *node) *expr.Template {
	const hint = `for example "<!-- ${token} -->"`
	t := d.varying(n, expr.ForToken, hint)
	if len(t.Expressions()) == 0 {
		return t
	}
	made := map[string]bool{}
	for range 2 {
		text, err := (*Kind)(nil).text(t, ledger.Record{Operation: ledger.Operation{Token: ledger.NewToken()}})
		if made[text] || err != nil {
			d.fail(n.place, "is the same for every operation", hint)
			return t
		}
		made[text] = true
	}
	return t
}

// ofCandidates are fields that say something of a candidate, which a `state` has not.
var ofCandidates = []string{"created", "unique", "final", "complete", "next", "stable", "consistent", "same", "receipt", "reply"}

// identity checks the fields that say which operation an effect belongs to.
func (d fileDecoder) identity(r *Read, n *node) {
	compared := 0
	for _, e := range n.entries {
		if e.name == "mark" || e.name == "name" {
			compared++
		}
		if r.state != nil && slices.Contains(ofCandidates, e.name) {
			d.warn(e.named(), fmt.Sprintf("`%s` says nothing of a `state`, which has no candidates", e.name), "leave it out")
		}
	}
	if compared > 1 {
		d.fail(n.place, "`mark` is compared with the token, and `name` with something else: they exclude each other",
			"leave out one of the two")
	} else if message, hint := r.contradicts(); message != "" {
		d.fail(n.place, message, hint)
	}
}

// named reports whether a mark is compared with something else than the token.
func (r *Read) named() bool { return r.markIs != nil || r.markKey }

// contradicts says which of the fields that say which operation an effect belongs to
// contradict each other, and what to write instead; "" where none do.
func (r *Read) contradicts() (message, hint string) {
	listed := r.state == nil
	for _, rule := range []struct {
		broken        bool
		message, hint string
	}{
		{r.state != nil && (r.list != nil || r.mark != nil || r.asked),
			"`state` asks whether something is so, and `list` and `mark` which operation it belongs to: they exclude each other", "leave out one of the two"},
		{listed && r.list == nil,
			"does not say what it finds", "list: body.data, and mark: it.metadata.indoubt where a candidate shows its token; or state: … for a kind that is safe to repeat"},
		{r.markIs != nil && r.created == nil && !r.unique,
			"others may have this `name`, too: nothing tells an older effect from the operation's own",
			"say created: it.created_at, or unique: true where the other side refuses a second one"},
		{r.unique && !r.named(),
			"`unique` says that the other side refuses a second effect with the same `name`", "name: { it.invoice: \"${input.invoice}\" }"},
		{r.asked && !r.asks(substitution{token: true}) && !r.operationOnStdin(),
			"`mark: asked` means that the other side searched for the token, and the request does not hold it", "put ${token} into the request"},
	} {
		if rule.broken {
			return rule.message, rule.hint
		}
	}
	return "", ""
}

// lintIdentity checks what a read recognises effects by against the kind.
func (d fileDecoder) lintIdentity(k *Kind) {
	r, at := k.Read, k.said("read").below("read")
	if r.usesToken() && !k.Token.Stated() {
		d.fail(at, "looks for the `token`, but the kind does not say where the token goes", "say token: { into: metadata.indoubt }, or `name:` for what is not the token")
	}
	switch r.Identity() {
	case ByState:
		if !k.Effect.Safe() {
			d.fail(at.below("state"), "it counts as landed whichever write made it so: that is right only for a kind that is safe to repeat", "say effect: safe, or `list` and `mark`")
		}
		if r.replaces().nothing() {
			d.fail(at.below("state"), "neither the request nor `state` holds anything of the operation: it says the same of every one", "name what is wanted: ${input.version}")
		}
	case ByNothing:
		if k.Token.Stated() {
			d.warn(at, "does not show which operation an effect belongs to, so it settles nothing: what it finds is evidence for a person", "say mark: it.metadata.indoubt, where the token goes")
		}
	}
}
