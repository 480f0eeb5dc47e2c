package policy

import (
	"fmt"
	"slices"
	"strings"

	"indoubt/ledger/lazyregexp"
	"indoubt/policy/expr"
)

// lintFinds asks for what keeps a read from taking something else for the effect.
func (d fileDecoder) lintFinds(k *Kind) {
	r, at := k.Read, k.said("read").below("read")
	switch r.Identity() {
	case ByNothing, ByState:
		return
	case ByToken:
		if field := freeText(r.mark); field != "" && r.markAs == nil {
			d.warn(at.below("mark"), fmt.Sprintf("`%s` is free text, where a person can quote the token: that would count as landed", field),
				fmt.Sprintf(`say the form that only the write has: { it.%s: "<!-- ${token} -->" }`, field))
		}
	}
	if r.final == nil {
		d.warn(at, "without `final`, whatever has its mark counts as landed: also what failed, or is not finished",
			`final: it.status == "succeeded", or final: "true" where only what took effect is there`)
	}
}

// freeTexts are the fields in which people write.
var freeTexts = []string{"text", "body", "message", "content", "description", "title", "subject",
	"comment", "note", "notes", "summary", "memo"}

// freeText is the field of a candidate that a mark is, where people write in it; else "".
func freeText(mark *expr.Expression) string {
	field, ok := strings.CutPrefix(strings.TrimSpace(mark.Text), "it.")
	if last := field[strings.LastIndexByte(field, '.')+1:]; !ok || !slices.Contains(freeTexts, strings.ToLower(last)) {
		return ""
	}
	return field
}

// onlyOpen is how a query selects what is open.
var onlyOpen = lazyregexp.New(`(?i)(^\W*|\b(status|state|is)\s*[=:]+\s*['"]?)` +
	`(opened|open|pending|active|unread|queued|running|unresolved)\W*($|['"&\s])`)

// lintNever says why a read that looks for the token can never get to not_there, or not
// where it is quiet. The author can say that it is meant: complete: "false".
func (d fileDecoder) lintNever(k *Kind) {
	r, at := k.Read, k.said("read").below("read")
	warn := func(why, hint string) { d.warn(at, why, hint) }
	if r.complete != nil && (r.complete.Text == "false" || r.complete.Text == "status == 200") {
		return
	}
	if r.Identity() == ByName {
		warn("looks for a name and not for the token, so finding nothing never proves that it did not land",
			`mark: it.metadata.indoubt, where the token can travel; else complete: "false"`)
	}
	if !r.Proves() {
		return
	}
	if r.newestOnly() {
		warn("asks by `attempt`, which is the newest, so after a retry finding nothing never proves that it did not land",
			"use `op`, which is the same for every attempt")
	}
	if r.complete == nil {
		warn("without `complete`, finding nothing never proves that nothing is there", "complete: \"true\" where one answer shows everything")
	}
	if k.LandsWithin == nil || k.VisibleWithin == nil {
		warn(fmt.Sprintf("%s not stated, so no wait proves that it did not land", missingBounds(k)), "state them if the downstream promises them")
	}
	if k.VisibleFor == nil && slices.ContainsFunc(r.way.questions(), selectsOpen) {
		warn("asks only for what is open: what was closed since looks as if it never landed",
			"visible_for: 1h, how long it stays open at least; or ask for all")
	}
	if h, http := r.way.(*httpRule); http && !r.consistent && !r.asks(substitution{token: true}) &&
		slices.ContainsFunc(h.query.Templates(), func(t *expr.Template) bool { return t.Uses("input") }) {
		warn("lists what has the same input, as of one customer: where none follows there, finding nothing never proves that it did not land",
			`list by time: query: { "created[gte]": "${op.started}" }; or consistent: true where the downstream documents it`)
	}
}

// selectsOpen reports whether a text that is asked with selects what is open.
func selectsOpen(t *expr.Template) bool {
	return t != nil && slices.ContainsFunc(t.Parts, func(p expr.Part) bool { return onlyOpen.MatchString(p.Literal) })
}

func missingBounds(k *Kind) string {
	switch {
	case k.LandsWithin == nil && k.VisibleWithin == nil:
		return "`lands_within` and `visible_within` are"
	case k.LandsWithin == nil:
		return "`lands_within` is"
	}
	return "`visible_within` is"
}
