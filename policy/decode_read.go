package policy

import (
	"fmt"
	"slices"
	"strings"

	"indoubt/ledger"
)

func (d *decoder) read(k *Kind, n *node, path string) {
	r := &Read{Line: n.at.line, MaxBody: defaultMaxBody}
	k.Read = r
	rule := func(out **expression, s scope, w want) func(n *node, path string) {
		return func(n *node, path string) { *out = d.expression(n, path, s, w) }
	}
	known := append(d.transportFields(&r.transport, k, true),
		field{"valid", rule(&r.valid, scopeAnswer, wantBool)},
		field{"list", rule(&r.list, scopeList, wantList)},
		field{"mark", func(n *node, path string) { d.mark(r, n, path) }},
		field{"mark_as", func(n *node, path string) { r.markAs = d.markAs(n, path) }},
		field{"mark_is", func(n *node, path string) {
			if r.markKey = n.kind == scalarNode && n.text == "key"; !r.markKey {
				r.markIs = d.ownTemplate(n, path, scopeName)
			}
		}},
		field{"created", func(n *node, path string) { r.created = d.ofCandidate(n, path, wantAny) }},
		field{"unique", func(n *node, path string) { d.boolean(n, path, &r.unique) }},
		field{"final", func(n *node, path string) { r.final = d.ofCandidate(n, path, wantBool) }},
		field{"state", rule(&r.state, scopeAnswer, wantBool)},
		field{"never", func(n *node, path string) { d.never(r, n, path) }},
		field{"complete", rule(&r.complete, scopeAnswer, wantBool)},
		field{"next", func(n *node, path string) { r.next = d.next(n, path) }},
		field{"same", rule(&r.same, scopeEffect, wantBool)},
		field{"receipt", rule(&r.receipt, scopeEffect, wantAny)},
		field{"answer", rule(&r.answer, scopeEffect, wantAny)},
		field{"max_body", func(n *node, path string) {
			text, ok := d.scalar(n, path)
			if !ok {
				return
			}
			size, err := parseSize(text)
			if err != nil {
				d.fail(n.at, path, err.Error(), "a size is written 64KiB or 4MB")
				return
			}
			r.MaxBody = size
		}},
	)
	before := len(d.problems)
	d.fields(n, path, known)
	if len(d.problems) > before || n.kind != mappingNode {
		return
	}
	if r.transport.recorded {
		d.fail(n.at, path, "the recorded command writes; a read needs a command of its own", "command: [tool, find, \"${token}\"]")
	}
	if d.oneTransport(n, path, &r.transport) {
		d.identity(r, n, path)
	}
	if h := r.transport.http; h != nil && indexField(namesAsFields(readMethods), strings.ToLower(h.method)) < 0 {
		d.fail(n.at, path, fmt.Sprintf("a read does not %s", strings.ToLower(h.method)), "use get, or post for a search")
	}
}

// mark reads where a candidate shows whose it is, or `asked`.
func (d *decoder) mark(r *Read, n *node, path string) {
	if r.asked = n.kind == scalarNode && n.text == "asked"; !r.asked {
		r.mark = d.ofCandidate(n, path, wantAny)
	}
}

// ofCandidate reads an expression on one candidate, which must look at it.
func (d *decoder) ofCandidate(n *node, path string, w want) *expression {
	e := d.expression(n, path, scopeMark, w)
	if e != nil && !e.uses("it") {
		d.fail(n.at, path, "says the same of every candidate: it does not look at `it`", "for example it.metadata.indoubt")
	}
	return e
}

// ownTemplate reads text that must hold something of the operation.
func (d *decoder) ownTemplate(n *node, path string, s scope) *template {
	t := d.template(n, path, s)
	if t != nil && len(t.expressions()) == 0 {
		d.fail(n.at, path, "is the same for every operation", map[scope]string{
			scopeToken: `for example "<!-- ${token} -->"`, scopeName: "say `key`, or name a field: ${input.invoice}"}[s])
	}
	return t
}

// markAs reads the form of a token, which must differ from token to token.
func (d *decoder) markAs(n *node, path string) *template {
	t := d.ownTemplate(n, path, scopeToken)
	if t == nil || len(t.expressions()) == 0 {
		return t
	}
	made := map[string]bool{}
	for range 2 {
		text, err := textFor(t, ledger.Record{Operation: ledger.Operation{Token: ledger.NewToken()}})
		if made[text] || err != nil {
			d.fail(n.at, path, "is the same for every operation", `for example "<!-- ${token} -->"`)
			return t
		}
		made[text] = true
	}
	return t
}

// never reads what stands for something that was never sent.
func (d *decoder) never(r *Read, n *node, path string) {
	value := plainValue(n)
	fields, mapping := value.(map[string]any)
	if !mapping {
		r.never.value = value
		if value == nil || value == "" {
			d.fail(n.at, path, "is empty", "write a value in the form that the other side wants, which nobody ever sends")
		}
		return
	}
	r.never.fields = map[string]any{}
	for field, v := range fields {
		name := strings.TrimPrefix(field, "input.")
		if _, err := parsePath(name); err != nil {
			d.fail(n.at, path, err.Error(), `for example never: { input.version: "0.0.0-never" }`)
		}
		r.never.fields[name] = v
	}
}

// identity checks that the fields that say whose an effect is fit together.
func (d *decoder) identity(r *Read, n *node, path string) {
	for _, e := range n.entries {
		if r.state != nil && slices.Contains(ofCandidates, e.key) {
			d.warn(e.at, join(path, e.key), fmt.Sprintf("`%s` says nothing of a `state`, which has no candidates", e.key), "leave it out")
		}
	}
	for _, why := range []func() (string, string){r.findsNothing, r.comparesNothing, r.isNotShown} {
		if message, hint := why(); message != "" {
			d.fail(n.at, path, message, hint)
			return
		}
	}
}

// named reports whether a mark is compared with something else than the token.
func (r *Read) named() bool { return r.markIs != nil || r.markKey }

func (r *Read) findsNothing() (message, hint string) {
	switch {
	case r.state != nil && (r.list != nil || r.mark != nil || r.asked):
		return "`state` asks whether something is so, and `list` and `mark` whose it is: they exclude each other", "leave out one of the two"
	case r.state == nil && r.list == nil:
		return "does not say what it finds", "list: body.data, and mark: it.metadata.indoubt where a candidate shows its token; or state: … for a kind that is safe to repeat"
	}
	return "", ""
}

func (r *Read) comparesNothing() (message, hint string) {
	switch {
	case (r.markAs != nil || r.named()) && r.mark == nil:
		return "`mark_as` and `mark_is` say what `mark` is compared with, and there is no `mark`", "mark: it.metadata.indoubt"
	case r.markAs != nil && r.named():
		return "`mark_as` compares with the token, and `mark_is` with something else: they exclude each other", "leave out one of the two"
	case r.markIs != nil && r.created == nil && !r.unique:
		return "others may have what `mark_is` says, too: nothing tells an older effect from the operation's own",
			"say created: it.created_at, or unique: true where the other side refuses a second one"
	case r.unique && !r.named():
		return "`unique` says that the other side refuses a second effect with what `mark_is` says", "mark_is: ${input.invoice}"
	}
	return "", ""
}

func (r *Read) isNotShown() (message, hint string) {
	switch {
	case r.asked && !slices.ContainsFunc(r.transport.questions(), func(t *template) bool { return t.uses("token") }) && !r.operationOnStdin():
		return "`mark: asked` means that the other side searched for the token, and the request does not hold it", "put ${token} into the request"
	case r.state == nil && len(r.never.fields) > 0 && r.markIs == nil:
		return "`never` replaces the token or the key here, and names fields of the input", `never: "a value in their form"`
	}
	return "", ""
}

// ofCandidates are fields that say something of a candidate, which a `state` has not.
var ofCandidates = []string{"created", "unique", "final", "complete", "next", "same", "receipt", "answer"}

// lintNever checks that what `never:` names is what is replaced.
func (d *decoder) lintNever(r *Read, at position, path string) {
	if len(r.never.fields) == 0 {
		return
	}
	used := usedBy(append(r.requestExpressions(), r.state))
	if r.Identity() == ByName {
		used = usedBy(r.markIs.expressions())
	}
	for _, name := range sortedNames(r.never.fields) {
		if !overlapsAny([]string{name}, used.inputs) {
			d.fail(at, path+".never", fmt.Sprintf("`never` names input.%s, which nothing here looks for", name), "name what the check recognises the effect by")
		}
	}
}

// lintIdentity checks what a read recognises effects by against the kind.
func (d *decoder) lintIdentity(k *Kind, path string) {
	r, at := k.Read, k.origins["read"]
	if r.usesToken() && !k.Token.Stated() {
		d.fail(at, path, "looks for the `token`, but the kind does not say where the token goes", "say token: { into: metadata.indoubt }, or `mark_is:` for a mark that is not the token")
	}
	d.lintNever(r, at, path)
	switch r.Identity() {
	case ByState:
		if !k.Idempotent {
			d.fail(at, path+".state", "whoever made it so, it counts as landed: that is right only for a kind that is safe to repeat", "say idempotent: true, or `list` and `mark`")
		}
		if r.replaces().nothing() {
			d.fail(at, path+".state", "neither the request nor `state` holds anything of the operation: it says the same of every one", "name what is wanted: ${input.version}")
		}
	case ByNothing:
		if k.Auto.Confirm {
			d.warn(at, path, "says of nothing whose it is, so it settles nothing: what it finds is evidence for a person", "say mark: it.metadata.indoubt, or auto: { confirm: false } where nothing shows it")
		}
	}
}
