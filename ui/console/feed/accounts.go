package feed

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ui/ticket"
)

// The sums of an outage are asked of all its operations, and its account reads every open
// one. A look asks the sums of outages that have a row or that events are about, reads
// again the accounts of those whose sums changed, and all of them when a hold or a bulk run
// begins or ends. No event tells of the rest: a price, a read that
// settles nothing, an operation elsewhere that wants the same, a clock while others write.
// So every look also reads the oldest accounts again, and none that it shows is older
// than accountAtMost.
const (
	accountAge    = 5 * time.Second
	accountAtMost = 30 * time.Second
	agedAtOnce    = 2
	writtenAtMost = 1000 // events: behind more of them every account is read again
)

// account is what was read of an outage.
type account struct {
	ledger.OutageAccount
	at    time.Time
	stale bool
	open  *ledger.Needing // read with the account of what is on the screen
}

// figures are the sums of an outage, and when they were asked.
type figures struct {
	fates map[ledger.Fate]ledger.Sum
	at    time.Time
}

// before is what the look before this one brought.
type before struct {
	ledger   string // its id
	parallel int    // queries that are worth making at the same time
	accounts map[string]account
	figures  map[string]figures
	counts   ledger.Counts
	holds    []ledger.Hold
	runs     []ledger.DecisionRun
}

// readConcerned reads which outages the new events are about.
func (msg *Looked) readConcerned(ctx context.Context, store ledger.Store) (err error) {
	if msg.since != "" && msg.events > 0 {
		msg.concerned, msg.whole, err = store.OutagesSince(ctx, msg.since, writtenAtMost)
	}
	return err
}

// recall takes the accounts of the look before and marks those to read again.
func (msg *Looked) recall() {
	b, c, was := msg.before, msg.counts, msg.before.counts
	msg.accounts, msg.before.accounts = map[string]account{}, maps.Clone(b.accounts)
	if msg.since == "" || b.ledger != msg.info.ID {
		msg.before.accounts, msg.before.figures = nil, nil
		return
	}
	clock := msg.events == 0 &&
		(c.Needing != was.Needing || c.Checking != was.Checking || c.InFlight != was.InFlight || c.Parked != was.Parked)
	all := clock || msg.events > 0 && !msg.whole || !sameHolds(b.holds, msg.holds) || !sameRuns(b.runs, msg.runs)
	if all {
		msg.before.figures = nil
	}
	oldest := slices.SortedFunc(maps.Keys(b.accounts), func(x, y string) int { return b.accounts[x].at.Compare(b.accounts[y].at) })
	for i, id := range oldest {
		a := b.accounts[id]
		age := msg.took.Sub(a.at)
		aged := age < 0 || age >= accountAtMost || age >= accountAge && (i < agedAtOnce || id == msg.showing)
		a.stale = all || aged || slices.Contains(msg.concerned, id)
		msg.before.accounts[id] = a
	}
}

func sameHolds(a, b []ledger.Hold) bool {
	return slices.EqualFunc(a, b, func(a, b ledger.Hold) bool { return a.ChangeID == b.ChangeID && a.Scope == b.Scope })
}

func sameRuns(a, b []ledger.DecisionRun) bool {
	return slices.EqualFunc(a, b, func(a, b ledger.DecisionRun) bool { return a.ID == b.ID && a.State == b.State })
}

// readAccounts reads those of several outages at the same time, and of the one on the
// screen.
func (msg *Looked) readAccounts(ctx context.Context, store ledger.Store, list []ledger.Outage) error {
	wanted := map[string]*ledger.Outage{}
	for i := range list {
		wanted[list[i].ID] = &list[i]
	}
	if _, listed := wanted[msg.showing]; !listed && msg.showing != "" {
		wanted[msg.showing] = nil
	}
	var mu sync.Mutex
	var reads []read
	for id, in := range wanted {
		reads = append(reads, read{id, func(ctx context.Context, store ledger.Store) error {
			a, err := msg.readAccount(ctx, store, id, in)
			if a != nil {
				mu.Lock()
				defer mu.Unlock()
				msg.accounts[id] = *a
			}
			return err
		}})
	}
	return together(ctx, store, msg.info.Parallel, reads...)
}

// readAccount reads the account of one outage, which stands as in where the look has
// read it; nil where there is none. One that is known and not out of date is not read.
func (msg *Looked) readAccount(ctx context.Context, store ledger.Store, id string, in *ledger.Outage) (*account, error) {
	a, known := msg.before.accounts[id]
	if !known || a.stale || in != nil && !alike(a.Outage, *in) {
		got, err := store.Outage(ctx, id, msg.took)
		if errors.Is(err, ledger.ErrNotFound) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		a = account{OutageAccount: got, at: msg.took}
	} else if in != nil {
		a.Outage = *in
	}
	if id == msg.showing && a.open == nil {
		open, err := store.Needing(ctx, a.filter(), msg.took)
		if err != nil {
			return nil, err
		}
		a.open = &open
	}
	return &a, nil
}

// account is that of one outage for people; nil where there is none.
func (msg *Looked) account(ctx context.Context, store ledger.Store, id string, in *ledger.Outage) (*ticket.Outage, error) {
	a, known := msg.accounts[id]
	if !known {
		got, err := msg.readAccount(ctx, store, id, in)
		if err != nil || got == nil {
			return nil, err
		}
		a, msg.accounts[id] = *got, *got
	}
	return &ticket.Outage{OutageAccount: a.OutageAccount, Open: a.open, Now: msg.took, Zone: msg.zone}, nil
}

func (a account) filter() ledger.Filter {
	return ledger.Filter{Terms: []ledger.Term{{Field: "outage", Value: a.ID}}}
}

// alike reports whether an outage stands as it did but for an answer, which comes
// with every write that works.
func alike(a, b ledger.Outage) bool {
	a.AnsweredAt = b.AnsweredAt
	return reflect.DeepEqual(a, b)
}

func (msg *Looked) readListed(ctx context.Context, store ledger.Store) (err error) {
	most := 4 * foldsAtMost
	if len(msg.Filter.Terms) > 0 {
		most = matchedAtMost
	}
	msg.listed, err = store.Outages(ctx, msg.took, most)
	return err
}

// readSums asks the sums of the outages that may have a row, where those of the look
// before may not be theirs any more.
func (msg *Looked) readSums(ctx context.Context, store ledger.Store) error {
	var again []ledger.Outage
	msg.figures = map[string]figures{}
	for _, in := range msg.listed {
		a, known := msg.before.figures[in.ID]
		_, row := msg.before.accounts[in.ID]
		if age := msg.took.Sub(a.at); !known || row || age < 0 || age >= accountAtMost || slices.Contains(msg.concerned, in.ID) {
			again = append(again, in)
		} else {
			msg.figures[in.ID] = a
		}
	}
	if err := store.Sums(ctx, again, msg.took); err != nil {
		return err
	}
	for _, in := range again {
		msg.figures[in.ID] = figures{in.Fates, msg.took}
	}
	for i, in := range msg.listed {
		msg.listed[i].Fates = msg.figures[in.ID].fates
	}
	return nil
}

// candidates are the outages that may have a row, the first of them first: what the
// filter is about, what still grows and has something open, what is dear, what has many,
// what had a row before. Sizes count as powers of two, so that rows do not come and go
// with each error.
func (msg *Looked) candidates() []ledger.Outage {
	list := slices.Clone(msg.listed)
	ids := map[string]bool{}
	for _, in := range list {
		ids[in.ID] = true
	}
	for id, a := range msg.before.accounts {
		if !ids[id] {
			list = append(list, a.Outage)
		}
	}
	yes := map[bool]int{true: 0, false: 1}
	rank := func(in ledger.Outage) [5]int {
		open := in.Unsettled()
		_, known := msg.before.accounts[in.ID]
		ours := len(msg.Filter.Terms) > 0 && (named(msg.Filter, in) || about(msg.Filter, in))
		growing := open.N > 0 && in.PhaseAt(msg.took) == ledger.PhaseGrowing
		return [5]int{yes[ours], yes[growing], -math.Ilogb(1 + math.Abs(open.Miss)), -math.Ilogb(1 + float64(open.N)), yes[known]}
	}
	ranks := make(map[string][5]int, len(list))
	for _, in := range list {
		ranks[in.ID] = rank(in)
	}
	slices.SortFunc(list, func(a, b ledger.Outage) int {
		x, y := ranks[a.ID], ranks[b.ID]
		return cmp.Or(slices.Compare(x[:], y[:]), b.LastAt.Compare(a.LastAt), cmp.Compare(a.ID, b.ID))
	})
	return list
}
