package policy

import (
	"slices"

	"indoubt/ledger"
)

// otherWord is our word for one that went, and how it is written. Without ours nothing takes its
// place.
type otherWord struct{ ours, hint string }

// otherWords are the words that went. One that meant several things counts where the mapping
// knows `ours`.
var otherWords = map[string][]otherWord{
	"found": {
		{"list", "write `list:`, where the candidates are in the answer, and `mark:`, where each of them shows the token"},
		{"read", "write `read:`, which says how to look for the effect"},
	},
	"mark_as":         {{"mark", "write the form with the mark: { it.body: \"<!-- ${token} -->\" }"}},
	"mark_is":         {{"unique", "write name: it.key in place of `mark`, or name: { it.invoice: \"${input.invoice}\" }"}},
	"send":            {{"resend", "write resend: here, where what was recorded may be sent again from here"}},
	"auto":            {{"resend", "write resend: here, where what was recorded may be sent again from here"}},
	"idempotent":      {{"effect", "write effect: safe, where a repeat does no harm"}},
	"repeat_in_doubt": {{"effect", "write effect: safe, where a repeat does no harm"}},
	"supersedes":      {{"effect", "write effect: replaces, where it sets what its `target` is"}},
	"access":          {{"effect", "write effect: read, for what is not recorded; else once, safe or replaces"}},
	"recheck_after":   {{"verify", "write verify: 10m, when it is looked at once more after its commit"}},
	"read_only":       {{"tool", "write read_only: true beside `mcp:`"}},
	"look":            {{"", "leave it out: looking by hand counts as 5"}},
	"timeout":         {{"", "leave it out: one request of a check may take 30s, and an attempt as long as `deadline`"}},
	"outage":          {{"escalate_after", "write it in the downstream: outage: { errors: 5 }"}},
	"incident": {
		{"outage", "write outage: { errors: 5, within: 5m }"},
		{"escalate_after", "write it in the downstream: outage: { errors: 5 }"},
	},
	"mysql":           {{"postgres", "write a command that asks it: read: { command: [mysql, …] }"}},
	"strategy":        {{"from", "leave it out: where fields name it, write from: [input.invoice]"}},
	"window":          {{"ttl", "write ttl: 24h"}},
	"offset":          {{"next", "write the next page in `next:`; pages that shift never prove that something is not there"}},
	"page":            {{"next", "write the next page in `next:`; pages that shift never prove that something is not there"}},
	"trace":           {{"link", "write it as `link:`"}},
	"dash":            {{"", "leave it out: put -- before what may begin with -"}},
	"affected":        {{"rows", "leave it out: a check reads rows"}},
	"skew":            {{"", "leave it out: a second is allowed for clocks that differ"}},
	"cancel":          {{"", "leave it out: what was recorded is finished, though its client cancelled it"}},
	"redirects":       {{"base", "give the other host a downstream of its own: a check is followed on its own host only"}},
	"untaken_after":   {{"on", "leave it out: no one may take what needs a person for 15m"}},
	"unchecked_after": {{"on", "leave it out: no engine may check for 5m"}},
	"never":           {{"valid", "leave it out: what was never sent is asked for in the form of what was"}},
	"control":         {{"read", "write complete: \"false\" in the read, where finding nothing must never count"}},
	"unattended_risk": {{"", "leave it out: only a person takes a risk"}},
}

// meantField is the hint for a name that a mapping does not know.
func meantField(name string, known []string) string {
	for _, w := range otherWords[name] {
		if w.ours == "" || slices.Contains(known, w.ours) {
			return w.hint
		}
	}
	return ledger.DidYouMean(name, known)
}
