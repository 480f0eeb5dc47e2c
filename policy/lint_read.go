package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/policy/advice"
	"indoubt/policy/expr"
	"indoubt/policy/transport"
	"indoubt/policy/verdict"
)

// lintFinds asks for what keeps a read from taking something else for the effect.
func (d decoder) lintFinds(k *Kind) {
	r, at := k.Read, k.said("read").Below("read")
	switch r.Identity() {
	case verdict.ByNothing, verdict.ByState:
		return
	case verdict.ByToken:
		if field := freeText(r.mark); field != "" && r.markAs == nil {
			d.Warn(at.Below("mark"), fmt.Sprintf("`%s` is free text, where a person can quote the token: that would count as landed",
				field),
				fmt.Sprintf(`say the form that only the write has: { it.%s: "<!-- ${token} -->" }`, field))
		}
	}
	if r.final == nil {
		d.Warn(at, "without `final`, whatever has its mark counts as landed: also what failed, or is not finished",
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
func (d decoder) lintNever(k *Kind) {
	r, at := k.Read, k.said("read").Below("read")
	warn := func(why, hint string) { d.Warn(at, why, hint) }
	if r.complete != nil && (r.complete.Text == "false" || r.complete.Text == "status == 200") {
		return
	}
	if r.Identity() == verdict.ByName {
		warn("looks for a name and not for the token, so finding nothing never proves that it did not land",
			`mark: it.metadata.indoubt, where the token can travel; else complete: "false"`)
	}
	if !r.Proves() {
		return
	}
	if k.NewestOnly {
		warn("asks by `attempt`, which is the newest, so after a retry finding nothing never proves that it did not land",
			"use `op`, which is the same for every attempt")
	}
	if r.complete == nil {
		warn("without `complete`, finding nothing never proves that nothing is there",
			"complete: \"true\" where one answer shows everything")
	}
	if k.LandsWithin == nil || k.VisibleWithin == nil {
		warn(fmt.Sprintf("%s not stated, so no wait proves that it did not land", missingBounds(k)),
			"state them if the downstream promises them")
	}
	if k.VisibleFor == nil && slices.ContainsFunc(r.way.Questions(), func(t *expr.Template) bool {
		return t != nil && slices.ContainsFunc(t.Parts, func(p expr.Part) bool { return onlyOpen.MatchString(p.Literal) })
	}) {
		warn("asks only for what is open: what was closed since looks as if it never landed",
			"visible_for: 1h, how long it stays open at least; or ask for all")
	}
	if h, http := r.way.(*transport.HTTP); http && !r.consistent && !r.asks(tokenPart) &&
		slices.ContainsFunc(h.Query.Templates(), func(t *expr.Template) bool { return t.Uses("input") }) {
		warn("lists what has the same input, as of one customer: where none follows there, "+
			"finding nothing never proves that it did not land",
			`list by time: query: { "created[gte]": "${op.started}" }; or consistent: true where the downstream documents it`)
	}
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

// errWouldWrite refuses a read that is a write: a check would repeat the operation.
var errWouldWrite = errors.New("the check would be a write")

// lintReads refuses what is no read by its form and is not said to be one. A file with
// other problems may lack parts that are looked at here.
func (d decoder) lintReads() {
	if len(d.Problems) > 0 {
		return
	}
	for _, k := range d.policy.order {
		if k.Read == nil {
			continue
		}
		at := k.said("read").Below("read")
		if why := k.Read.writingTool(); why != "" {
			d.Fail(at, why, "the check would be one more write: read by another tool")
		}
		if why := k.Read.unlikeARead(); why != "" && !k.Read.readOnly {
			d.Fail(at, why+", and nothing says that it only reads",
				"say read_only: true, where you know that it changes nothing; else read by get")
		}
	}
}

// overriding are the headers and the field by which one method stands for another.
var overriding = []string{"x-http-method-override", "x-http-method", "x-method-override", "_method"}

// unlikeARead says why the kind's read may change something, by its form: what it is
// about, no one can tell from its address. "" for GET, and for what is not HTTP: of a
// tool its server tells, and a statement runs in a transaction that only reads.
func (r *Read) unlikeARead() string {
	h, http := r.way.(*transport.HTTP)
	if !http {
		return ""
	}
	if h.Method != "GET" {
		return "asks by " + strings.ToLower(h.Method)
	}
	named := strings.FieldsFunc(h.Path.Text, func(r rune) bool { return strings.ContainsRune("?&=", r) })
	named = append(named, ledger.Each(h.Headers, func(p transport.Pair) string { return p.Name })...)
	if h.Query != nil {
		named = append(named, ledger.Each(h.Query.Entries, func(e expr.Entry) string { return e.Name })...)
	}
	for _, name := range named {
		if slices.Contains(overriding, strings.ToLower(name)) {
			return "names another method by " + name
		}
	}
	k := r.kind
	for _, other := range k.policy.order {
		sameSide := k.Downstream == nil || other.Downstream == nil || k.Downstream == other.Downstream
		byGet := slices.ContainsFunc(other.Match, func(m Match) bool { return slices.Contains(m.Methods, "GET") })
		if byGet && sameSide && other.Effect != "read" {
			return fmt.Sprintf("asks by get, by which %s writes", other.Pattern)
		}
	}
	return ""
}

// writingTool says of which kind the read's tool is, where that writes; "" for none.
func (r *Read) writingTool() string {
	m, mcp := r.way.(*transport.MCP)
	if !mcp || m.Server == nil {
		return ""
	}
	for _, other := range r.kind.policy.order {
		if callsFor(m, other, other == r.kind) {
			return fmt.Sprintf("calls the tool %s of %s, which writes", m.Tool, other.Pattern)
		}
	}
	return ""
}

// callsFor reports whether a kind is the calls of the tool, by its name, and not said to
// read. The kind that the read is of may name the server in its own way.
func callsFor(m *transport.MCP, k *Kind, own bool) bool {
	if k.Effect == "read" || !strings.HasPrefix(k.Pattern, "mcp.") || !strings.HasSuffix(k.Pattern, "."+m.Tool) {
		return false
	}
	writes := k.Effect.Access() == "write" || k.Read != nil || k.Resend == advice.ResendHere || k.Token.Stated()
	return own || writes && k.Pattern == "mcp."+m.Server.Name+"."+m.Tool
}

// refuseRecorded refuses a check that is the very command that was recorded; the program
// may be named by any path.
func refuseRecorded(req transport.Request, o ledger.Operation) error {
	if req.Command == nil || o.Command == nil || len(req.Command.Argv) != len(o.Command.Argv) {
		return nil
	}
	keys := strings.NewReplacer("{{key}}", o.KeyToSend(), "{{token}}", o.Token)
	for i, a := range o.Command.Argv {
		was, is := keys.Replace(a), req.Command.Argv[i]
		if is != was && (i > 0 || path.Base(is) != path.Base(was)) {
			return nil
		}
	}
	return fmt.Errorf("%w: it is the very command that was recorded", errWouldWrite)
}
