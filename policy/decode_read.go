package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/policy/expr"
	"indoubt/policy/file"
	"indoubt/policy/transport"
	"indoubt/policy/verdict"
)

func (d decoder) read(n *file.Node) *Read {
	r := &Read{MaxBody: transport.DefaultMaxBody}
	known := transport.Ways(d.Decoder, &r.way)
	maps.Copy(known, file.Table{
		"valid": d.Rule(&r.valid, expr.ForAnswer, expr.Bool),
		"list":  d.Rule(&r.list, expr.ForList, expr.List),
		"mark": func(n *file.Node) {
			if r.asked = n.Kind == file.Scalar && n.Text == "asked"; !r.asked {
				place, form := d.shown(n, `{ it.body: "<!-- ${token} -->" }`)
				r.mark = d.ofCandidate(place, expr.Any)
				if form != nil {
					r.markAs = d.markAs(form)
				}
			}
		},
		"name": func(n *file.Node) {
			place, text := d.shown(n, `{ it.invoice: "${input.invoice}" }`)
			r.mark = d.ofCandidate(place, expr.Any)
			if r.markKey = text == nil; !r.markKey {
				r.markIs = d.varying(text, expr.ForName, "name a field: ${input.invoice}")
			}
		},
		"created":    func(n *file.Node) { r.created = d.ofCandidate(n, expr.Any) },
		"unique":     d.Boolean(&r.unique),
		"final":      func(n *file.Node) { r.final = d.ofCandidate(n, expr.Bool) },
		"state":      d.Rule(&r.state, expr.ForAnswer, expr.Bool),
		"complete":   d.Rule(&r.complete, expr.ForAnswer, expr.Bool),
		"next":       d.Rule(&r.next, expr.ForAnswer, expr.Any),
		"stable":     d.Boolean(&r.stable),
		"consistent": d.Boolean(&r.consistent),
		"same":       d.Rule(&r.same, expr.ForEffect, expr.Bool),
		"receipt":    d.Rule(&r.receipt, expr.ForEffect, expr.Any),
		"reply":      d.Rule(&r.reply, expr.ForEffect, expr.Any),
		"max_body":   file.Parsed(d.Decoder, &r.MaxBody, file.ParseSize, "a size is written 64KiB or 4MB"),
		"read_only":  d.Boolean(&r.readOnly),
	})
	fine := d.Fields(n, known)
	if fine && r.way == nil {
		d.Fail(n.Place, "says nothing to ask with", transport.WaysHint)
	}
	switch {
	case r.way == nil:
		return nil
	case !fine:
		return r
	}
	d.identity(r, n)
	if h, http := r.way.(*transport.HTTP); http && h.Method != "GET" && h.Method != "POST" {
		d.Fail(n.Place, fmt.Sprintf("a read does not %s", strings.ToLower(h.Method)), "use get, or post for a search")
	}
	return r
}

// everyOne says of a candidate that it need not be looked at.
const everyOne = "true"

// ofCandidate reads an expression on one candidate, which must look at it.
func (d decoder) ofCandidate(n *file.Node, want expr.Type) *expr.Expression {
	e := d.Expression(n, expr.ForMark, want)
	if e != nil && !e.Uses("it") && e.Text != everyOne {
		d.Fail(n.Place, "says the same of every candidate: it does not look at `it`", "for example it.metadata.indoubt")
	}
	return e
}

// shown is where a candidate shows something, and the text that it shows there, nil where
// that is not said.
func (d decoder) shown(n *file.Node, example string) (place, text *file.Node) {
	switch {
	case n.Kind != file.Mapping:
		return n, nil
	case len(n.Entries) != 1:
		d.Fail(n.Place, "names one place of a candidate, and what it shows there", "for example "+example)
		return &file.Node{Place: n.Place, Kind: file.Scalar, Broken: true}, n
	}
	e := n.Entries[0]
	return &file.Node{Place: e.Named(), Kind: file.Scalar, Text: e.Name, Block: true}, e.Value
}

// varying reads text that must hold something of the operation.
func (d decoder) varying(n *file.Node, s expr.Scope, hint string) *expr.Template {
	t := d.Template(n, s)
	if t != nil && len(t.Expressions()) == 0 {
		d.Fail(n.Place, "is the same for every operation", hint)
	}
	return t
}

// markAs reads the form of a token, which must differ from token to token.
func (d decoder) markAs(n *file.Node) *expr.Template {
	const hint = `for example "<!-- ${token} -->"`
	t := d.varying(n, expr.ForToken, hint)
	if len(t.Expressions()) == 0 {
		return t
	}
	made := map[string]bool{}
	for range 2 {
		text, err := (*Kind)(nil).text(t, ledger.Record{Operation: ledger.Operation{Token: ledger.NewToken()}})
		if made[text] || err != nil {
			d.Fail(n.Place, "is the same for every operation", hint)
			return t
		}
		made[text] = true
	}
	return t
}

// ofCandidates are fields that say something of a candidate, which a `state` has not.
var ofCandidates = []string{"created", "unique", "final", "complete", "next", "stable", "consistent", "same", "receipt", "reply"}

// identity checks the fields that say which operation an effect belongs to.
func (d decoder) identity(r *Read, n *file.Node) {
	compared := 0
	for _, e := range n.Entries {
		if e.Name == "mark" || e.Name == "name" {
			compared++
		}
		if r.state != nil && slices.Contains(ofCandidates, e.Name) {
			d.Warn(e.Named(), fmt.Sprintf("`%s` says nothing of a `state`, which has no candidates", e.Name), "leave it out")
		}
	}
	if compared > 1 {
		d.Fail(n.Place, "`mark` is compared with the token, and `name` with something else: they exclude each other",
			"leave out one of the two")
	} else if message, hint := r.contradicts(); message != "" {
		d.Fail(n.Place, message, hint)
	}
}

// contradicts says which of the fields that say which operation an effect belongs to
// contradict each other, and what to write instead; "" where none do.
func (r *Read) contradicts() (message, hint string) {
	listed := r.state == nil
	for _, rule := range []struct {
		broken        bool
		message, hint string
	}{
		{r.state != nil && (r.list != nil || r.mark != nil || r.asked),
			"`state` asks whether something is so, and `list` and `mark` which operation it belongs to: they exclude each other",
			"leave out one of the two"},
		{listed && r.list == nil,
			"does not say what it finds",
			"list: body.data, and mark: it.metadata.indoubt where a candidate shows its token; " +
				"or state: … for a kind that is safe to repeat"},
		{r.markIs != nil && r.created == nil && !r.unique,
			"others may have this `name`, too: nothing tells an older effect from the operation's own",
			"say created: it.created_at, or unique: true where the other side refuses a second one"},
		{r.unique && r.markIs == nil && !r.markKey,
			"`unique` says that the other side refuses a second effect with the same `name`", "name: { it.invoice: \"${input.invoice}\" }"},
		{r.asked && !r.asks(tokenPart) && !r.operationOnStdin(),
			"`mark: asked` means that the other side searched for the token, and the request does not hold it",
			"put ${token} into the request"},
	} {
		if rule.broken {
			return rule.message, rule.hint
		}
	}
	return "", ""
}

// lintIdentity checks what a read recognises effects by against the kind.
func (d decoder) lintIdentity(k *Kind) {
	r, at := k.Read, k.said("read").Below("read")
	if (r.Proves() || r.uses("token")) && !k.Token.Stated() {
		d.Fail(at, "looks for the `token`, but the kind does not say where the token goes",
			"say token: { into: metadata.indoubt }, or `name:` for what is not the token")
	}
	switch r.Identity() {
	case verdict.ByState:
		if !k.Effect.Safe() {
			d.Fail(at.Below("state"),
				"it counts as landed whichever write made it so: that is right only for a kind that is safe to repeat",
				"say effect: safe, or `list` and `mark`")
		}
		if len(r.replaces()) == 0 {
			d.Fail(at.Below("state"), "neither the request nor `state` holds anything of the operation: it says the same of every one",
				"name what is wanted: ${input.version}")
		}
	case verdict.ByNothing:
		if k.Token.Stated() {
			d.Warn(at, "does not show which operation an effect belongs to, so it settles nothing: what it finds is evidence for a person",
				"say mark: it.metadata.indoubt, where the token goes")
		}
	}
}
