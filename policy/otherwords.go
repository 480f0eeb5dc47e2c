package policy

import (
	"slices"
	"sync"

	"indoubt/ledger"
)

// otherWord is our word for what others call differently, or was called differently before,
// and how it is written. Without ours nothing takes its place.
type otherWord struct{ ours, hint string }

// otherWords are words of other tools, those that come to mind first, and those that went. A word
// has several meanings where it may stand in several mappings: the one that knows `ours` counts.
var otherWords = sync.OnceValue(func() map[string][]otherWord {
	out := map[string][]otherWord{}
	for _, w := range []struct {
		otherWord
		theirs []string
	}{
		{otherWord{"list", "write `list:`, where the candidates are in the answer, and `mark:`, where each of them shows the token"},
			[]string{"found", "find", "exists", "present", "expect", "where", "match", "matches", "filter"}},
		{otherWord{"list", "write `list:`, where the candidates are in the answer"}, []string{"items", "results", "data", "candidates", "records", "entries"}},
		{otherWord{"mark", "write `mark:`, where a candidate shows the token"}, []string{"token", "reference", "tag", "marker", "identify"}},
		{otherWord{"mark", "write the form with the mark: { it.body: \"<!-- ${token} -->\" }"}, []string{"mark_as"}},
		{otherWord{"unique", "write name: it.key in place of `mark`, or name: { it.invoice: \"${input.invoice}\" }"}, []string{"mark_is"}},
		{otherWord{"receipt", "write `receipt:`, what the other side calls the effect"}, []string{"id", "effect_id"}},
		{otherWord{"valid", "write `valid:`, when an answer says anything at all"}, []string{"ok", "success", "when"}},
		{otherWord{"read", "write `read:`, which says how to look for the effect"}, []string{"found", "find", "check", "lookup", "query", "reconcile", "probe"}},
		{otherWord{"resend", "write resend: here, where what was recorded may be sent again from here"}, []string{"send", "auto", "write", "request"}},
		{otherWord{"answer", "write `answer:`, the rules for an answer to the write"}, []string{"committed", "refused", "already", "response"}},
		{otherWord{"retry", "write retry: { max: 3 }"}, []string{"retries", "attempts", "max_retries", "max_attempts"}},
		{otherWord{"max", "write `max:`, how many further attempts"}, []string{"retries", "attempts", "count", "times", "limit"}},
		{otherWord{"backoff", "write backoff: 500ms..30s"}, []string{"delay", "wait", "interval", "pause"}},
		{otherWord{"cost", "write cost: { duplicate: …, miss: … }"}, []string{"price", "amount", "loss", "value", "duplicate", "miss", "costs"}},
		{otherWord{"duplicate", "write `duplicate:`, what it costs if it happens twice"}, []string{"twice", "double"}},
		{otherWord{"miss", "write `miss:`, what it costs if it never happens"}, []string{"lost", "never", "once", "loss"}},
		{otherWord{"title", "write `title:`, what people read"}, []string{"name", "description", "label", "summary"}},
		{otherWord{"target", "write `target:`, the thing acted on"}, []string{"resource", "object", "subject", "on"}},
		{otherWord{"link", "write `link:`, where a person looks it up"}, []string{"url", "dashboard", "trace"}},
		{otherWord{"downstream", "write downstream: NAME, one of `downstreams:`"}, []string{"service", "system", "endpoint", "api", "upstream"}},
		{otherWord{"effect", "write effect: safe, where a repeat does no harm"}, []string{"safe", "idempotent", "repeat_in_doubt"}},
		{otherWord{"effect", "write effect: replaces, where it sets what its `target` is"}, []string{"supersedes", "overtakes"}},
		{otherWord{"effect", "write effect: read, for what is not recorded; else once, safe or replaces"}, []string{"access"}},
		{otherWord{"verify", "write verify: 10m, when it is looked at once more after its commit"}, []string{"recheck_after", "recheck"}},
		{otherWord{"redact", "write redact: [field]"}, []string{"mask", "hide", "secrets", "secret"}},
		{otherWord{"key", "write key: { from: [field] }"}, []string{"idempotency_key", "idempotency"}},
		{otherWord{"from", "write from: [field], the fields of the input that make the key"}, []string{"fields", "of"}},
		{otherWord{"into", "write `into:`, the field of the input that carries the token"}, []string{"in", "path", "field", "at"}},
		{otherWord{"base", "write base: https://…"}, []string{"url", "host", "endpoint", "base_url", "address"}},
		{otherWord{"headers", "write headers: { Authorization: \"Bearer ${env.NAME}\" }"}, []string{"auth", "authorization", "token", "credentials", "secret"}},
		{otherWord{"rate", "write rate: 20/s"}, []string{"limit", "rate_limit", "throttle"}},
		{otherWord{"get", "write the method as the field, as in get: /v1/charges"}, []string{"url", "path", "method", "endpoint"}},
		{otherWord{"json", "write `json:` or `form:`"}, []string{"body", "data", "payload"}},
		{otherWord{"tool", "write read_only: true beside `mcp:`"}, []string{"read_only"}},
		{otherWord{"query", "write query: { name: value }"}, []string{"params", "parameters"}},
		{otherWord{"", "leave it out: looking by hand counts as 5"}, []string{"look"}},
		{otherWord{"", "leave it out: one request of a check may take 30s, and an attempt as long as `deadline`"}, []string{"timeout"}},
		{otherWord{"escalate_after", "write it in the downstream: outage: { errors: 5 }"}, []string{"outage"}},
		{otherWord{"", "leave it out: a second is allowed for clocks that differ"}, []string{"skew"}},
		{otherWord{"", "leave it out: what was recorded is finished, though its client cancelled it"}, []string{"cancel"}},
		{otherWord{"base", "write the other host as the `base` of a downstream of its own: a check is followed on its own host only"}, []string{"redirects"}},
		{otherWord{"on", "leave it out: no one may take what needs a person for 15m, and no engine may check for 5m"}, []string{"untaken_after", "unchecked_after"}},
		{otherWord{"valid", "leave it out: what was never sent is asked for in the form of what was"}, []string{"never"}},
		{otherWord{"read", "write complete: \"false\" in the read, where finding nothing must never count"}, []string{"control"}},
		{otherWord{"next", "write next: body.next_cursor, and ${cursor} in the request"}, []string{"page", "offset", "cursor", "paging"}},
		{otherWord{"", "leave it out: only a person takes a risk"}, []string{"unattended_risk"}},
	} {
		for _, theirs := range w.theirs {
			out[theirs] = append(out[theirs], w.otherWord)
		}
	}
	return out
})

// meantField is the hint for a name that a mapping does not know.
func meantField(name string, known []string) string {
	for _, w := range otherWords()[name] {
		if w.ours == "" || slices.Contains(known, w.ours) {
			return w.hint
		}
	}
	return ledger.DidYouMean(name, known)
}
