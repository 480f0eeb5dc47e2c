package drill

import (
	"hash/fnv"
	"net/http"
	"strings"
	"time"
)

// Fault is one way a downstream lets its caller down.
type Fault string

// Faults of writes. The word before "and" says whether the effect is there.
const (
	CommitAndCut      Fault = "commit_and_cut"       // applied, then a TCP reset
	CommitAndClose    Fault = "commit_and_close"     // applied, then the connection is closed without an answer
	CommitAndHang     Fault = "commit_and_hang"      // applied, the answer comes after For, or never
	CommitAndHalf     Fault = "commit_and_half"      // applied, the answer breaks off in the middle of its body
	CommitAndGateway  Fault = "commit_and_502"       // applied, a gateway in front answers 502
	CommitAndError    Fault = "commit_and_500"       // applied, answered 500, and the key remembers that 500
	CutBefore         Fault = "cut_before"           // not applied, a TCP reset
	CloseBefore       Fault = "close_before"         // not applied, the connection is closed without an answer
	HangBefore        Fault = "hang_before"          // not applied before For has passed, or never
	Refuse            Fault = "refuse"               // not applied, answered with Status
	CommitAndVanish   Fault = "commit_and_vanish"    // applied, then a reset, and the listener is gone
	CommitTwiceAndCut Fault = "commit_twice_and_cut" // applied two times, then a TCP reset
	CommitLaterAndCut Fault = "commit_later_and_cut" // a TCP reset, and applied when For has passed by the downstream's clock
)

// Faults of lists.
const (
	Lag       Fault = "lag"        // effects younger than For are not shown
	Rename    Fault = "rename"     // the field From is called To
	Truncate  Fault = "truncate"   // at most Limit are shown, and there is no way to the rest
	Stale     Fault = "stale"      // the answer comes from a cache that holds nothing yet
	HangList  Fault = "hang_list"  // no answer before For has passed, or never
	BreakList Fault = "break_list" // answered with Status, and with Answer where one is given
	CutList   Fault = "cut_list"   // no answer: a TCP reset
	Forget    Fault = "forget"     // effects older than For are not shown any more
	Foreign   Fault = "foreign"    // another account's list
)

// Trouble says which requests meet which fault. Every condition that is set
// must hold; the first Trouble that fits a request is the one it meets.
type Trouble struct {
	Fault Fault
	Path  string // prefix
	Match string // found in the query, the body or the idempotency key
	Skip  int    // let this many fitting requests pass first
	Times int    // then meet this many; 0: all
	// Rate is the share of requests that meet it, 0 for all. Which ones is
	// decided by the seed and the request itself, never by chance or order.
	Rate float64

	For      time.Duration
	Status   int
	Answer   string // body of Refuse and BreakList; a plain error object when empty
	FromName string // Rename
	To       string // Rename
	Limit    int    // Truncate

	met int // fitting requests so far
}

func (f Fault) ofList() bool {
	switch f {
	case Lag, Rename, Truncate, Stale, HangList, BreakList, CutList, Forget, Foreign:
		return true
	}
	return false
}

func (f Fault) commits() bool { return strings.HasPrefix(string(f), "commit_") }

// cuts reports whether the caller gets no answer at all.
func (f Fault) cuts() bool {
	switch f {
	case CommitAndCut, CommitAndClose, CutBefore, CloseBefore, CommitAndVanish, CommitTwiceAndCut, CommitLaterAndCut:
		return true
	}
	return false
}

// fits reports whether the request meets the trouble, and counts it.
func (t *Trouble) fits(seed uint64, r *http.Request, body string) bool {
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
	if t.Rate > 0 && share(seed, r.Method, r.URL.Path, r.URL.RawQuery, key, body) >= t.Rate {
		return false
	}
	t.met++
	return t.met > t.Skip && (t.Times == 0 || t.met <= t.Skip+t.Times)
}

// share maps the parts to a number in [0,1) that depends on nothing else.
func share(seed uint64, parts ...string) float64 {
	return float64(digest(seed, parts...)>>11) / (1 << 53)
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
