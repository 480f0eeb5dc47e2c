// Package policy reads the team's policy file and answers what it says: what a
// kind of operation costs when it goes wrong, how to look for its effect, how to
// send it again, and what a person should do about it now.
//
// It may import ledger (for the types) and nothing else of indoubt. It does no
// I/O of its own except reading the policy file, the environment and the files
// that the policy names as secrets: requests are rendered here and sent elsewhere.
package policy

import "maps"

// Policy is one version of the policy file. It never changes after it was
// loaded and is safe for use by many goroutines.
type Policy struct {
	file        string
	empty       bool
	digest      string
	currency    string
	words       map[string]float64
	dearest     string // the word with the highest number
	downstreams map[string]*Downstream
	defaults    *Kind            // Pattern ""
	kinds       map[string]*Kind // by pattern, as in the file
	order       []string         // patterns in file order
	warnings    Errors
	secrets     []string // written out in the file
	past        *Past
}

// WithHistory returns the same policy with odds that learn from past; nil is
// none.
func (p *Policy) WithHistory(past *Past) *Policy {
	q := *p
	q.past = past
	return &q
}

// Digest identifies the content of the policy: SHA-256 (hex) of its canonical
// form, which comments, order and layout do not change.
func (p *Policy) Digest() string { return p.digest }

// Currency is what costs are counted in, "USD" unless the file says otherwise.
func (p *Policy) Currency() string { return p.currency }

// Path is the file the policy was read from, "" for Default.
func (p *Policy) Path() string { return p.file }

// Empty tells that there is no policy file: only built-in defaults apply.
func (p *Policy) Empty() bool { return p.empty }

// Kinds are the names and patterns of the file, in its order.
func (p *Policy) Kinds() []string { return append([]string(nil), p.order...) }

// Downstreams are the names of the file's downstreams, sorted.
func (p *Policy) Downstreams() []string {
	return sortedNames(p.downstreams)
}

// Downstream is the downstream of that name, or nil.
func (p *Policy) Downstream(name string) *Downstream { return p.downstreams[name] }

// Words are the cost words and their numbers.
func (p *Policy) Words() map[string]float64 {
	return maps.Clone(p.words)
}

// Warnings are what the check would mention but not refuse.
func (p *Policy) Warnings() Errors { return append(Errors(nil), p.warnings...) }

// Kind is what the policy says about a kind of operation: the longest pattern
// that matches, else the defaults (Known is false then). It is never nil.
func (p *Policy) Kind(name string) *Kind {
	src := p.match(name)
	k := *src
	k.Name, k.policy = name, p
	return &k
}
