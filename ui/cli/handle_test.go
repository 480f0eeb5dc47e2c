package cli

import (
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// Who was given the handle settles the attempt, and nothing that others may look at has its
// secret, as long as it is in flight and after that.
func handleIsShownToNoOneElse(t *testing.T) {
	b := newBench(t)
	out := b.want(0, "begin", "--kind", "post", "--key", "k1", "--input", `{"a":1}`)
	said := map[string]string{}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		said[name] = strings.TrimSpace(value)
	}
	h := need.Get(ledger.ParseHandle(said["handle"]))(t)
	deadline := need.Get(time.Parse(time.RFC3339, said["deadline"]))(t)
	need.That(t, h.Operation == said["id"] && h.N == 1 && deadline.After(b.now), "%s", out)

	// What is not whole, not of this ledger, or not what the begin gave settles nothing.
	for handle, exit := range map[string]int{
		said["id"]: 2, said["id"] + ".1": 2, said["handle"][:len(said["handle"])-1]: 2, h.Change: 2,
		ledger.Handle{Operation: ledger.NewID(), N: 1, Change: h.Change}.String():        3,
		ledger.Handle{Operation: h.Operation[:13], N: 1, Change: h.Change}.String():      3,
		ledger.Handle{Operation: h.Operation, N: 1, Change: ledger.NewID()}.String():     5,
		ledger.Handle{Operation: h.Operation, N: 2, Change: h.Change}.String():           5,
		ledger.Handle{Operation: h.Operation, N: 1, Change: b.shownBegin(t, h)}.String(): 5,
	} {
		b.json(exit, "settle", handle, "--outcome", "committed")
		b.json(exit, "settle", handle, "--extend", "5m")
	}

	looks := func() {
		for _, args := range [][]string{{"list", "--all"}, {"list", "--all", "--json"}, {"list", "--all", "-o", "jsonl"}, {"show", h.Operation}, {"show", h.Operation, "--json"},
			{"log"}, {"log", "--json"}, {"log", "--all", "-o", "jsonl"}, {"log", h.Operation, "--json"}, {"report"}, {"report", "--json"},
			{"outage", "list", "--json"}, {"doctor"}, {"check", h.Operation}, {"begin", "--kind", "post", "--key", "k1", "--input", `{"a":1}`, "--json"}} {
			_, out, more := b.run(args...)
			need.Lacks(t, out+more, h.Change)
		}
	}
	looks()
	longer := b.json(0, "settle", said["handle"], "--extend", "10m").begun(t)
	need.Equal(t, longer.State, "pending")
	b.now = b.now.Add(9 * time.Minute)
	need.Equal(t, b.json(7, "begin", "--kind", "post", "--key", "k1", "--input", `{"a":1}`).Error.Code, "in_progress", "its deadline was moved")
	b.json(2, "settle", said["handle"], "--extend", "10m", "--outcome", "committed")
	b.json(2, "settle", said["handle"], "--extend", "0s")
	b.now = b.now.Add(2 * time.Minute)
	need.Equal(t, b.json(4, "settle", said["handle"], "--extend", "10m").Error.Code, "moved", "its deadline has passed")
	need.Equal(t, b.json(0, "settle", said["handle"], "--outcome", "committed").begun(t).State, "committed", "its answer came late")
	looks()
}

// shownBegin is the id that others see of the event that a handle is of.
func (b *bench) shownBegin(t *testing.T, h ledger.Handle) string {
	t.Helper()
	events := need.Get(b.open().History(t.Context(), ledger.HistoryQuery{Operation: h.Operation, Limit: 1}))(t)
	need.That(t, events[0].ID == h.Change && events[0].PublicID() != h.Change, "%+v", events[0])
	return events[0].PublicID()
}
