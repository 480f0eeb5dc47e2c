package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"indoubt/ui/ticket"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/safe"

	tea "charm.land/bubbletea/v2"
)

// verbRetry stands beside the ledger's verbs where a bulk run sends.
const verbRetry ledger.Verb = "retry"

const (
	tryFirst  = 3 // sends before a bulk run waits for a look
	stopAfter = 3 // failures and unclear answers that stop it
)

// sendPacing makes a bulk run send ten a second.
var sendPacing = 100 * time.Millisecond

// bulkItem is one operation of a frozen set.
type bulkItem struct {
	id      string
	version int64
	title   string
	basis   ledger.Basis
	showing reconcile.Showing // of a retry, as the set was frozen
	twice   ledger.Cost
	never   ledger.Cost
	change  string
	recheck time.Duration // how long after the decision one more check is due
}

// bulkMsg is a set worked out from the marks: what is in it and what is not.
type bulkMsg struct {
	gen   int
	verb  ledger.Verb
	items []bulkItem
	out   []string // left out, each with why
	took  time.Time
	err   error
}

// bulk freezes the marked rows, judges each by itself, and then asks.
func (m *Root) bulk(verb ledger.Verb) tea.Cmd {
	ids := m.list.ids()
	marks := make(map[string]int64, len(m.list.marks))
	for id, v := range m.list.marks {
		marks[id] = v
	}
	for id := range marks { // marks may be on rows of an earlier page or filter
		if m.list.find(id) < 0 {
			ids = append(ids, id)
		}
	}
	m.asking++
	gen, ctx, store, engine, judge, now := m.asking, m.ctx, m.store, m.o.Engine, m.judge, m.at
	return m.asPerson(func() tea.Cmd {
		return func() tea.Msg {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			msg := bulkMsg{gen: gen, verb: verb, took: now}
			for _, id := range ids {
				seen, on := marks[id]
				if !on {
					continue
				}
				b, err := readBrief(ctx, store, judge, id, now, false)
				if err != nil {
					msg.err = err
					return msg
				}
				why := unfit(b, seen, verb, now)
				item := bulkItem{id: id, version: seen, title: b.rec.Operation.Title, twice: b.facts.Advice.Duplicate, never: b.facts.Advice.Miss, change: ledger.NewID(), recheck: b.facts.Recheck}
				if why == "" && verb == verbRetry {
					item.basis, item.showing, why = planned(ctx, engine, id)
				}
				if why != "" {
					msg.out = append(msg.out, b.rec.Operation.Title+": "+why)
					continue
				}
				msg.items = append(msg.items, item)
			}
			return msg
		}
	})
}

// unfit says why an operation cannot be part of a bulk run, or "".
func unfit(b *brief, seen int64, verb ledger.Verb, now time.Time) string {
	o := &b.rec.Operation
	state := o.StateAt(now)
	if o.Version != seen {
		return "moved since it was marked: " + ticket.State(state) + ", by " + ticket.Who(o.Actor)
	}
	switch verb {
	case ledger.VerbConfirm, ledger.VerbDeny:
		if state != ledger.Uncertain {
			return ticket.State(state) + ", not in doubt"
		}
	case ledger.VerbAbandon, verbRetry:
		if state != ledger.Uncertain && state != ledger.Failed {
			return ticket.State(state)
		}
	case ledger.VerbAck:
		if o.Conflict == ledger.NoConflict {
			return "no conflict"
		}
	case ledger.VerbPark:
		if state == ledger.Pending || o.Conflict == ledger.NoConflict && (state == ledger.Committed || state == ledger.Abandoned) {
			return ticket.State(state)
		}
	}
	if verb == verbRetry && len(b.rec.Related) > 0 {
		return "it has a twin or was overtaken: by itself only"
	}
	return ""
}

// planned says on what ground an operation may be sent with others, and what
// would be sent: only proof or a key is a ground. A risk is taken one at a time.
func planned(ctx context.Context, engine Engine, id string) (ledger.Basis, reconcile.Showing, string) {
	p, err := engine.Plan(ctx, id)
	why := ""
	switch {
	case err != nil:
		why = safe.Of(err.Error()).String()
	case p.Refused != nil:
		why = safe.Of(p.Refused.Error()).String()
	case p.Basis != ledger.BasisAbsent && p.Basis != ledger.BasisKeySafe:
		why = "without proof: by itself only"
	case p.OverridesMax:
		why = fmt.Sprintf("its %d further attempts are used up", p.Max)
	}
	return p.Basis, p.Showing, why
}

func bulkWords(v ledger.Verb) (title, done string) {
	switch v {
	case ledger.VerbConfirm:
		return "Confirm: it landed", "recorded as landed"
	case ledger.VerbDeny:
		return "Did not land", "recorded as not landed"
	case ledger.VerbAbandon:
		return "Abandon", "abandoned"
	case ledger.VerbAck:
		return "Dealt with", "dealt with"
	case ledger.VerbPark:
		return "Park", "parked"
	case ledger.VerbNote:
		return "Note", "noted"
	}
	return "Retry", "sent"
}

// bulkDialog shows the frozen set, and asks for its count.
func (m *Root) bulkDialog(msg bulkMsg) *dialog {
	title, _ := bulkWords(msg.verb)
	n := len(msg.items)
	d := &dialog{title: fmt.Sprintf("%s %d", title, n), itself: true}
	all := n + len(msg.out)
	d.facts = append(d.facts, fact{"SET", fmt.Sprintf("%d of %d marked, frozen %s; later rows are not in it", n, all, msg.took.In(m.loc).Format("15:04:05")), false})
	var twice, never float64
	byWord := 0
	worst := bulkItem{}
	ground := map[ledger.Basis]int{}
	for _, it := range msg.items {
		// Costs given as words are counted apart: they are no money.
		if it.twice.Word == "" {
			twice += it.twice.Value
		}
		if it.never.Word == "" {
			never += it.never.Value
		} else {
			byWord++
		}
		if it.never.Value > worst.never.Value || worst.id == "" {
			worst = it
		}
		ground[it.basis]++
		d.more = append(d.more, "  "+left(it.title, 48)+right(ticket.Cost(it.never), 8))
	}
	if msg.verb == verbRetry {
		for b, count := range ground {
			d.facts = append(d.facts, fact{"BECAUSE", fmt.Sprintf("%d: %s", count, ticket.Because(b, "")), false})
		}
	}
	if n > 0 {
		words := ""
		if byWord > 0 {
			words = fmt.Sprintf(" · %d rated by word", byWord)
		}
		d.facts = append(d.facts, fact{"MONEY", fmt.Sprintf("never %s · twice %s%s · worst %s   ^b: list", ticket.Full(never), ticket.Full(twice), words, worst.title), false})
	}
	for i, why := range msg.out {
		if i == 4 {
			d.facts = append(d.facts, fact{"", fmt.Sprintf("and %d more; ^b lists them", len(msg.out)-4), true})
			break
		}
		name := ""
		if i == 0 {
			name = "LEFT OUT"
		}
		d.facts = append(d.facts, fact{name, why, true})
	}
	for _, why := range msg.out {
		d.more = append(d.more, "  left out: "+why)
	}
	if msg.verb == verbRetry {
		d.facts = append(d.facts, fact{"HOW", fmt.Sprintf("same keys; each is checked and its version tested first. %d, then a pause for you; then ten a second; stops at %d failed or unclear", tryFirst, stopAfter), false})
	} else {
		d.facts = append(d.facts, fact{"HOW", "each by itself, its version tested first; what moved meanwhile is skipped and listed", false})
	}
	if n == 0 {
		d.title = title + ": nothing fits"
		return d
	}
	reason := textField("Reason", "")
	d.fields = []*field{reason}
	var extra *field
	switch msg.verb {
	case ledger.VerbAck:
		extra = textField("Reference", "")
	case ledger.VerbPark:
		extra = textField("Until", "2h")
	}
	if extra != nil {
		d.fields = append(d.fields, extra)
	}
	count := typedField(fmt.Sprintf("Type %d", n))
	d.fields = append(d.fields, count)
	d.do = fmt.Sprintf("%s %d", strings.SplitN(title, ":", 2)[0], n)
	if msg.verb == verbRetry {
		d.do = fmt.Sprintf("Send %d", min(n, tryFirst))
	}
	d.check = func(*dialog) string {
		if reason.value() == "" {
			return "say why: it is kept with each of them"
		}
		if msg.verb == ledger.VerbAck && extra.value() == "" {
			return "a reference: the refund, the ticket, the commit"
		}
		if msg.verb == ledger.VerbPark {
			if _, err := parseUntil(extra.value(), m.at, m.loc); err != nil {
				return err.Error()
			}
		}
		if count.value() != fmt.Sprint(n) {
			return fmt.Sprintf("type %d: how many it is", n)
		}
		return ""
	}
	d.act = func(*dialog) tea.Cmd {
		run := &bulkRun{id: ledger.NewID(), verb: msg.verb, items: msg.items, reason: reason.value(), began: m.at}
		if msg.verb == ledger.VerbAck {
			run.reference = extra.value()
		}
		if msg.verb == ledger.VerbPark {
			run.until, _ = parseUntil(extra.value(), m.at, m.loc)
		}
		m.run = run
		m.list.marks = nil
		return m.step()
	}
	return d
}

// bulkRun is a bulk action under way.
type bulkRun struct {
	id        string
	verb      ledger.Verb
	items     []bulkItem
	reason    string
	reference string
	until     time.Time
	began     time.Time
	next      int
	done      int
	failures  int
	paused    bool
	flying    bool   // one item is being carried out
	stopping  string // it ends with the item under way
	looked    bool   // the pause after the first few is over
	results   []string
	counts    map[string]int
}

// stepMsg is the end of one item of a bulk run.
type stepMsg struct {
	run     string
	at      int
	word    string // what became of it, in a word or two
	err     error
	moved   bool
	unclear bool // it was sent, and nobody knows what came of it
}

// step carries out the next item. It goes the way of a single one.
func (m *Root) step() tea.Cmd {
	r := m.run
	if r == nil || r.paused || r.flying || r.next >= len(r.items) {
		return nil
	}
	i, it := r.next, r.items[r.next]
	r.next++
	r.flying = true
	store, engine, actor, verb, run, ctx := m.store, m.o.Engine, m.actor, r.verb, *r, context.WithoutCancel(m.ctx)
	w, first, recheck := m.writes, i == 0, after(m.now(), it.recheck)
	m.writing++
	return func() tea.Msg {
		msg := stepMsg{run: run.id, at: i}
		if !w.begin() {
			msg.err = errors.New("the console is closing")
			return msg
		}
		defer w.end()
		if first {
			if msg.err = record(ctx, store, run, actor); msg.err != nil {
				return msg
			}
		}
		if verb == verbRetry {
			if i >= tryFirst {
				time.Sleep(sendPacing)
			}
			res, err := engine.Retry(ctx, reconcile.RetryRequest{ID: it.id, Version: it.version, Basis: it.basis, Showing: it.showing, Reason: run.reason, Actor: actor, ChangeID: it.change})
			msg.err = err
			if err == nil {
				msg.word = retryWords(res)
				msg.unclear = res.Did == reconcile.DidSend && res.Operation.State == ledger.Uncertain
			}
		} else {
			_, msg.err = ledger.Decide(ctx, store, ledger.Decision{ChangeID: it.change, ID: it.id, Version: it.version, Verb: verb, Reason: run.reason, Actor: actor, Reference: run.reference, Until: run.until, RecheckAt: recheck})
			_, msg.word = bulkWords(verb)
		}
		msg.moved = errors.Is(msg.err, ledger.ErrMoved)
		return msg
	}
}

// record writes the run down before its first change.
func record(ctx context.Context, store ledger.Store, r bulkRun, actor ledger.Actor) error {
	ops := make([]string, len(r.items))
	for i, it := range r.items {
		ops[i] = fmt.Sprintf("%s@%d", it.id, it.version)
	}
	_, _, err := store.Run(ctx, ledger.DecisionRun{ID: r.id, Verb: string(r.verb), Actor: actor, Operations: ops, CreatedAt: r.began})
	if err != nil {
		return fmt.Errorf("write the bulk run down: %w", err)
	}
	return nil
}

// stepped takes in the end of one item and starts the next.
func (m *Root) stepped(msg stepMsg) tea.Cmd {
	m.writing--
	r := m.run
	if r == nil || r.id != msg.run {
		return nil
	}
	r.done++
	r.flying = false
	if r.counts == nil {
		r.counts = map[string]int{}
	}
	title := r.items[msg.at].title
	switch {
	case msg.moved:
		var moved *ledger.MovedError
		by := ""
		if errors.As(msg.err, &moved) {
			by = " by " + ticket.Who(safe.Of(moved.Actor).String())
		}
		r.counts["skipped"]++
		r.results = append(r.results, "skipped, moved"+by+": "+title)
	case msg.err != nil:
		r.failures++
		r.counts["failed"]++
		r.results = append(r.results, "NOT DONE: "+title+": "+safe.Of(msg.err.Error()).String())
	default:
		if msg.unclear {
			r.failures++
		}
		r.counts[kindOf(msg.word)]++
		r.results = append(r.results, msg.word+": "+title)
	}
	switch {
	case r.stopping != "":
		return m.finishRun(r.stopping)
	case r.done >= len(r.items):
		return m.finishRun("done")
	case r.failures >= stopAfter:
		return m.finishRun(fmt.Sprintf("stopped after %d failed or unclear", r.failures))
	case r.verb == verbRetry && r.done == tryFirst && !r.looked:
		r.paused = true
		m.show(m.pauseDialog(fmt.Sprintf("%d sent, %d to go", r.done, len(r.items)-r.done)))
		return nil
	}
	return m.step()
}

// pauseDialog shows what came of a run so far, and asks whether it goes on.
func (m *Root) pauseDialog(title string) *dialog {
	r := m.run
	d := &dialog{title: title, itself: true, yes: fmt.Sprintf("y go on with %d", len(r.items)-r.done)}
	for _, line := range r.results {
		d.facts = append(d.facts, fact{"", line, strings.HasPrefix(line, "NOT DONE")})
	}
	d.act = func(*dialog) tea.Cmd {
		r.paused, r.looked = false, true
		return m.step()
	}
	d.closed = func() tea.Cmd { return m.finishRun("stopped by you") }
	return d
}

// finishRun lists what became of each, and what was not touched.
func (m *Root) finishRun(how string) tea.Cmd {
	r := m.run
	if r == nil {
		return nil
	}
	if r.flying {
		r.stopping = how
		return nil
	}
	m.run = nil
	title, _ := bulkWords(r.verb)
	d := &dialog{title: title + ": " + how, itself: true}
	d.facts = append(d.facts, fact{"RESULT", r.countWords(), r.failures > 0})
	if rest := len(r.items) - r.next; rest > 0 {
		d.facts = append(d.facts, fact{"NOT TOUCHED", plural(rest, "operation", "operations"), true})
	}
	for _, line := range r.results {
		d.facts = append(d.facts, fact{"", line, strings.HasPrefix(line, "NOT DONE")})
	}
	m.show(d)
	store, ctx, w := m.store, context.WithoutCancel(m.ctx), m.writes
	result, _ := json.Marshal(map[string]any{"how": how, "results": r.results})
	id, done := r.id, r.done
	return tea.Batch(m.reload(), func() tea.Msg {
		if !w.begin() {
			return nil
		}
		defer w.end()
		if err := store.Progress(ctx, id, done, result); err != nil {
			return doneMsg{err: fmt.Errorf("write down how far the run came: %w", err)}
		}
		return nil
	})
}

// kindOf is what became of an item without what is its own: receipt and reason.
func kindOf(word string) string {
	word, _, _ = strings.Cut(word, ", receipt ")
	word, _, _ = strings.Cut(word, ": ")
	return word
}

func (r *bulkRun) countWords() string {
	words := make([]string, 0, len(r.counts))
	for w := range r.counts {
		words = append(words, w)
	}
	sort.Strings(words)
	for i, w := range words {
		words[i] = fmt.Sprintf("%d %s", r.counts[w], w)
	}
	return strings.Join(words, " · ")
}

// progressLine shows a run under way.
func (m *Root) progressLine(w int) string {
	r := m.run
	n, room := len(r.items), 20
	full := room * r.done / max(n, 1)
	text := fmt.Sprintf(" %s%s %d/%d", strings.Repeat("█", full), strings.Repeat("░", room-full), r.done, n)
	if d := m.at.Sub(r.began); r.done > 0 && d > time.Second && r.done < n && !r.paused {
		text += fmt.Sprintf("  %s left", ticket.Span(d/time.Duration(r.done)*time.Duration(n-r.done)))
	}
	text += "   " + r.countWords()
	if r.paused {
		text += "   paused"
	} else {
		text += "   p pause"
	}
	return m.th.strong.s(left(text, w))
}
