package drill

import (
	"hash/fnv"
	"net/http"
	"strings"
	"time"
)

// Fault is one way a downstream lets its caller down.
type Fault string

// Faults. The word before "and" says whether the effect of a write is there.
const (
	CommitAndCut  Fault = "commit_and_cut"  // applied, then a TCP reset
	CommitAndHang Fault = "commit_and_hang" // applied, and answered after For, or never
	HangBefore    Fault = "hang_before"     // not applied, and never answered
	Lag           Fault = "lag"             // a list does not show effects younger than For
	Truncate      Fault = "truncate"        // a list shows at most Limit, and there is no way to the rest
)

// Trouble says which requests meet which fault. Every condition that is set
// must hold; the first Trouble that fits a request is the one it meets.
type Trouble struct {
	Fault Fault
	Path  string // prefix
	Match string // found in the query, the body or the idempotency key
	Times int    // so many requests meet it; 0: all
	For   time.Duration
	Limit int // Truncate

	met int // fitting requests so far
}

func (f Fault) ofList() bool { return f == Lag || f == Truncate }

// fits reports whether the request meets the trouble, and counts it.
func (t *Trouble) fits(r *http.Request, body string) bool {
	method := http.MethodPost
	if t.Fault.ofList() {
		method = http.MethodGet
	}
	if r.Method != method || !strings.HasPrefix(r.URL.Path, t.Path) {
		return false
	}
	key := r.Header.Get("Idempotency-Key")
	if t.Match != "" && !strings.Contains(r.URL.RawQuery+"\n"+body+"\n"+key, t.Match) {
		return false
	}
	t.met++
	return t.Times == 0 || t.met <= t.Times
}

// digest mixes the parts into 64 bits. FNV alone leaves neighbours alike, so
// its result is stirred once more (the finalizer of splitmix64).
func digest(seed uint64, parts ...string) uint64 {
	h := fnv.New64a()
	for _, part := range parts {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	x := h.Sum64() + seed*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
