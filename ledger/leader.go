package ledger

import (
	"slices"
	"time"
)

// LeadLasts is how long a process that does not come back still leads. With the time between
// two looks, a process that dies is replaced within ten seconds.
const LeadLasts = 7 * time.Second

// Ranks of those who lead. The higher one takes the lead from the lower.
const (
	RankConsole = 1
	RankEngine  = 2
)

// LeadLedger is the scope of what belongs to no downstream: prices, notices, upkeep.
const LeadLedger = "ledger"

// Leader is the one process that checks what is in doubt within a scope, and settles it by
// what it finds. Two that overlap for a moment do no harm: a check is only a read, and what
// it proves is bound to the operation's version.
type Leader struct {
	Scope        string // downstream:NAME, kind:PATTERN of kinds without one, LeadLedger
	Holder       string // ACTOR@HOST/PROCESS/RANDOM
	Rank         int
	Since, Until time.Time // by the ledger's clock; after Until the scope is free
}

// Leaders are all who lead, or led last, in the order of their scopes.
type Leaders struct {
	Now time.Time // by the ledger's clock
	All []Leader
}

// Leads reports whether its time is not over at now. A time further ahead than LeadLasts was
// written before the clock was set back.
func (l Leader) Leads(now time.Time) bool {
	return l.Until.After(now) && !l.Until.After(now.Add(LeadLasts))
}

// TakeLead is the rule of Store.Lead: it returns the rows that change.
func TakeLead(all Leaders, holder string, rank int, scopes []string) (changed []Leader) {
	now := all.Now
	mine := Leader{Holder: holder, Rank: rank, Since: now, Until: now.Add(LeadLasts)}
	known := map[string]bool{}
	for _, l := range all.All {
		known[l.Scope] = true
		next, wanted := l, slices.Contains(scopes, l.Scope)
		switch {
		case wanted && l.Leads(now) && l.Holder == holder:
			next.Rank, next.Until = rank, mine.Until
		case wanted && (!l.Leads(now) || l.Rank < rank):
			next = mine
			next.Scope = l.Scope
		case l.Holder == holder && l.Leads(now), l.Until.After(mine.Until):
			next.Until = now
		}
		if next != l {
			changed = append(changed, next)
		}
	}
	for _, scope := range scopes {
		if !known[scope] {
			known[scope], mine.Scope = true, scope
			changed = append(changed, mine)
		}
	}
	return changed
}
