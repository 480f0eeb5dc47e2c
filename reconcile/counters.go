package reconcile

import (
	"maps"
	"sync"

	"indoubt/ledger"
)

// Counters are what an engine has done and seen happen since it was made.
type Counters struct {
	Reads map[ReadCount]uint64 // by kind and verdict
	Sends map[SendCount]uint64 // by kind and outcome
}

// ReadCount names one counter of reads.
type ReadCount struct {
	Kind    string
	Verdict ledger.Verdict
}

// SendCount names one counter of sends.
type SendCount struct {
	Kind    string
	Outcome ledger.Outcome
}

type counting struct {
	mu sync.Mutex
	c  Counters
}

func (c *counting) add(change func(*Counters)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.c.Reads == nil {
		c.c.Reads, c.c.Sends = map[ReadCount]uint64{}, map[SendCount]uint64{}
	}
	change(&c.c)
}

func (c *counting) read(kind string, r ledger.Read) {
	c.add(func(c *Counters) { c.Reads[ReadCount{kind, r.Verdict}]++ })
}

// Counters returns what was counted so far.
func (e *reader) Counters() Counters {
	e.counted.mu.Lock()
	defer e.counted.mu.Unlock()
	c := e.counted.c
	c.Reads, c.Sends = maps.Clone(c.Reads), maps.Clone(c.Sends)
	return c
}
