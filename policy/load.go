package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"
)

// builtInWords are the cost words where the file has none of its own.
var builtInWords = map[string]float64{"none": 0, "low": 1, "medium": 10, "high": 100, "severe": 1000}

// Load reads and checks a policy file. A file that is refused gives Errors;
// one that cannot be read gives the error of reading it.
func Load(path string) (*Policy, error) {
	text, err := content(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// content is the text of a policy file, which has an end even where the file has
// none. The errors are those of Load.
func content(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if info.IsDir() {
		return nil, fmt.Errorf("policy: %s is a directory", path)
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
	if len(text) > maxFile {
		return nil, Errors{{File: path, Message: fmt.Sprintf("the file is larger than %d KiB", maxFile>>10)}}
	}
	return text, nil
}

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
	p.file, p.empty = name, false
	d := &decoder{src: src, policy: p, problems: problems, visit: visit}
	d.lintSecrets(root)
	d.file(root)
	if len(d.problems) > 0 {
		return nil, d.problems.sorted()
	}
	p.digest = digest(root)
	p.warnings = d.warnings.sorted()
	return p, nil
}

// Default is the policy without a file: nothing is checked and costs are guesses.
func Default() *Policy {
	p := blank()
	p.empty = true
	p.digest = digest(&node{kind: scalarNode, text: "built in"})
	d := &decoder{src: newSource("", nil), policy: p}
	d.finishKind(p.defaults, "defaults")
	return p
}

// blank is a policy with the built-in defaults only.
func blank() *Policy {
	p := &Policy{currency: "USD", words: maps.Clone(builtInWords), downstreams: map[string]*Downstream{}, kinds: map[string]*Kind{}}
	p.defaults = &Kind{
		Deadline: 2 * time.Minute, EscalateAfter: 15 * time.Minute, Skew: time.Second, Look: 5, Timeout: 30 * time.Second,
		Retry:   RetryRule{Max: 0, BackoffMin: time.Second, BackoffMax: time.Minute},
		Auto:    AutoRule{Confirm: true, Deny: true, Retry: "never"},
		Repeat:  "allow",
		Cancel:  "keep",
		Control: true,
		policy:  p,

		duplicate: &costRule{word: "high", guess: true},
		miss:      &costRule{word: "medium", guess: true},
	}
	return p
}

func (d *decoder) file(root *node) {
	p := d.policy
	if root.kind != mappingNode {
		d.fail(root.at, "", fmt.Sprintf("a policy is a mapping (name: value), but this is %s", root.what()), "begin with `version: 1`")
		return
	}
	var defaults, downstreams, kinds *node
	versioned := false
	d.fields(root, "", []field{
		{"version", func(n *node, path string) {
			versioned = true
			if n.text != "1" {
				d.fail(n.at, path, fmt.Sprintf("this program reads version 1, not %s", n.what()), "version: 1")
			}
		}},
		{"currency", func(n *node, path string) { d.currency(n, path) }},
		{"words", func(n *node, path string) { d.words(n, path) }},
		{"defaults", func(n *node, _ string) { defaults = n }},
		{"downstreams", func(n *node, _ string) { downstreams = n }},
		{"kinds", func(n *node, _ string) { kinds = n }},
	})
	if !versioned {
		d.fail(position{1, 1}, "version", "is missing", "begin the file with `version: 1`")
	}
	for w, v := range p.words {
		if p.dearest == "" || v > p.words[p.dearest] || v == p.words[p.dearest] && w < p.dearest {
			p.dearest = w
		}
	}
	if defaults != nil {
		p.defaults.File = d.src.name
		d.kindFields(p.defaults, defaults, "defaults", true)
	}
	if downstreams != nil {
		d.downstreams(downstreams)
	}
	d.finishKind(p.defaults, "defaults")
	// For a kind that is not listed, and one without costs of its own, they are guesses.
	p.defaults.duplicate, p.defaults.miss = p.defaults.duplicate.inherited(), p.defaults.miss.inherited()
	if kinds != nil {
		d.kinds(kinds)
	}
}

func (d *decoder) currency(n *node, path string) {
	text, ok := d.scalar(n, path)
	if !ok {
		return
	}
	if text == "" || len(text) > 8 || strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) || r == ' ' }) {
		d.fail(n.at, path, fmt.Sprintf("must be a short name, but is %q", text), "currency: USD")
		return
	}
	d.policy.currency = text
}

func (d *decoder) words(n *node, path string) {
	if n.kind != mappingNode {
		d.fail(n.at, path, fmt.Sprintf("must be a mapping (word: number), but is %s", n.what()), "words: { low: 1, high: 100 }")
		return
	}
	for _, e := range n.entries {
		at := join(path, e.key)
		v, err := strconv.ParseFloat(e.value.text, 64)
		if e.value.kind != scalarNode || err != nil || !(v >= 0 && v < 1e15) {
			d.fail(e.value.at, at, fmt.Sprintf("must be a number of zero or more, but is %s", e.value.what()), "")
			continue
		}
		if _, err := strconv.ParseFloat(e.key, 64); err == nil || indexField(namesAsFields(scopeNames[scopeOperation]), e.key) >= 0 {
			d.fail(e.at, at, "this cannot be a word: it already means something in a cost", "")
			continue
		}
		d.policy.words[e.key] = v
	}
}

func namesAsFields(names []string) []field {
	out := make([]field, len(names))
	for i, n := range names {
		out[i].name = n
	}
	return out
}

func (d *decoder) downstreams(n *node) {
	if n.kind != mappingNode {
		d.fail(n.at, "downstreams", fmt.Sprintf("must be a mapping (name: …), but is %s", n.what()), "")
		return
	}
	for _, e := range n.entries {
		path := join("downstreams", e.key)
		ds := &Downstream{Name: e.key, File: d.src.name, Line: e.at.line}
		d.fields(e.value, path, []field{
			{"base", func(n *node, path string) { d.base(ds, n, path) }},
			{"mcp", func(n *node, path string) { d.mcpServer(ds, n, path) }},
			{"sql", func(n *node, path string) { d.sqlDatabase(ds, n, path) }},
			{"headers", func(n *node, path string) { ds.headers = d.headers(n, path) }},
			{"rate", func(n *node, path string) {
				if text, ok := d.scalar(n, path); ok {
					rate, err := parseRate(text)
					if err != nil {
						d.fail(n.at, path, err.Error(), "a rate is written 20/s, 600/m or 1000/h")
					}
					ds.RatePerSecond = rate
				}
			}},
			{"concurrency", func(n *node, path string) { d.integer(n, path, &ds.Concurrency, 1, 1000) }},
			{"redirects", func(n *node, path string) { d.redirects(ds, n, path) }},
			{"key", func(n *node, path string) {
				d.fields(n, path, []field{
					{"header", func(n *node, path string) {
						if text, ok := d.scalar(n, path); ok {
							if !headerName.MatchString(text) {
								d.fail(n.at, path, fmt.Sprintf("%q is no header name", text), "")
							}
							ds.KeyHeader = text
						}
					}},
					{"remembers", func(n *node, path string) { d.duration(n, path, &ds.Remembers) }},
				})
			}},
		})
		d.policy.downstreams[e.key] = ds
	}
}

func (d *decoder) kinds(n *node) {
	if n.kind != mappingNode {
		d.fail(n.at, "kinds", fmt.Sprintf("must be a mapping (name: …), but is %s", n.what()), "")
		return
	}
	for _, e := range n.entries {
		path := join("kinds", e.key)
		if !kindName.MatchString(e.key) {
			d.fail(e.at, path, fmt.Sprintf("%q is no name of a kind", e.key), "letters, digits, . _ - / : and * for any text")
			continue
		}
		k := *d.policy.defaults
		k.Pattern, k.File, k.Line, k.Known = e.key, d.src.name, e.at.line, true
		k.origins = maps.Clone(k.origins)
		if e.value.kind != nullNode {
			d.kindFields(&k, e.value, path, false)
		}
		d.finishKind(&k, path)
		d.policy.kinds[e.key] = &k
		d.policy.order = append(d.policy.order, e.key)
	}
	d.ambiguous()
	d.vouch()
	d.lintWrites()
}

// match finds the kind's entry: an exact name, else the pattern with the most
// letters, else the defaults.
func (p *Policy) match(name string) *Kind {
	if k, ok := p.kinds[name]; ok && !strings.Contains(name, "*") {
		return k
	}
	best, letters := p.defaults, -1
	for _, pattern := range p.order {
		if !strings.Contains(pattern, "*") || !wildcard(pattern, name) {
			continue
		}
		if n := len(pattern) - strings.Count(pattern, "*"); n > letters {
			best, letters = p.kinds[pattern], n
		}
	}
	return best
}

// wildcard matches * with any text, also none.
func wildcard(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if !strings.HasPrefix(name, parts[0]) {
		return false
	}
	rest := name[len(parts[0]):]
	for i, part := range parts[1:] {
		if i == len(parts)-2 {
			return strings.HasSuffix(rest, part)
		}
		j := strings.Index(rest, part)
		if j < 0 {
			return false
		}
		rest = rest[j+len(part):]
	}
	return rest == ""
}

// digest is the SHA-256 of the content: names sorted, comments, quotes and
// layout left out. It begins with a version of this form, so that a program
// that reads the same file differently has other digests.
func digest(root *node) string {
	h := sha256.New()
	h.Write([]byte("indoubt policy 1\n"))
	if err := json.NewEncoder(h).Encode(canonical(root)); err != nil {
		panic(err) // only maps, lists and strings come here
	}
	return hex.EncodeToString(h.Sum(nil))
}

func canonical(n *node) any {
	return n.data(func(n *node) any {
		if n.number || n.boolean {
			return json.RawMessage(strconv.Quote("=" + n.text)) // 1 and "1" are two things
		}
		return n.text
	})
}

// deadlineSane keeps the ledger from refusing what the policy says.
func deadlineSane(v time.Duration) bool { return v >= ledger.MinDeadline && v <= ledger.MaxDeadline }

func sortedNames[M ~map[string]V, V any](m M) []string {
	return slices.Sorted(maps.Keys(m))
}
