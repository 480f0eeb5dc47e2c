package drill

import (
	"cmp"
	"context"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
)

// Downstream is an outside system to write to: a real HTTP server on loopback
// with its own database, that takes cards, posts, mails, payouts and deploys,
// and lets its callers down as its troubles say.
//
//	POST GET /v1/payment_intents   remembers Idempotency-Key, lists by customer, time and cursor
//	POST GET /v1/payouts           no key; lists by destination and time
//	POST /posts   GET /posts/search?query=
//	POST /send    GET /messages?message_id=
//	POST GET /deploys              lists by service and version
//	POST /legacy/charge            no key, no list
//
// The bearer token names the account: another one sees none of its effects.
type Downstream struct {
	DownstreamOptions
	addr string
	*books

	mu       sync.Mutex
	server   *http.Server
	troubles []*Trouble
	hung     int // requests left hanging so far

	writing sync.Mutex // one write at a time, so that receipts follow the order of effects
	gone    context.Context
	leave   context.CancelFunc
}

// DownstreamOptions say where a downstream keeps its books and how it behaves.
type DownstreamOptions struct {
	Path  string // the file of its books
	Seed  uint64
	Clock ledger.Clock // time.Now when nil
	Way   Way          // to it; nil: nothing is in it
}

// Way is what tests put in the way of requests.
type Way interface {
	Around(next http.Handler) http.Handler
	Hides(r *http.Request, at time.Time) bool // a list leaves out what was made then
	Later(r *http.Request) time.Duration      // than it was asked for, the effect comes
}

// clearWay has nothing in it.
type clearWay struct{}

func (clearWay) Around(next http.Handler) http.Handler   { return next }
func (clearWay) Hides(_ *http.Request, _ time.Time) bool { return false }
func (clearWay) Later(_ *http.Request) time.Duration     { return 0 }

// StartDownstream serves until Close.
func StartDownstream(o DownstreamOptions) (*Downstream, error) {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	o.Way = cmp.Or[Way](o.Way, clearWay{})
	b, err := openBooks(o.Path)
	if err != nil {
		return nil, err
	}
	d := &Downstream{DownstreamOptions: o, books: b, addr: "127.0.0.1:0"}
	if err := d.Start(); err != nil {
		b.close()
		return nil, err
	}
	return d, nil
}

// Start listens, on the address it had before if there was one.
func (d *Downstream) Start() error {
	listener, err := net.Listen("tcp", d.addr)
	if err != nil {
		return fmt.Errorf("starting the downstream: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addr = listener.Addr().String()
	d.gone, d.leave = context.WithCancel(context.Background())
	d.server = &http.Server{Handler: d.Way.Around(d.routes()), ReadHeaderTimeout: 10 * time.Second, ErrorLog: nil}
	go d.server.Serve(listener)
	return nil
}

// Stop refuses and cuts every connection; the books stay.
func (d *Downstream) Stop() {
	d.mu.Lock()
	server, leave := d.server, d.leave
	d.server = nil
	d.mu.Unlock()
	if server != nil {
		leave()
		server.Close()
	}
}

// Close stops the server and closes its books.
func (d *Downstream) Close() error {
	d.Stop()
	d.writing.Lock()
	defer d.writing.Unlock()
	return d.books.close()
}

// URL is the base of every path.
func (d *Downstream) URL() string { return "http://" + d.addr }

// Meet puts troubles in the way of later requests, after those already there.
func (d *Downstream) Meet(troubles ...Trouble) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range troubles {
		d.troubles = append(d.troubles, &troubles[i])
	}
}

// Recover ends every trouble.
func (d *Downstream) Recover() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.troubles = nil
}

func (d *Downstream) routes() http.Handler {
	mux := http.NewServeMux()
	for _, res := range resources {
		mux.HandleFunc("POST "+res.path, func(w http.ResponseWriter, r *http.Request) { d.write(w, r, res) })
		if res.lists != "" {
			mux.HandleFunc("GET "+res.lists, func(w http.ResponseWriter, r *http.Request) { d.read(w, r, res) })
		}
	}
	return mux
}

// Hung is how many requests were left hanging so far, those that are over
// included. Their effect, if any, is in the books.
func (d *Downstream) Hung() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hung
}

// meet finds the trouble of a request, the zero Trouble when it has none.
func (d *Downstream) meet(r *http.Request, body string) Trouble {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.troubles {
		if t.fits(r, body) {
			return *t
		}
	}
	return Trouble{}
}

// receipt is the id of a new effect: short, and the same for the same seed and
// the same request, however others come in between.
func (d *Downstream) receipt(res *resource, in fields) string {
	for i := 0; ; i++ {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], digest(d.Seed, res.name, string(encode(in)), fmt.Sprint(i)))
		if id := res.prefix + strings.ToLower(base32.HexEncoding.EncodeToString(b[:])[:8]); !d.taken(id) {
			return id
		}
	}
}

// hang waits so long, or without end, unless the caller goes or the server stops.
func (d *Downstream) hang(ctx context.Context, long time.Duration) (answered bool) {
	d.mu.Lock()
	gone := d.gone
	d.hung++
	d.mu.Unlock()
	var over <-chan time.Time
	if long > 0 {
		over = time.After(long)
	}
	select {
	case <-over:
		return true
	case <-ctx.Done():
	case <-gone.Done():
	}
	return false
}

// cut drops the connection with a reset.
func cut(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Errorf("an answer of the downstream cannot be written as JSON: %w", err))
	}
	return b
}

func problem(code, message string) []byte {
	return encode(fields{"error": fields{"code": code, "message": message}})
}

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
