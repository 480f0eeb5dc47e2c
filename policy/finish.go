package policy

import (
	"fmt"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/policy/file"
	"indoubt/policy/transport"
)

// finishKind wires a kind together once all its fields are read, and checks
// what no field can know alone.
func (d decoder) finishKind(k *Kind) {
	k.policy = d.policy
	for _, c := range []*costRule{k.duplicate, k.miss} {
		if c.word != "" { // known only once the file's words are
			c.number = d.policy.words[c.word]
		}
	}
	if ds := k.Downstream; ds != nil {
		k.Remembers, k.Replays, k.KeyHeader = ds.Remembers, ds.Replays, ds.KeyHeader
	}
	for _, d := range []*time.Duration{k.LandsWithin, k.VisibleWithin} {
		if d != nil {
			k.Looks.Lands += *d
		}
	}
	if k.CanSee = k.Read != nil; k.CanSee {
		k.Read.kind = k
		k.CanProve = k.Read.Proves() && k.Read.complete != nil
		k.Read.way.Attach(d.Decoder, transport.Reach{Own: k.Downstream, All: d.policy.downstreams})
		k.NewestOnly = k.Read.uses("attempt")
		d.lintRead(k)
	}
	k.Looks.Check = k.CanSee
	d.lintKeys(k)
}

// lintRead checks a read: first what makes it wrong, then what makes it weak.
func (d decoder) lintRead(k *Kind) {
	r, at := k.Read, k.said("read").Below("read")
	d.lintIdentity(k)
	for _, e := range r.expressions() {
		for _, in := range e.Inputs() {
			for _, hidden := range k.Redact {
				if in != "" && overlaps(in, hidden) {
					d.Fail(at.At(e.Line, e.Column), fmt.Sprintf("reads input.%s, which `redact` keeps only as a digest", in),
						"search by the token")
				}
			}
		}
	}
	d.finishPaging(r, at)
	d.lintFinds(k)
	d.lintNever(k)
}

// vouch marks a tool as read-only where the policy says so of the tool's own kind.
func (d decoder) vouch() {
	for _, k := range d.policy.order {
		if k.Read == nil {
			continue
		}
		m, mcp := k.Read.way.(*transport.MCP)
		if !mcp || m.Server == nil {
			continue
		}
		own := d.policy.match("mcp." + m.Server.Name + "." + m.Tool)
		m.Vouched = k.Read.readOnly || own.Known && own.Effect == "read"
	}
}

// overlaps reports whether one path leads into the other. * and an index stand
// for any element.
func overlaps(a, b string) bool {
	as, bs := splitPath(a), splitPath(b)
	for i := 0; i < len(as) && i < len(bs); i++ {
		if as[i] != bs[i] && as[i] != "*" && bs[i] != "*" {
			return false
		}
	}
	return true
}

func splitPath(p string) []string {
	p = strings.NewReplacer("[]", "*", "[", ".", "]", "").Replace(p)
	steps := strings.Split(p, ".")
	for i, s := range steps {
		if s != "" && strings.Trim(s, "0123456789") == "" {
			steps[i] = "*"
		}
	}
	return steps
}

// mostOfName is how much of a name, which has room for 2,000 characters, a policy may take.
const mostOfName = 1900

// lintKeys checks keys, and clocks and the machine beside them.
func (d decoder) lintKeys(k *Kind) {
	if k.Key.TTL > 0 && k.Key.TTL < k.Remembers {
		d.Fail(k.said("key").Below("key").Below("ttl"), fmt.Sprintf("%s is shorter than the downstream remembers a key (%s)",
			ledger.Brief(k.Key.TTL), ledger.Brief(k.Remembers)),
			"a key that is given away too early would be answered with the old result")
	}
	if k.Remembers > 0 && k.LandsWithin == nil {
		d.Warn(k.said("downstream"), "the downstream remembers keys, but without `lands_within` no repeat under a key counts as safe",
			"state lands_within")
	}
	if len(k.Key.From) > 0 && len(ledger.FieldsKey(Patterns(k.Match), k.Key.From, "")) > mostOfName {
		d.Fail(k.said("match"), "with `key: { from }` these patterns and fields are part of each name, and too long for one",
			"a kind of its own for some of them")
	}
	d.lintReplaces(k)
	d.lintClocks(k)
	if k.Known && k.Effect.Safe() && k.target == nil {
		d.Warn(k.said("effect"), "without `target` only the same request overtakes this one", "target: ${input.service}")
	}
}

// lintReplaces checks that a kind that sets a state says of what, and that its downstream
// does not answer with an old result.
func (d decoder) lintReplaces(k *Kind) {
	at := k.said("effect").Below("effect")
	switch {
	case !k.Effect.Replaces():
	case k.target == nil:
		d.Fail(at, "without `target` no operation is later on the same one", "target: ${input.service}")
	case k.Remembers > 0:
		d.Fail(at, fmt.Sprintf("the downstream remembers keys for %s, and would answer a rollback with the old result",
			ledger.Brief(k.Remembers)), "say effect: safe, or use a downstream without `key:`")
	}
}

// said is where a field of the kind was said, else the kind itself.
func (k *Kind) said(field string) file.Place {
	path := "defaults"
	if k.Known {
		path = file.Place{Path: "kinds"}.Below(k.Pattern).Path
	}
	if at, ok := k.origins[field]; ok {
		return file.Place{Position: at, Path: path}
	}
	return file.Place{Path: path}.At(k.Line, 1)
}

func (d decoder) lintClocks(k *Kind) {
	if k.Downstream != nil && k.Downstream.Replays && (k.Remembers == 0 || k.LandsWithin == nil) {
		d.Warn(k.said("downstream"),
			"`key.replays` never acts: it needs to be known how long a key is remembered, and how late an attempt can land",
			"state key.remembers and lands_within")
	}
	if k.Remembers > 0 && k.LandsWithin != nil && k.Remembers <= k.Deadline+*k.LandsWithin+ledger.Skew {
		d.Warn(k.said("lands_within"), "the downstream forgets a key before an attempt could have ended, so no repeat counts as safe", "")
	}
	if k.VisibleFor != nil && k.LandsWithin != nil && k.VisibleWithin != nil && *k.VisibleFor <= *k.VisibleWithin+ledger.Skew {
		d.Warn(k.said("visible_for"), "`visible_for` ends before anything is sure to be visible, so absence is never proven", "")
	}
}
