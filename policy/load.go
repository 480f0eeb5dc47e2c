package policy

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/policy/advice"
	"indoubt/policy/expr"
	"indoubt/policy/file"
	"indoubt/policy/transport"
)

// builtInWords are the cost words where the file has none of its own.
var builtInWords = map[string]float64{"none": 0, "low": 1, "medium": 10, "high": 100, "severe": 1000}

// decoder reads a file into a policy, and then checks what no field can know alone.
type decoder struct {
	*file.Decoder
	policy *Policy
}

// Parse reads and checks the text of a policy file; name stands in its
// problems. The error is Errors with all of them.
func Parse(name string, text []byte) (*Policy, error) {
	return parse(name, text, nil)
}

func parse(name string, text []byte, visit func(path string, known []string)) (*Policy, error) {
	read, root := file.Parse(name, text)
	if root == nil {
		return nil, read.Problems
	}
	p := blank()
	p.file, p.text, p.empty, p.digest = name, text, false, digest(text)
	read.Visit, read.Meant = visit, meantField
	d := decoder{read, p}
	d.file(root)
	if len(d.Problems) > 0 {
		return nil, d.Problems.Sorted()
	}
	p.warnings = d.Warnings.Sorted()
	return p, nil
}

// Default is the policy without a file: nothing is checked and costs are guesses.
func Default() *Policy {
	p := blank()
	p.empty = true
	p.digest = digest(nil)
	decoder{&file.Decoder{}, p}.finishKind(p.defaults)
	return p
}

// blank is a policy with the built-in defaults only.
func blank() *Policy {
	p := &Policy{currency: "USD", words: maps.Clone(builtInWords), downstreams: map[string]*transport.Downstream{},
		kinds: map[string]*Kind{}}
	p.defaults = &Kind{
		Terms:  advice.Terms{Deadline: 2 * time.Minute, EscalateAfter: 15 * time.Minute},
		Retry:  RetryRule{Max: 0, BackoffMin: time.Second, BackoffMax: time.Minute},
		Repeat: "hold",
		policy: p,
		Entry:  Entry{origins: map[string]file.Position{}},
		rules:  rules{duplicate: &costRule{word: "high", guess: true}, miss: &costRule{word: "medium", guess: true}},
	}
	return p
}

func (d decoder) file(root *file.Node) {
	p := d.policy
	if root.Kind != file.Mapping {
		d.Fail(root.Place, fmt.Sprintf("a policy is a mapping (name: value), but this is %s", root.What()), "begin with `version: 1`")
		return
	}
	var version, defaults, downstreams, kinds, notify *file.Node
	later := func(out **file.Node) file.Reader { // when what it rests on is known
		return func(n *file.Node) { *out = n }
	}
	d.Fields(root, file.Table{
		"version":     later(&version),
		"currency":    file.Parsed(d.Decoder, &p.currency, currency, "currency: USD"),
		"words":       d.words,
		"defaults":    later(&defaults),
		"downstreams": later(&downstreams),
		"kinds":       later(&kinds),
		"notify":      later(&notify),
	})
	switch {
	case version == nil:
		d.Fail(file.Place{Path: "version"}.At(1, 1), "is missing", "begin the file with `version: 1`")
	case version.Text != "1":
		d.Fail(version.Place, fmt.Sprintf("this program reads version 1, not %s", version.What()), "version: 1")
	}
	for w, v := range p.words {
		if p.dearest == "" || v > p.words[p.dearest] || v == p.words[p.dearest] && w < p.dearest {
			p.dearest = w
		}
	}
	if defaults != nil {
		d.kindFields(p.defaults, defaults)
	}
	d.Entries(downstreams, "a mapping (name: …)", "", func(e file.Entry) {
		d.policy.downstreams[e.Name] = transport.ReadDownstream(d.Decoder, e)
	})
	d.finishKind(p.defaults)
	// For a kind that is not listed, and one without costs of its own, they are guesses.
	p.defaults.duplicate, p.defaults.miss = p.defaults.duplicate.inherited(), p.defaults.miss.inherited()
	d.Entries(notify, "a mapping (name: …)", "", d.notifier)
	if d.Entries(kinds, "a mapping (name: …)", "", d.addKind) {
		d.ambiguous()
		d.vouch()
		d.lintReads()
	}
}

func currency(text string) (string, error) {
	if text == "" || len(text) > 8 || strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) || r == ' ' }) {
		return "", fmt.Errorf("must be a short name, but is %q", text)
	}
	return text, nil
}

func (d decoder) words(n *file.Node) {
	d.Entries(n, "a mapping (word: number)", "words: { low: 1, high: 100 }", func(e file.Entry) {
		v, err := strconv.ParseFloat(e.Value.Text, 64)
		if e.Value.Kind != file.Scalar || err != nil || !(v >= 0 && v < 1e15) {
			d.Fail(e.Value.Place, fmt.Sprintf("must be a number of zero or more, but is %s", e.Value.What()), "")
			return
		}
		if _, err := strconv.ParseFloat(e.Name, 64); err == nil || expr.ForOperation.Knows(e.Name) {
			d.Fail(e.Named(), "this cannot be a word: it already means something in a cost", "")
			return
		}
		d.policy.words[e.Name] = v
	})
}

func (d decoder) addKind(e file.Entry) {
	if !kindName(e.Name) {
		d.Fail(e.Named(), fmt.Sprintf("%q is not the name of a kind", e.Name), "letters, digits, . _ - / : and * for any text")
		return
	}
	k := *d.policy.defaults
	k.Pattern, k.Line, k.Known = e.Name, e.Value.Key.Line, true
	k.origins = maps.Clone(k.origins)
	if e.Value.Kind != file.Null {
		d.kindFields(&k, e.Value)
	}
	d.finishKind(&k)
	d.policy.kinds[e.Name] = &k
	d.policy.order = append(d.policy.order, &k)
}

// match finds the kind's entry: an exact name, else the pattern with the most
// letters, else the defaults.
func (p *Policy) match(name string) *Kind {
	best, letters := p.defaults, -1
	if k, ok := p.kinds[name]; ok && !strings.Contains(name, "*") {
		return k
	}
	for _, k := range p.order {
		wild := strings.Count(k.Pattern, "*")
		if n := len(k.Pattern) - wild; wild > 0 && n > letters && ledger.KindMatches(k.Pattern, name) {
			best, letters = k, n
		}
	}
	return best
}

// digest is the SHA-256 of a policy's text, in hex.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func sortedNames[M ~map[string]V, V any](m M) []string {
	return slices.Sorted(maps.Keys(m))
}

// Load reads and checks a policy file. Problems of its content come as Errors; that it
// cannot be read comes as the error of the system.
func Load(path string) (*Policy, error) {
	text, err := content(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// content is the text of a policy file. A pipe would block, and gives its text once.
func content(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("policy: %s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, file.MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return text, nil
}

// Follower reads a policy again whenever its text has changed. It is used from one
// goroutine.
type Follower struct {
	path string
	seen string // the text, or why it could not be read
	have *Policy
	err  error
}

// Follow follows the policy at the path from have on, which is of there or the one
// without a file.
func Follow(path string, have *Policy) *Follower {
	return &Follower{path: path, have: have, seen: "not read yet"}
}

// Now is the policy as it was last good in its files, and why it is not so now. The errors
// are those of Load; that there is no file is none where there never was one.
func (f *Follower) Now() (*Policy, error) {
	text, err := content(f.path)
	seen := fmt.Sprint(err, "\n", string(text))
	if seen == f.seen {
		return f.have, f.err
	}
	f.seen = seen
	var p *Policy
	if err == nil {
		p, err = Parse(f.path, text)
	}
	if f.err = err; f.have.empty && errors.Is(err, fs.ErrNotExist) {
		f.err = nil
	}
	if p != nil && p.digest != f.have.digest {
		f.have = p
	}
	return f.have, f.err
}

//go:embed schema.json
var schema []byte

// Schema is the JSON Schema (2020-12) of a policy file, for editors. It knows
// the fields; what expressions mean only the check knows.
func Schema() []byte { return append([]byte(nil), schema...) }

//go:embed example.yaml
var example []byte

// Example is a commented policy that loads as it is.
func Example() []byte { return append([]byte(nil), example...) }
