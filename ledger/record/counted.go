package record

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"

	"indoubt/ledger"
)

// Count is how often a recorder met one thing: Answer is what a request was told, or,
// with Outcome, what became of an attempt.
type Count struct {
	Source, Kind, Answer, Outcome string
	N                             uint64
}

// maxCounts bounds how many pairs of a pipeline and a kind are told apart; both are
// texts of callers. The others are counted together, under "other".
const maxCounts = 200

type counting struct {
	mu    sync.Mutex
	pairs map[[2]string]bool
	n     map[Count]uint64
}

func (c *counting) add(source ledger.Source, kind, answer string, outcome ledger.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.pairs, c.n = map[[2]string]bool{}, map[Count]uint64{}
	}
	pair := [2]string{source.Pipeline, kind}
	if !c.pairs[pair] && len(c.pairs) == maxCounts {
		pair = [2]string{"other", "other"}
	} else {
		c.pairs[pair] = true
	}
	c.n[Count{Source: pair[0], Kind: pair[1], Answer: answer, Outcome: string(outcome)}]++
}

// Counts returns what was counted since the recorder was made, in a stable order.
func (r *Recorder) Counts() []Count {
	r.counted.mu.Lock()
	defer r.counted.mu.Unlock()
	out := slices.SortedFunc(maps.Keys(r.counted.n), func(a, b Count) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Answer, b.Answer), strings.Compare(a.Outcome, b.Outcome))
	})
	for i := range out {
		out[i].N = r.counted.n[out[i]]
	}
	return out
}
