package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ui/cli/base"
)

// Ids are what their writer wrote: every command finds one with capitals, a short
// one and one with an @, and keeps its late answer.
func TestIdsAsTheyWereWritten(t *testing.T) {
	for _, id := range []string{"INV-1042", "A7", "ann@example.com", "Order@7", "  "} {
		b := newBench(t)
		b.open()
		write := fmt.Sprintf(`INSERT INTO op (id, kind, name, created_at, changed_at, deadline_at, actor) VALUES ('%s', 'k', 'k', %d, %d, %d, 'nightly')`,
			id, b.now.UnixMilli(), b.now.UnixMilli(), b.now.Add(time.Minute).UnixMilli())
		execSQL(t, b.ledger, write)
		b.now = b.now.Add(2 * time.Minute)
		if strings.TrimSpace(id) == "" {
			b.want(2, "show", id)
			continue
		}
		b.want(2, "settle", id+".1", "--outcome", "uncertain")
		b.terminal = true // a person may name an attempt
		b.want(0, "settle", id+".1", "--outcome", "uncertain")
		b.terminal = false
		for _, args := range [][]string{{"show", id}, {"show", id + "@2"}, {"log", id}, {"log", id + "@2"}, {"check", id}, {"check", id + "@2"}} {
			if got, _, stderr := b.run(args...); got == 2 || got == 3 || strings.Contains(stderr, "no operation") {
				t.Errorf("indoubt %s: exit %d %s", strings.Join(args, " "), got, stderr)
			}
		}
		version := func() int64 {
			rec := need.Get(b.open().Read(context.Background(), ledger.Locator{ID: id}))(t)
			return rec.Operation.Version
		}
		at := func() string { return fmt.Sprintf("%s@%d", id, version()) }
		b.want(0, "note", at(), "--reason", "looked")
		b.want(0, "park", at(), "--until", "2h")
		seen := at()
		for range 2 { // the second is the same decision
			b.want(0, "deny", seen, "--reason", "not there", "--idempotency-key", "d")
		}
		b.want(0, "undo", at(), "--reason", "it is")
		b.terminal = true
		b.want(0, "settle", id+".1", "--outcome", "committed", "--receipt", "r1")
		rec, err := b.open().Read(context.Background(), ledger.Locator{ID: id})
		need.That(t, err == nil && rec.Operation.Receipt() == "r1", "%s: its late answer was not kept: %+v %v", id, rec.Operation, err)
	}
}

// No person signs as the machine, whichever way a name is given.
func TestReservedNames(t *testing.T) {
	for _, name := range []string{"checks", "clock", "CHECKS", " clock "} {
		b := newBench(t)
		b.doubt(1, "stripe.charge", charge)
		for _, args := range [][]string{{"confirm", b.at(1)}, {"hold", "--all", "--reason", "night"}, {"retry", b.at(1), "--reason", "r"},
			{"begin", "--kind", "k", "--key", "k"}, {"run", "--kind", "k", "--", "true"}} {
			exit := map[bool]int{true: base.OwnVerdict + base.ExitUsage, false: base.ExitUsage}[args[0] == "run"]
			if out := b.want(exit, append([]string{"--as", name}, args...)...); !strings.Contains(out, "signs with itself") {
				t.Errorf("%v as %s: %s", args, name, out)
			}
		}
		b.env["INDOUBT_ACTOR"] = name
		b.want(2, "confirm", b.at(1))
		b.env["INDOUBT_ACTOR"] = ""
		b.want(0, "begin", "--kind", "k", "--key", "k", "--source", name)
		page := need.Get(b.open().History(context.Background(), ledger.HistoryQuery{Limit: 100}))(t)
		for _, e := range page {
			need.That(t, !ledger.ReservedActor(e.Actor.Name), "%s is in the history: %+v", name, e)
		}
		if o := b.rec(1).Operation; o.State != ledger.Uncertain {
			t.Errorf("%s has decided: %+v", name, o)
		}
	}
}
