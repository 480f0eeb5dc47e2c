package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/policy/expr"
	"indoubt/policy/file"
	"indoubt/policy/transport"
)

// What a notifier may be told of.
const (
	NotifyOpened    = "opened"    // an outage opened
	NotifyOver      = "over"      // it is over
	NotifyTwice     = "twice"     // something happened twice, or may have
	NotifyUntaken   = "untaken"   // no one has taken what needs a person
	NotifyUnchecked = "unchecked" // no engine has checked for a while
)

var NotifyEvents = []string{NotifyOpened, NotifyOver, NotifyTwice, NotifyUntaken, NotifyUnchecked}

var NoticeFields = []string{"event", "notifier", "text", "open", "ledger", "outage", "operation", "where", "n"}

// So long may no one take what needs a person, and no engine check, before that is said.
const (
	UntakenAfter   = 15 * time.Minute
	UncheckedAfter = 5 * time.Minute

	noticeDeadline = 30 * time.Second // for a notifier to take a notice
)

// Notifier is a way to tell people what happened.
type Notifier struct {
	Name string
	On   []string // what it is told of
	Only []string // patterns of kinds; none: of all
	Kind *Kind    // how it is reached: its downstream and its deadline

	how transport.Way
}

// Notifiers are those of the file, in its order.
func (p *Policy) Notifiers() []*Notifier { return slices.Clone(p.notifiers) }

// Wants reports whether the notifier is told of an event about these kinds.
func (n *Notifier) Wants(event string, kinds ...string) bool {
	return slices.Contains(n.On, event) && (len(n.Only) == 0 || len(kinds) == 0 || slices.ContainsFunc(n.Only, func(pattern string) bool {
		return slices.ContainsFunc(kinds, func(kind string) bool { return ledger.KindMatches(pattern, kind) })
	}))
}

var notifierName = file.Short(`^[A-Za-z0-9_-]+$`, 60)

// Request is what tells a notice with this id, whose input it is, through the notifier.
func (n *Notifier) Request(id string, input json.RawMessage) (transport.Request, error) {
	rec := ledger.Record{Operation: ledger.Operation{ID: id, Kind: n.Kind.Name, Key: id, Input: input}}
	vars := n.Kind.variables(rec)
	vars.keyHeader = n.Kind.KeyHeader
	return transport.Twice(vars.rendering(), func(r *transport.Rendering) (transport.Request, error) { return r.Request(n.how) })
}

// notifier reads a notifier. Nothing of `defaults` holds for it.
func (d decoder) notifier(e file.Entry) {
	if !notifierName(e.Name) {
		d.Fail(e.Named(), fmt.Sprintf("%q is not the name of a notifier", e.Name), "letters, digits, _ and -")
		return
	}
	k := *blank().defaults
	k.Name, k.Deadline, k.policy, k.Line = "notify."+e.Name, noticeDeadline, d.policy, e.Value.Key.Line
	n := &Notifier{Name: e.Name, On: NotifyEvents, Kind: &k}
	known := transport.Ways(d.Decoder, &n.how)
	delete(known, "mcp")
	delete(known, "sql")
	maps.Copy(known, file.Table{
		"on": func(at *file.Node) {
			d.Texts(&n.On)(at)
			for i, event := range n.On {
				if !slices.Contains(NotifyEvents, event) {
					d.Fail(at.Item(i), fmt.Sprintf("must be %s, but is %q", file.Either(NotifyEvents), event),
						ledger.Meant(event, NotifyEvents))
				}
			}
		},
		"only":       d.Texts(&n.Only),
		"downstream": func(at *file.Node) { d.downstream(&k, at) },
	})
	fine := d.Fields(e.Value, known)
	switch {
	case !fine:
		return
	case n.how == nil:
		d.Fail(e.Value.Place, "says nothing to ask with", "http: { post: … } or command: [ … ]")
		return
	}
	if h, http := n.how.(*transport.HTTP); http {
		if h.Method != "POST" && h.Method != "PUT" {
			d.Fail(h.At, "a notice is not sent by "+strings.ToLower(h.Method), "http: { post: … }")
			return
		}
		if h.JSON == nil && h.Form == nil { // the whole of it
			h.JSON = transport.WholeInput()
		}
	}
	if ds := k.Downstream; ds != nil {
		k.KeyHeader = ds.KeyHeader
	}
	n.how.Attach(d.Decoder, transport.Reach{Own: k.Downstream, All: d.policy.downstreams})
	for _, t := range transport.Templates(n.how) {
		for _, x := range t.Expressions() {
			for _, path := range x.Inputs() {
				if name := firstOf(path); name != "" && !slices.Contains(NoticeFields, name) {
					d.Fail(e.Value.At(x.Line, x.Column), "a notice has no "+name, ledger.DidYouMean(name, NoticeFields))
				}
			}
		}
	}
	d.policy.notifiers = append(d.policy.notifiers, n)
}

// Money is an amount as people read it, with its currency.
func (p *Policy) Money(v float64) string { return expr.Money(v) + " " + p.currency }

// firstOf is the first name of a path of the input, "" where that is an index.
func firstOf(path string) string {
	name, _, _ := strings.Cut(path, ".")
	name, _, _ = strings.Cut(name, "[")
	return name
}
