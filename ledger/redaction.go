package ledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Marker stands where a text was redacted.
const Marker = "[redacted]"

// markerJSON is the marker where JSON is.
var markerJSON = json.RawMessage(`"` + Marker + `"`)

// Mask is the key of the ledger's digests, as redactions use it. Who has the ledger but not the key
// cannot find a text that was redacted by guessing it.
type Mask []byte

const maskBegin, maskEnd = "[redacted hmac:", "]"

// Text is what stays of a text that the ledger compares with others: its digest. Without a key
// it is the text, which finds nothing that was redacted.
func (m Mask) Text(text string) string {
	if m == nil || text == "" || IsMasked(text) {
		return text
	}
	return maskBegin + KeyedDigest(m, "redacted\n"+text) + maskEnd
}

// IsMasked reports whether a text is a digest that a redaction left.
func IsMasked(text string) bool {
	digits, ok := strings.CutPrefix(text, maskBegin)
	digits, end := strings.CutSuffix(digits, maskEnd)
	return ok && end && len(digits) == 32 && strings.Trim(digits, "0123456789abcdef") == ""
}

// Erasure is what a redaction takes beside the operation and its attempts: the text of
// its reads, permissions, marks, events and runs, and what its outage says of it.
type Erasure struct {
	Texts []string // of the operation; the history of its outage may have them
}

// redact takes the text out of an operation. Its key goes only when that is asked for.
func (d Decision) redact(rec *Record, o *Operation) error {
	no := func(code, why, hint string) error {
		return &RefusedError{Verb: "redact", Code: code, Why: why, Hint: hint}
	}
	switch {
	case rec.Mask == nil:
		return no("digest_key", "what is compared is kept as digests under the ledger's key, and this process does not have it",
			"redact where the recorders' key is")
	case o.State == Pending:
		return no("in_progress", "it is in flight", "wait for its answer")
	case o.State == Uncertain:
		return no("in_doubt", "it is in doubt, and what it says is needed to decide", "settle it first: indoubt confirm, deny or abandon "+o.ID)
	case o.Conflict != NoConflict:
		return no("conflict", "it is in conflict, and what it says is needed to deal with that", "deal with it first: indoubt ack "+o.ID)
	}
	*o = o.without(rec.Mask, d.Key)
	o.Redacted, o.RedactedAt, o.RedactedBy = true, rec.Now, d.Actor.Name
	return nil
}

// without is the operation without its text.
func (o Operation) without(m Mask, key bool) Operation {
	for _, text := range []*string{&o.Title, &o.Session, &o.ConflictNote} {
		mark(text)
	}
	if key || NamedTarget(o.Target) != "" {
		o.Target = m.Text(o.Target)
	}
	if key {
		o.Key, o.SentKey = m.Text(o.Key), ""
	}
	o.Receipts, o.AckedReceipts, o.ClaimedReceipts = Each(o.Receipts, m.Text), Each(o.AckedReceipts, m.Text), Each(o.ClaimedReceipts, m.Text)
	if o.Input != nil {
		o.Input = markerJSON
	}
	o.Result, o.Command, o.Request = nil, nil, nil
	return o
}

// Overtaken refuses a redaction because of an earlier operation.
func Overtaken(id string) error {
	return &RefusedError{Verb: "redact", Code: "refused", Why: id + " began earlier on the same target, and may still be sent; this one tells that it was overtaken",
		Hint: "settle or abandon that one first, or redact it first"}
}

// mark puts the marker where a text is.
func mark(text *string) {
	if *text != "" && !IsMasked(*text) {
		*text = Marker
	}
}

// Without is the attempt without its text.
func (a Attempt) Without(m Mask) Attempt {
	mark(&a.Error)
	a.Receipt, a.LateReceipt, a.Result = m.Text(a.Receipt), m.Text(a.LateReceipt), nil
	return a
}

// Without is the read without its text.
func (r Read) Without(m Mask) Read {
	mark(&r.Reason)
	r.Receipts = Each(r.Receipts, m.Text)
	if r.Evidence != nil {
		r.Evidence = markerJSON
	}
	return r
}

// Without is the permission without its text.
func (g Allowed) Without() Allowed {
	mark(&g.Reason)
	mark(&g.VoidReason)
	return g
}

// structural are members of the detail of an event that name
// no one: rules and counts ask for them.
var structural = []string{"attempt", "n", "allow", "basis", "sender", "read", "verdict", "found", "tree", "truth", "until", "expires_at", "outage", "key", "outcome", "error_class", "proof", "already"}

// Without is the event without its text. Of its detail the structure stays.
func (e Event) Without() Event {
	mark(&e.Reason)
	var members map[string]json.RawMessage
	switch {
	case len(e.Detail) == 0:
		return e
	case json.Unmarshal(e.Detail, &members) != nil:
		e.Detail = markerJSON
		return e
	}
	for name, was := range members {
		switch {
		case !e.IsText(name):
		case was[0] == '[':
			members[name] = json.RawMessage(`["` + Marker + `"]`)
		default:
			members[name] = markerJSON
		}
	}
	e.Detail = detail(members)
	return e
}

// IsText reports whether a member of its detail is text that Without takes out.
func (e Event) IsText(member string) bool {
	return !slices.Contains(structural, member) && (e.Run == "" || !slices.Contains(runText, member))
}

// Tells reports whether the event has one of the texts.
func (e Event) Tells(texts []string) bool {
	says := strings.ToLower(e.Reason + "\n" + string(e.Detail))
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(says, strings.ToLower(text)) })
}

// Texts are those of an operation that its outage's history may have: none so short
// that it stands in other words.
func (o *Operation) Texts() (out []string) {
	add := func(text string) {
		if text = strings.TrimSpace(text); utf8.RuneCountInString(text) >= 4 && len(out) < 200 && text != Marker && !IsMasked(text) && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, text := range append([]string{o.Title, NamedTarget(o.Target)}, o.Receipts...) {
		add(text)
	}
	var input any
	_ = json.Unmarshal(o.Input, &input)
	leaves(input, add)
	return out
}

func leaves(v any, add func(string)) {
	switch v := v.(type) {
	case string:
		add(v)
	case []any:
		for _, e := range v {
			leaves(e, add)
		}
	case map[string]any:
		for _, e := range v {
			leaves(e, add)
		}
	}
}

// known is a receipt as a redacted operation has it.
func (o *Operation) known(m Mask, receipt string) string {
	if o.RedactedAt.IsZero() {
		return receipt
	}
	if masked := m.Text(receipt); slices.Contains(o.Receipts, masked) || slices.Contains(o.AckedReceipts, masked) {
		return masked
	}
	return receipt
}

// allKnown are receipts as a redacted operation has them.
func (o *Operation) allKnown(m Mask, receipts []string) []string {
	return Each(receipts, func(receipt string) string { return o.known(m, receipt) })
}

// Gone says that an operation was redacted, by whom and when; "" where it was not.
func (o *Operation) Gone() string {
	if o.RedactedAt.IsZero() {
		return ""
	}
	return fmt.Sprintf("redacted by %s at %s", o.RedactedBy, o.RedactedAt.UTC().Format(time.RFC3339))
}
