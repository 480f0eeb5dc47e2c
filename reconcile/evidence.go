package reconcile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
	"indoubt/ledger/redact"
	"indoubt/policy"
	"indoubt/policy/transport"
	"indoubt/policy/verdict"
)

const (
	maxEvidence = 32 << 10 // bytes of one read's evidence
	maxExcerpt  = 2 << 10  // bytes of one answer, or of one effect
	maxAnswer   = 64 << 10 // bytes of an effect that is given to its caller
	maxEffects  = 20
)

// evidence is a read's requests and answers as they may be kept: bounded,
// and without secrets.
type evidence struct {
	Pages   []*pageEvidence  `json:"pages"`
	Effects []effectEvidence `json:"effects,omitempty"`
	More    int              `json:"more,omitempty"` // pages and effects that did not fit
	// Candidates that are not this operation's: with another's mark, and with none.
	Others   int `json:"others,omitempty"`
	Unmarked int `json:"unmarked,omitempty"`

	clean  cleaner
	answer json.RawMessage // the first effect as an answer for its caller, where all of it may be kept
}

type pageEvidence struct {
	Request  string          `json:"request"`
	At       time.Time       `json:"at"`
	Millis   int64           `json:"ms"`
	Status   int             `json:"status,omitempty"`
	Exit     *int            `json:"exit,omitempty"`
	Bytes    int             `json:"bytes"`
	Found    int             `json:"found"`
	Complete bool            `json:"complete"`
	Error    string          `json:"error,omitempty"`
	Body     json.RawMessage `json:"body,omitempty"` // of what cannot be read; a text when it is not JSON or was cut

	body []byte
}

type effectEvidence struct {
	Receipt string          `json:"receipt,omitempty"`
	Same    bool            `json:"same"`
	Value   json.RawMessage `json:"value,omitempty"`
	Answer  json.RawMessage `json:"answer,omitempty"`
	Doubt   string          `json:"doubt,omitempty"` // why it settles nothing
}

// page adds one page; the caller fills in what was found on it.
func (ev *evidence) page(k *policy.Kind, req transport.Request, a ledger.Answer) *pageEvidence {
	ev.clean.learn(k, req)
	p := &pageEvidence{At: a.BeganAt.UTC(), Millis: a.EndedAt.Sub(a.BeganAt).Milliseconds(), Status: a.Status}
	p.Request = ev.clean.without(req.Shown) // rendering has taken out the rest
	p.Request, p.body = clip(p.Request, maxExcerpt), a.Body
	switch {
	case req.Command != nil:
		p.body = a.Stdout
		if a.Exited {
			p.Exit = &a.Exit
		}
	case req.SQL != nil:
		p.body = a.Rows
	case req.MCP != nil && a.RPC != nil:
		p.body = a.RPC.Result
		if a.RPC.Error {
			p.Error = fmt.Sprintf("error %d: %s", a.RPC.Code, clip(ev.clean.text(a.RPC.Message), 512))
		}
	}
	p.Bytes = len(p.body)
	if len(ev.Pages) < MaxPages {
		ev.Pages = append(ev.Pages, p)
	} else {
		ev.More++
	}
	return p
}

// effect adds one effect found.
func (ev *evidence) effect(e verdict.Effect) {
	if len(ev.Effects) == maxEffects {
		ev.More++
		return
	}
	if len(ev.Effects) == 0 {
		ev.answer = ev.clean.whole(e.Answer)
	}
	ev.Effects = append(ev.Effects, effectEvidence{Receipt: clip(ev.clean.text(e.Receipt), 512), Same: e.Same,
		Value: ev.clean.excerpt(e.Value), Answer: ev.clean.excerpt(e.Answer), Doubt: clip(e.Doubt, 512)})
}

// result is what the policy's `reply` says of the effect that was found, if it is the only one
// and may be kept whole: what its caller gets as the answer when it repeats the request. What
// a list shows may have another shape than the answer to a write.
func (ev *evidence) result() json.RawMessage {
	if len(ev.Effects) != 1 || ev.More > 0 {
		return nil
	}
	return ev.answer
}

// json is the evidence within its bound: bodies go first, then effects' values.
func (ev *evidence) json() json.RawMessage {
	if len(ev.Pages) == 0 && len(ev.Effects) == 0 {
		return nil
	}
	b, err := json.Marshal(ev)
	for _, drop := range []func(){
		func() {
			for _, p := range ev.Pages {
				p.Body = nil
			}
		},
		func() {
			for i := range ev.Effects {
				ev.Effects[i].Value, ev.Effects[i].Answer = nil, nil
			}
			ev.Pages = ev.Pages[:min(len(ev.Pages), 3)]
		},
	} {
		if err == nil && len(b) <= maxEvidence {
			break
		}
		drop()
		b, err = json.Marshal(ev)
	}
	if err != nil {
		return nil
	}
	return b
}

// cleaner takes secrets out of an answer: members whose name says so, the
// members the policy redacts, everything that looks like a credential, and the
// credentials that were sent.
type cleaner struct {
	names  map[string]bool
	values []string
	taken  int // how often something was taken out
}

func (c *cleaner) learn(k *policy.Kind, req transport.Request) {
	if c.names == nil {
		c.names = map[string]bool{}
		for _, path := range k.Redact {
			last := path[strings.LastIndexByte(path, '.')+1:]
			if i := strings.IndexByte(last, '['); i >= 0 {
				last = last[:i]
			}
			c.names[strings.ToLower(last)] = true
		}
	}
	for _, v := range req.Secrets {
		if !slices.Contains(c.values, v) {
			c.values = append(c.values, v)
		}
	}
	slices.SortStableFunc(c.values, func(a, b string) int { return len(b) - len(a) }) // one may begin with another
}

func (c *cleaner) text(s string) string {
	clean := redact.Replace(c.without(s), redact.Marked)
	if clean != s {
		c.taken++
	}
	return clean
}

// without is a text without the credentials that were sent.
func (c *cleaner) without(s string) string {
	for _, v := range c.values {
		s = strings.ReplaceAll(s, v, redact.Mark)
	}
	return s
}

// excerpt is a body or a value as JSON: as it came where that is short JSON, else a text.
func (c *cleaner) excerpt(b []byte) json.RawMessage {
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return nil
	}
	v, err := ledger.DecodeJSON(b)
	if err != nil {
		return ledger.EncodeJSON(clip(c.text(string(b)), maxExcerpt))
	}
	if out := ledger.EncodeJSON(c.value("", v)); len(out) > maxExcerpt {
		return ledger.EncodeJSON(clip(string(out), maxExcerpt))
	} else {
		return out
	}
}

// whole is all of a value where it is an object or a list of which nothing has to be
// taken out or left out: half an answer would be taken for all of it.
func (c *cleaner) whole(b []byte) json.RawMessage {
	if len(b) == 0 || len(b) > maxAnswer {
		return nil
	}
	v, err := ledger.DecodeJSON(b)
	if err != nil {
		return nil
	}
	taken := c.taken
	if out := ledger.EncodeJSON(c.value("", v)); c.taken == taken && (out[0] == '{' || out[0] == '[') {
		return out
	}
	return nil
}

// value is what stands under the name holder.
func (c *cleaner) value(holder string, v any) any {
	switch v := v.(type) {
	case string:
		return c.text(v)
	case json.Number:
		if slices.ContainsFunc(c.values, func(secret string) bool { return strings.Contains(string(v), secret) }) {
			c.taken++
			return redact.Mark
		}
	case []any:
		for i := range v {
			v[i] = c.value(holder, v[i])
		}
	case map[string]any:
		clean := make(map[string]any, len(v))
		for name, member := range v {
			if c.secretly(holder, name, member) && member != any(redact.Mark) {
				c.taken++
				member = redact.Mark
			}
			clean[c.text(name)] = c.value(name, member)
		}
		return clean
	}
	return v
}

// secretly reports whether a member is secret by its name or by that of its holder.
func (c *cleaner) secretly(holder, name string, member any) bool {
	if c.names[strings.ToLower(name)] || redact.Name(name) {
		return true
	}
	_, held := redact.Member(holder, name, member)
	return held
}

// clip cuts a text between characters.
func clip(s string, n int) string { return outcome.Clip(strings.ToValidUTF8(s, "\uFFFD"), n, false) }

func receipts(effects []verdict.Effect) []string {
	var out []string
	for _, e := range effects {
		if e.Receipt != "" {
			out = append(out, e.Receipt)
		}
	}
	return out
}
