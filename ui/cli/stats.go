package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

func newStatsCommand(a *app) *cobra.Command {
	var back string
	cmd := &cobra.Command{
		Use: "stats", GroupID: groupLook,
		Short: "Count what stands where, and how decisions turned out",
		Long: `Count operations by list, kind and state, with the oldest doubt of each; how each
downstream last answered a check; how doubts ended, which the guesses rest on;
how many writes were sent once more; and how often a decision was found wrong
later. The last two are counted since --since.`,
		Example: "  indoubt stats\n  indoubt stats --since 7d --json | jq .data.accuracy",
		Args:    noArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			from, err := past("since", back, a.clock())
			if err != nil {
				return err
			}
			return stats(cmd.Context(), a, from)
		},
	}
	cmd.Flags().StringVar(&back, "since", "30d", "from when decisions are looked at, as 8h, 30d or 2026-07-14")
	return cmd
}

type statsJSON struct {
	Lists       []listCount         `json:"lists"`
	Kinds       []stateCountJSON    `json:"kinds"`
	Downstreams []downstreamJSON    `json:"downstreams"`
	Odds        []ledger.DoubtCount `json:"odds"`
	Accuracy    []ledger.Accuracy   `json:"accuracy"`
	Sends       []sendsJSON         `json:"sends"`
	Duplicates  int                 `json:"duplicates"` // open ones
	Loss        float64             `json:"loss"`
	Currency    string              `json:"currency"`
	Since       string              `json:"since"`
	Archived    int                 `json:"archived"` // that may have changed since: what is counted since lacks them
}

type listCount struct {
	name string
	n    int
}

func (l listCount) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"list":%q,"count":%d}`, l.name, l.n), nil
}

type stateCountJSON struct {
	Kind          string       `json:"kind"`
	State         ledger.State `json:"state"`
	Count         int          `json:"count"`
	OldestSeconds *float64     `json:"oldest_seconds"`
}

// downstreamJSON is how a downstream last answered, as far as the ledger knows.
type downstreamJSON struct {
	Downstream string         `json:"downstream"`
	InDoubt    int            `json:"in_doubt"`
	LastRead   *string        `json:"last_read"`
	Verdict    ledger.Verdict `json:"verdict,omitempty"`
	Reason     string         `json:"reason,omitempty"`
}

// sendsJSON is how many writes were sent once more.
type sendsJSON struct {
	Kind    string  `json:"kind"`
	Outcome *string `json:"outcome"` // null: in flight
	Count   int     `json:"count"`
}

// listed are the console's lists with their counts.
func listed(c ledger.Counts) []listCount {
	return []listCount{{"needs_you", c.NeedsYou}, {"checking", c.Checking}, {"in_flight", c.InFlight}, {"settled", c.Settled},
		{"all", c.All}, {"parked", c.Parked}, {"conflicts", c.Conflicts}}
}

func stats(ctx context.Context, a *app, from time.Time) error {
	s, err := lookedAt(ctx, a)
	if err != nil {
		return err
	}
	p := a.policyToLookBy()
	now := a.clock()
	counts, err := s.Counts(ctx, now)
	if err != nil {
		return err
	}
	states, err := s.StateCounts(ctx, now)
	if err != nil {
		return err
	}
	doubts, err := s.DoubtCounts(ctx)
	if err != nil {
		return err
	}
	accuracy, err := s.Accuracy(ctx, from)
	if err != nil {
		return err
	}
	sends, err := s.Sends(ctx, from)
	if err != nil {
		return err
	}
	archived, err := archivedSince(ctx, s, from)
	if err != nil {
		return err
	}
	downs, err := downstreamsSeen(ctx, s, p, states, now)
	if err != nil {
		return err
	}
	kinds := each(states, func(c ledger.StateCount) stateCountJSON {
		j := stateCountJSON{Kind: c.Kind, State: c.State, Count: c.Count}
		if !c.Oldest.IsZero() {
			old := max(now.Sub(c.Oldest), 0).Truncate(time.Second).Seconds()
			j.OldestSeconds = &old
		}
		return j
	})
	sent := each(sends, func(c ledger.Sends) sendsJSON { return sendsJSON{c.Kind, text(string(c.Outcome)), c.Count} })
	data := statsJSON{Lists: listed(counts), Kinds: kinds, Downstreams: downs, Odds: list(doubts), Accuracy: list(accuracy),
		Sends: sent, Duplicates: counts.Twice, Loss: counts.Loss, Currency: p.Currency(), Since: *moment(from), Archived: archived}
	return a.done("", data, func(w *safe.Writer) { writeStats(w, data, from) })
}

// downstreamsSeen tells how each downstream answered the newest check of what is
// in doubt there.
func downstreamsSeen(ctx context.Context, s ledger.Store, p *policy.Policy, states []ledger.StateCount, now time.Time) ([]downstreamJSON, error) {
	out := []downstreamJSON{}
	for _, name := range p.Downstreams() {
		filter, err := ledger.ParseFilter(`downstream:"` + strings.ReplaceAll(name, `"`, "") + `" state:uncertain`)
		if err != nil {
			continue
		}
		d := downstreamJSON{Downstream: name}
		for _, c := range states {
			if c.State == ledger.Uncertain && p.DownstreamOf(c.Kind) == name {
				d.InDoubt += c.Count
			}
		}
		page, err := s.Page(ctx, ledger.Query{Tab: ledger.TabAll, Filter: filter.By(p.DownstreamOf), Order: ledger.OrderNewest, Now: now, Limit: 5})
		if err != nil {
			return nil, err
		}
		var newest ledger.Read
		for _, row := range page.Rows {
			rec, err := s.Read(ctx, ledger.Locator{ID: row.ID})
			if errors.Is(err, ledger.ErrNotFound) {
				continue
			} else if err != nil {
				return nil, err
			}
			if len(rec.Reads) > 0 && rec.Reads[0].BeganAt.After(newest.BeganAt) {
				newest = rec.Reads[0]
			}
		}
		if !newest.BeganAt.IsZero() {
			d.LastRead, d.Verdict, d.Reason = moment(newest.BeganAt), newest.Verdict, newest.Reason
		}
		out = append(out, d)
	}
	return out, nil
}

// writeStats prints the counts as small tables.
func writeStats(w *safe.Writer, d statsJSON, since time.Time) {
	var head []string
	for _, l := range d.Lists {
		if l.n > 0 || l.name == "needs_you" || l.name == "all" {
			head = append(head, fmt.Sprintf("%s %s", ledger.Count(l.n), strings.ReplaceAll(l.name, "_", " ")))
		}
	}
	w.Println(strings.Join(head, " · "))
	if d.Duplicates > 0 {
		w.Printf("%s happened twice and not dealt with yet\n", ledger.Count(d.Duplicates))
	}
	if d.Archived > 0 {
		w.Printf("%s: what is counted since then lacks them\n", ticket.Archived(d.Archived))
	}
	writeColumns(w, []string{"KIND", "STATE", "COUNT", "OLDEST"}, len(d.Kinds), func(i int) []string {
		k, old := d.Kinds[i], "–"
		if k.OldestSeconds != nil {
			old = ticket.Age(time.Duration(*k.OldestSeconds) * time.Second)
		}
		return []string{k.Kind, string(k.State), ledger.Count(k.Count), old}
	})
	writeColumns(w, []string{"DOWNSTREAM", "IN DOUBT", "LAST CHECK", "IT SAID"}, len(d.Downstreams), func(i int) []string {
		s, at := d.Downstreams[i], "–"
		if s.LastRead != nil {
			at = *s.LastRead
		}
		return []string{s.Downstream, ledger.Count(s.InDoubt), at, cmp.Or(strings.TrimSpace(string(s.Verdict)+"  "+s.Reason), "–")}
	})
	writeColumns(w, []string{"DOUBTS OF", "AFTER", "LANDED", "DID NOT"}, len(d.Odds), func(i int) []string {
		t := d.Odds[i]
		return []string{t.Kind, cmp.Or(string(t.Class), "no answer"), ledger.Count(t.Landed), ledger.Count(t.Missed)}
	})
	writeColumns(w, []string{"SENT ONCE MORE", "OUTCOME", "COUNT"}, len(d.Sends), func(i int) []string {
		s, outcome := d.Sends[i], "in flight"
		if s.Outcome != nil {
			outcome = *s.Outcome
		}
		return []string{s.Kind, outcome, ledger.Count(s.Count)}
	})
	decided := slices.Clone(d.Accuracy)
	slices.SortStableFunc(decided, func(a, b ledger.Accuracy) int { return cmp.Compare(b.Wrong, a.Wrong) })
	if len(decided) > 0 {
		w.Printf("\nDecided since %s:\n", clockTime(since))
	}
	for _, c := range decided {
		who := c.Actor
		if c.Machine {
			who += " (a program)"
		}
		later := "none found wrong"
		if c.Wrong > 0 {
			later = ledger.Count(c.Wrong) + " later found wrong"
		}
		w.Printf("  %s: %s by %s, %s\n", who, ledger.Count(c.Decided), c.Verb, later)
	}
}

// writeColumns prints an aligned table under a blank line, unless it is empty.
func writeColumns(w *safe.Writer, head []string, n int, row func(i int) []string) {
	if n == 0 {
		return
	}
	g := grid{cells: [][]string{head}, gap: 2}
	for i := range n {
		cells := row(i)
		for j := range cells {
			cells[j] = safe.Of(cells[j]).String()
		}
		g.cells = append(g.cells, cells)
	}
	w.Println()
	g.write(w)
}
