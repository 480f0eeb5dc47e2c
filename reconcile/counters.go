package reconcile

import (
	"maps"
	"sync"
	"time"

	"indoubt/ledger"
)

// Counters are what an engine has done and seen happen since it was made.
type Counters struct {
	Reads map[ReadCount]uint64 // by kind and verdict
	Sends map[SendCount]uint64 // by kind and outcome
	// Doubts are how long operations were in doubt that left it, by the kind as the
	// policy names it; "" for those that it does not name.
	Doubts map[string]Doubt
}

// DoubtBounds are the upper bounds of the times that a Doubt counts.
var DoubtBounds = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 4 * time.Hour, 24 * time.Hour, 72 * time.Hour}

// Doubt is a histogram of times in doubt.
type Doubt struct {
	Within [8]uint64 // of each of DoubtBounds, how many took no longer
	N      uint64
	Sum    time.Duration
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
		c.c.Reads, c.c.Sends, c.c.Doubts = map[ReadCount]uint64{}, map[SendCount]uint64{}, map[string]Doubt{}
	}
	change(&c.c)
}

func (c *counting) read(kind string, r ledger.Read) {
	c.add(func(c *Counters) { c.Reads[ReadCount{kind, r.Verdict}]++ })
}

func (c *counting) doubt(kind string, took time.Duration) {
	c.add(func(c *Counters) {
		d := c.Doubts[kind]
		for i, bound := range DoubtBounds {
			if took <= bound {
				d.Within[i]++
			}
		}
		d.N, d.Sum = d.N+1, d.Sum+took
		c.Doubts[kind] = d
	})
}

// Counters returns what was counted so far.
func (e *reader) Counters() Counters {
	e.counted.mu.Lock()
	defer e.counted.mu.Unlock()
	c := e.counted.c
	c.Reads, c.Sends, c.Doubts = maps.Clone(c.Reads), maps.Clone(c.Sends), maps.Clone(c.Doubts)
	return c
}
