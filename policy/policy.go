// Package policy reads the team's policy file and applies it: what a kind of operation
// costs when it goes wrong, how to look for its effect, how to send it again, and what
// a person should do about it now.
//
// It stands on its rooms (file, expr, transport, verdict, advice), on ledger, on the list of
// secret shapes, and on carry, which puts tokens in. It does no I/O of its own except reading the
// policy file, the environment and the files that the policy names as secrets: requests are
// rendered here and sent elsewhere.
package policy

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/policy/advice"
	"indoubt/policy/expr"
	"indoubt/policy/file"
	"indoubt/policy/transport"
)

// Policy is one version of the policy file. It never changes after it was
// loaded and is safe for use by many goroutines.
type Policy struct {
	file        string
	empty       bool
	digest      string
	text        []byte // of the file
	lent        bool
	currency    string
	words       map[string]float64
	dearest     string // the word with the highest number
	downstreams map[string]*transport.Downstream
	defaults    *Kind            // Pattern ""
	kinds       map[string]*Kind // by pattern, as in the file
	order       []*Kind          // in file order
	notifiers   []*Notifier      // in file order
	warnings    file.Errors
	past        *advice.Past
}

// WithHistory returns the same policy with odds that learn from past; nil is
// none.
func (p *Policy) WithHistory(past *advice.Past) *Policy {
	q := *p
	q.past = past
	return &q
}

func (p *Policy) Digest() string { return p.digest }

func (p *Policy) Text() string { return string(p.text) }

// Lent reports whether the policy was not read from a file of this host, but taken from the
// ledger: it says what things are called, what they cost and when they are due. Nothing is
// asked or sent by it, so that no one who can write to a ledger decides what a host runs.
func (p *Policy) Lent() bool { return p.lent }

// Lend makes the policy of a text that was put in force.
func Lend(text ledger.PolicyText) (*Policy, error) {
	p, err := Parse(fmt.Sprintf("policy %d of the ledger", text.Number), []byte(text.Text))
	if err == nil {
		p.lent = true
	}
	return p, err
}

// Currency is what costs are counted in, "USD" unless the file says otherwise.
func (p *Policy) Currency() string { return p.currency }

// Path is the file the policy was read from, "" for Default.
func (p *Policy) Path() string { return p.file }

// Empty reports whether there is no policy file: only built-in defaults apply.
func (p *Policy) Empty() bool { return p.empty }

// Kinds are the names and patterns of the file, in its order.
func (p *Policy) Kinds() []string {
	return ledger.Each(p.order, func(k *Kind) string { return k.Pattern })
}

// Downstreams are the names of the file's downstreams, sorted.
func (p *Policy) Downstreams() []string {
	return sortedNames(p.downstreams)
}

// Downstream is the downstream of that name, or nil.
func (p *Policy) Downstream(name string) *transport.Downstream { return p.downstreams[name] }

// Checked are kinds that have a check, one of each downstream, in the order of its name.
func (p *Policy) Checked() (kinds []*Kind) {
	kinds = slices.DeleteFunc(slices.Clone(p.order), func(k *Kind) bool { return k.Read == nil })
	name := func(a, b *Kind) int { return strings.Compare(a.DownstreamName(), b.DownstreamName()) }
	slices.SortStableFunc(kinds, name)
	return slices.CompactFunc(kinds, func(a, b *Kind) bool { return name(a, b) == 0 })
}

// DownstreamName is the name of the kind's downstream; a kind without one is a downstream
// of its own.
func (k *Kind) DownstreamName() string {
	if k.Downstream == nil {
		return "kind:" + k.Pattern
	}
	return k.Downstream.Name
}

// Burst is when errors of this kind are an outage: as its downstream says.
func (k *Kind) Burst() (b ledger.Burst) {
	if ds := k.Downstream; ds != nil {
		b = ds.Outage
		b.Scope = "downstream:" + ds.Name
	}
	return b.Of(k.Name)
}

func (p *Policy) Words() map[string]float64 {
	return maps.Clone(p.words)
}

// Warnings are what the check would mention but not refuse.
func (p *Policy) Warnings() file.Errors { return append(file.Errors(nil), p.warnings...) }

// Kind is what the policy says about a kind of operation: the longest pattern
// that matches, else the defaults (Known is false then). It is never nil.
func (p *Policy) Kind(name string) *Kind {
	src := p.match(name)
	k := *src
	k.Name, k.policy = name, p
	return &k
}

// DownstreamOf is the downstream of a kind of operation, "" where the policy names none.
func (p *Policy) DownstreamOf(kind string) string {
	if ds := p.match(kind).Downstream; ds != nil {
		return ds.Name
	}
	return ""
}

// RemembersOf is for how long the downstream of a kind remembers its keys; 0: not at all.
func (p *Policy) RemembersOf(kind string) time.Duration { return p.match(kind).Remembers }

// DownstreamAt is the downstream whose base is written out and on a host, nil where there are
// several, or none.
func (p *Policy) DownstreamAt(host string) (at *transport.Downstream) {
	for _, ds := range p.downstreams {
		if base, err := url.Parse(ds.Base); err != nil || host == "" || !strings.EqualFold(base.Hostname(), host) {
			continue
		}
		if at != nil {
			return nil
		}
		at = ds
	}
	return at
}

// Kind is what applies to one kind of operation, with everything inherited
// from `defaults` filled in. Treat it as read-only.
type Kind struct {
	Name       string                // asked for
	Downstream *transport.Downstream // nil when none

	Entry
	advice.Terms

	Retry  RetryRule
	Repeat string  // "hold", "allow" or "replay": what becomes of an identical request
	Match  []Match // the HTTP requests that are of this kind, for the HTTP proxy
	Input  string  // the part of a recorded HTTP request that its expressions see: body; "": all of it

	Key    KeyRule
	Token  TokenRule
	Redact []string

	Read  *Read // nil when none
	Tests []Test

	policy *Policy
	view   expr.Path // the steps of Input
	rules
}

// Entry is where the file says what applies to a kind.
type Entry struct {
	Pattern string // what matched in the file, "" for the defaults
	Line    int
	Known   bool // false: no pattern matched, the defaults apply

	origins map[string]file.Position // dotted field → where it was said; absent: built in
}

// rules are what is computed of an operation and of the answer to its write.
type rules struct {
	title     *expr.Template
	target    *expr.Template
	link      *expr.Template
	duplicate *costRule
	miss      *costRule
	committed *expr.Expression
	refused   *expr.Expression
	already   *expr.Expression
	receipt   *expr.Expression // of an answer that committed
}

// RetryRule limits attempts after doubt.
type RetryRule struct {
	Max                    int // further attempts after the first
	BackoffMin, BackoffMax time.Duration
}

// KeyRule says how an idempotency key is made where the caller brings none.
type KeyRule struct {
	From []string      // input fields that name a request, whatever else differs
	TTL  time.Duration // how long a finished operation keeps its key; 0: for ever
}

// Match is one pattern of HTTP requests: "POST /v1/charges", "POST,PUT
// api.example.com/v1/orders/*". In the path * stands for one segment and ** at
// the end for the rest; without a host every upstream matches.
type Match struct {
	Methods []string // upper case; empty: every writing method
	Host    string
	Path    string
}

// TokenRule says where the correlation token goes. The zero rule: nowhere.
type TokenRule struct {
	Into     string // path in the input that is set to it
	Append   string // path of a list in the input it is added to, or of a text at whose end it stands
	Argument bool   // the wrapped command is meant to carry {{token}}; whether it does is seen in its arguments
}

func (t TokenRule) Stated() bool { return t.Into != "" || t.Append != "" || t.Argument }

// Test is one case of the kind's `tests:`, run by `policy test`.
type Test struct {
	Name  string
	Input any
	Token string
	After *time.Duration // from the attempt's end to the read; nil: as long as the clocks need
	Want  string         // one of testWants
	Line  int

	pages []ledger.Answer // what is answered, page by page
}
