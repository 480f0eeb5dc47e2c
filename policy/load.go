package policy

import (
	"bytes"
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
	"indoubt/policy/expr"
)

// builtInWords are the cost words where the file has none of its own.
var builtInWords = map[string]float64{"none": 0, "low": 1, "medium": 10, "high": 100, "severe": 1000}

// Parse reads and checks the text of a policy file; name stands in its
// problems. The error is Errors with all of them.
func Parse(name string, text []byte) (*Policy, error) {
	return parse(name, text, nil)
}

func parse(name string, text []byte, visit func(path string, known []field)) (*Policy, error) {
	src := newSource(name, text)
	root, problems := parseYAML(src, text)
	if root == nil {
		if len(problems) == 0 {
			problems = Errors{{File: name, Message: "the file is empty", Hint: "`indoubt policy init` writes an example; at least: version: 1"}}
		}
		return nil, problems
	}
	p := blank()
	p.file, p.src, p.text, p.empty = name, src, text, false
	d := fileDecoder{&decoder{src: src, policy: p, problems: problems, visit: visit}}
	d.refuseSecrets(root)
	d.file(root)
	if len(d.problems) > 0 {
		return nil, d.problems.sorted()
	}
	p.digest = digest(text)
	p.warnings = d.warnings.sorted()
	return p, nil
}

// Default is the policy without a file: nothing is checked and costs are guesses.
func Default() *Policy {
	p := blank()
	p.empty = true
	p.digest = digest(nil)
	fileDecoder{&decoder{src: newSource("", nil), policy: p}}.finishKind(p.defaults)
	return p
}

// blank is a policy with the built-in defaults only.
func blank() *Policy {
	p := &Policy{currency: "USD", words: maps.Clone(builtInWords), downstreams: map[string]*Downstream{}, kinds: map[string]*Kind{}}
	p.defaults = &Kind{
		Clocks: Clocks{Deadline: 2 * time.Minute, EscalateAfter: 15 * time.Minute},
		Retry:  RetryRule{Max: 0, BackoffMin: time.Second, BackoffMax: time.Minute},
		Repeat: "hold",
		policy: p,
		Entry:  Entry{origins: map[string]position{}},
		rules:  rules{duplicate: &costRule{word: "high", guess: true}, miss: &costRule{word: "medium", guess: true}},
	}
	return p
}

func (d fileDecoder) file(root *node) {
	p := d.policy
	if root.kind != mappingNode {
		d.fail(root.place, fmt.Sprintf("a policy is a mapping (name: value), but this is %s", root.what()), "begin with `version: 1`")
		return
	}
	var version, defaults, downstreams, kinds, notify *node
	later := func(out **node) reader { // when what it rests on is known
		return func(n *node) { *out = n }
	}
	d.fields(root,
		field{"version", later(&version)},
		field{"currency", parsed(d.decoder, &p.currency, currency, "currency: USD")},
		field{"words", d.words},
		field{"defaults", later(&defaults)},
		field{"downstreams", later(&downstreams)},
		field{"kinds", later(&kinds)},
		field{"notify", later(&notify)},
	)
	switch {
	case version == nil:
		d.fail(place{position{1, 1}, "version"}, "is missing", "begin the file with `version: 1`")
	case version.text != "1":
		d.fail(version.place, fmt.Sprintf("this program reads version 1, not %s", version.what()), "version: 1")
	}
	for w, v := range p.words {
		if p.dearest == "" || v > p.words[p.dearest] || v == p.words[p.dearest] && w < p.dearest {
			p.dearest = w
		}
	}
	if defaults != nil {
		d.kindFields(p.defaults, defaults)
	}
	d.entries(downstreams, "a mapping (name: …)", "", d.addDownstream)
	d.finishKind(p.defaults)
	// For a kind that is not listed, and one without costs of its own, they are guesses.
	p.defaults.duplicate, p.defaults.miss = p.defaults.duplicate.inherited(), p.defaults.miss.inherited()
	d.entries(notify, "a mapping (name: …)", "", d.notifier)
	if d.entries(kinds, "a mapping (name: …)", "", d.addKind) {
		d.ambiguous()
		d.vouch()
		d.lintReads()
	}
}

// entries reads what stands under names of the file's own. It reports whether
// there is such a mapping; nil is none.
func (d *decoder) entries(n *node, what, hint string, read func(entry)) bool {
	if n == nil || !d.must(n, mappingNode, what, hint) {
		return false
	}
	for _, e := range n.entries {
		read(e)
	}
	return true
}

func currency(text string) (string, error) {
	if text == "" || len(text) > 8 || strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) || r == ' ' }) {
		return "", fmt.Errorf("must be a short name, but is %q", text)
	}
	return text, nil
}

func (d fileDecoder) words(n *node) {
	d.entries(n, "a mapping (word: number)", "words: { low: 1, high: 100 }", func(e entry) {
		v, err := strconv.ParseFloat(e.value.text, 64)
		if e.value.kind != scalarNode || err != nil || !(v >= 0 && v < 1e15) {
			d.fail(e.value.place, fmt.Sprintf("must be a number of zero or more, but is %s", e.value.what()), "")
			return
		}
		if _, err := strconv.ParseFloat(e.name, 64); err == nil || expr.ForOperation.Knows(e.name) {
			d.fail(e.named(), "this cannot be a word: it already means something in a cost", "")
			return
		}
		d.policy.words[e.name] = v
	})
}

func (d fileDecoder) addDownstream(e entry) {
	ds := &Downstream{Name: e.name, Line: e.value.key.line}
	var stated []*node // of callers
	d.fields(e.value,
		field{"base", func(n *node) { d.base(ds, n) }},
		field{"mcp", func(n *node) { d.mcpServer(ds, n) }},
		field{"sql", func(n *node) { d.sqlDatabase(ds, n) }},
		field{"headers", func(n *node) { ds.headers = d.headers(n) }},
		field{"rate", func(n *node) {
			parsed(d.decoder, &ds.RatePerSecond, parseRate, "a rate is written 20/s, 600/m or 1000/h")(n)
			ds.rate = n.text
		}},
		field{"concurrency", d.integer(&ds.Concurrency, 1, 1000)},
		field{"outage", d.outage(&ds.outage)},
		field{"callers", func(n *node) { stated = append(stated, n); d.callers(ds, n) }},
		field{"same_account", func(n *node) { stated = append(stated, n); d.boolean(&ds.SameAccount)(n) }},
		field{"key", d.mapping(
			field{"header", func(n *node) {
				if d.text(&ds.KeyHeader)(n); n.kind == scalarNode && !headerName.MatchString(ds.KeyHeader) {
					d.fail(n.place, fmt.Sprintf("%q is not a header name", ds.KeyHeader), "")
				}
			}},
			field{"remembers", d.duration(&ds.Remembers)},
			field{"replays", d.boolean(&ds.Replays)},
		)},
	)
	for _, n := range stated {
		if ds.Via != "http" {
			d.fail(n.place, "only requests over HTTP have headers, and this has no `base`", "say base: https://…, or leave it out")
		}
	}
	d.policy.downstreams[e.name] = ds
}

// maxBurst bounds how many errors open an outage: they are kept until they do.
const maxBurst = 100

func (d fileDecoder) outage(b *ledger.Burst) reader {
	return d.mapping(field{"errors", d.integer(&b.Errors, 1, maxBurst)}, field{"within", d.second(&b.Within)}, field{"gap", d.second(&b.Gap)})
}

func (d fileDecoder) addKind(e entry) {
	if !kindName.MatchString(e.name) {
		d.fail(e.named(), fmt.Sprintf("%q is not the name of a kind", e.name), "letters, digits, . _ - / : and * for any text")
		return
	}
	k := *d.policy.defaults
	k.Pattern, k.Line, k.Known = e.name, e.value.key.line, true
	k.origins = maps.Clone(k.origins)
	if e.value.kind != nullNode {
		d.kindFields(&k, e.value)
	}
	d.finishKind(&k)
	d.policy.kinds[e.name] = &k
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
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return text, nil
}

// Follower reads a policy again whenever its text has changed. It is used from one
// goroutine.
type Follower struct {
	path   string
	last   []byte
	failed string
	have   *Policy
	err    error
}

// Follow follows the policy at the path from have on, which is of there or the one
// without a file.
func Follow(path string, have *Policy) *Follower {
	return &Follower{path: path, have: have, failed: "not read yet"}
}

// Now is the policy as it was last good in its files, and why it is not so now. The errors
// are those of Load; that there is no file is none where there never was one.
func (f *Follower) Now() (*Policy, error) {
	text, err := content(f.path)
	failed := ""
	if err != nil {
		failed = err.Error()
	}
	if failed == f.failed && bytes.Equal(text, f.last) {
		return f.have, f.err
	}
	f.last, f.failed = text, failed
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
