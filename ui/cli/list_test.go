package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy"
	"indoubt/ui/cli/base"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// slow is a ledger whose search goes on for ever, a thousand operations at a time.
type slow struct {
	ledger.Store
	searched func()
}

func (s slow) Page(ctx context.Context, q ledger.Query) (ledger.Page, error) {
	s.searched()
	if ctx.Err() != nil {
		return ledger.Page{}, ctx.Err()
	}
	p := ledger.Page{Next: q.After + "+", Searched: 1000}
	if q.After == "" {
		p.Rows = []ledger.Row{{Operation: ledger.Operation{ID: "found"}}}
	}
	return p, nil
}

// A search that is stopped gives what it found, and says how far it came.
func TestSearchStopsWithWhatItFound(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	steps := 0
	s := slow{searched: func() {
		if steps++; steps == 4 {
			stop()
		}
	}}
	f := need.Get(ledger.ParseFilter("word"))(t)
	var out, errOut bytes.Buffer
	a := base.NewApp(strings.NewReader(""), &out, &errOut)
	rows, more, stopped, err := listCommand{a}.pages(ctx, s, f, 5)
	if err != nil || len(rows) != 1 || !more || !strings.HasPrefix(stopped, "stopped after about 3,000 operations") {
		t.Errorf("%d rows, more %v, %q, %v", len(rows), more, stopped, err)
	}
}

// atOnce is a ledger that gives records by several ids only.
type atOnce struct {
	ledger.Reader
	asked [][]string
}

func (s *atOnce) Records(_ context.Context, ids []string) ([]ledger.Record, error) {
	s.asked = append(s.asked, ids)
	var recs []ledger.Record
	for _, id := range ids {
		recs = append(recs, ledger.Record{Found: true, Operation: ledger.Operation{ID: id}})
	}
	return recs, nil
}

func TestListReadsItsRowsAtOnce(t *testing.T) {
	s := &atOnce{}
	all, err := base.Tickets(t.Context(), s, policy.Default(), ledger.Each([]string{"b", "a", "c"}, func(id string) ledger.Row { return ledger.Row{Operation: ledger.Operation{ID: id}} }))
	if err != nil || len(s.asked) != 1 || len(all) != 3 || all[0].Record.Operation.ID != "b" || all[2].Record.Operation.ID != "c" {
		t.Errorf("%d tickets of %q: %v", len(all), s.asked, err)
	}
}

// With since: what was begun since is told from what is only still open.
func TestTheListMarksWhatIsNew(t *testing.T) {
	now := time.Date(2026, 7, 14, 3, 6, 40, 0, time.UTC)
	row := func(id string, ago time.Duration) ticket.Ticket {
		return ticket.Ticket{Row: ledger.Row{Operation: ledger.Operation{ID: id, Kind: "pay", State: ledger.Committed, CreatedAt: now.Add(-ago)}}, Now: now, Zone: time.UTC}
	}
	for text, want := range map[string][]string{"since:30m": {"NEW", "•", "–"}, "": {"STATE", "committed", "committed"}} {
		f := need.Get(ledger.ParseFilter(text))(t)
		var out bytes.Buffer
		base.WriteTable(safe.NewWriter(&out), []ticket.Ticket{row("a", time.Minute), row("b", time.Hour)}, f, 0)
		for i, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
			need.Equal(t, strings.Fields(line)[2], want[i], text, i, "line")
		}
	}
}
