package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/policy/expr"
)

// What a notifier may be told of.
const (
	NotifyOpened    = "opened"    // an outage opened
	NotifyTenfold   = "tenfold"   // it has ten times the errors, again and again
	NotifyOver      = "over"      // it is over
	NotifyTwice     = "twice"     // something happened twice, or may have
	NotifyUntaken   = "untaken"   // no one has taken what needs a person
	NotifyUnchecked = "unchecked" // no engine has checked for a while
)

// NotifyEvents are all of them.
var NotifyEvents = []string{NotifyOpened, NotifyTenfold, NotifyOver, NotifyTwice, NotifyUntaken, NotifyUnchecked}

// NoticeFields are the fields of the input of a notice.
var NoticeFields = []string{"event", "notifier", "text", "open", "ledger", "outage", "operation", "where", "phase",
	"errors", "landed", "not_landed", "to_look_at", "refused", "left", "miss", "miss_words", "unpriced", "currency", "n", "since"}

// So long may no one take what needs a person, and no engine check, before that is said.
const (
	UntakenAfter   = 15 * time.Minute
	UncheckedAfter = 5 * time.Minute
)

// Notifier is a way to tell people what happened.
type Notifier struct {
	Name string
	On   []string // what it is told of
	Only []string // patterns of kinds; none: of all

	kind *Kind
}

// Notifiers are those of the file, in its order.
func (p *Policy) Notifiers() []*Notifier { return slices.Clone(p.notifiers) }

// Notifier is the one of that name, or nil.
func (p *Policy) Notifier(name string) *Notifier {
	if i := slices.IndexFunc(p.notifiers, func(n *Notifier) bool { return n.Name == name }); i >= 0 {
		return p.notifiers[i]
	}
	return nil
}

// Wants reports whether the notifier is told of an event about these kinds.
func (n *Notifier) Wants(event string, kinds ...string) bool {
	return slices.Contains(n.On, event) && (len(n.Only) == 0 || len(kinds) == 0 || slices.ContainsFunc(n.Only, func(pattern string) bool {
		return slices.ContainsFunc(kinds, func(kind string) bool { return ledger.KindMatches(pattern, kind) })
	}))
}

var notifierName = shortName{lazyregexp.New(`^[A-Za-z0-9_-]+$`), 60}

// notifier reads a notifier. It is a kind, too: what it sends is an operation like any
// other, and only its own fields say how. Nothing of `defaults` holds for it.
func (d fileDecoder) notifier(e entry) {
	if !notifierName.MatchString(e.name) {
		d.fail(e.named(), fmt.Sprintf("%q is not the name of a notifier", e.name), "letters, digits, _ and -")
		return
	}
	n := &Notifier{Name: e.name, On: NotifyEvents}
	k := *blank().defaults
	k.Name = ledger.NoticeKind(e.name)
	k.Pattern, k.line, k.Known = k.Name, e.value.key.line, true
	k.File, k.Line = d.src.at(k.line)
	k.Deadline, k.Retry = 30*time.Second, RetryRule{Max: 5, BackoffMin: 10 * time.Second, BackoffMax: 5 * time.Minute}
	k.duplicate, k.miss = &costRule{number: 1, guess: true}, &costRule{number: 10, guess: true}
	k.notice, n.kind = &transport{}, &k
	t := k.notice
	fine := d.fields(e.value,
		field{"on", func(at *node) {
			d.strings(&n.On)(at)
			for i, event := range n.On {
				if !slices.Contains(NotifyEvents, event) {
					d.fail(at.item(i), fmt.Sprintf("must be %s, but is %q", either(NotifyEvents), event), ledger.Meant(event, NotifyEvents))
				}
			}
		}},
		field{"only", d.strings(&n.Only)},
		field{"downstream", func(at *node) { d.downstream(&k, at) }},
		field{"http", func(at *node) { t.http = d.http(at) }},
		field{"command", func(at *node) { t.command = d.command(at) }},
		field{"effect", d.choice((*string)(&k.Effect), "once", "safe")},
		field{"deadline", d.second(&k.Deadline)},
		field{"retry", d.retry(&k.Retry)},
		field{"committed", d.rule(&k.committed, expr.ForAnswer, expr.Bool)},
		field{"refused", d.rule(&k.refused, expr.ForAnswer, expr.Bool)},
	)
	if !fine || !d.oneTransport(e.value, t) {
		return
	}
	if h := t.http; h != nil {
		if h.method != "POST" && h.method != "PUT" {
			d.fail(h.at, "a notice is not sent by "+strings.ToLower(h.method), "http: { post: … }")
			return
		}
		if h.json == nil && h.form == nil { // the whole of it
			whole, _ := expr.ParseTemplate("${input}", expr.ForRequest)
			h.json = &expr.Tree{Text: whole}
			h.asks = append(h.asks, whole)
		}
	}
	d.finishNotifier(e, &k)
	d.policy.notifiers = append(d.policy.notifiers, n)
}

// finishNotifier wires a notifier together, and checks what it asks of a notice.
func (d fileDecoder) finishNotifier(e entry, k *Kind) {
	k.policy = d.policy
	if ds := k.Downstream; ds != nil {
		k.Remembers, k.KeyHeader = ds.Remembers, ds.KeyHeader
	}
	d.attach(k, k.notice)
	for _, t := range k.notice.templates() {
		for _, x := range t.Expressions() {
			for _, path := range x.Inputs() {
				if name := firstOf(path); name != "" && !slices.Contains(NoticeFields, name) {
					d.fail(place{position{x.Line, x.Column}, e.value.path}, "a notice has no "+name, ledger.DidYouMean(name, NoticeFields))
				}
			}
		}
	}
}

// Money is an amount as people read it, with its currency.
func (p *Policy) Money(v float64) string { return expr.Money(v) + " " + p.currency }
