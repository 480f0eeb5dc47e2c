package drill

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"indoubt/ledger/ledgertest/faults"
)

// thing is one effect in the market's own journal. Op says whose it is: the
// reads of a policy never see that.
type thing struct {
	ID, Op        string
	Ref, Key, To  string
	Amount        int
	At, Shown     time.Time // it takes effect, and is in the index
	Note          string    // else it names the ref
	Deleted       bool
	Were          []int // its amounts before it was edited
	Edited, Other bool  // is not, or never was, what was asked
}

// manners are the ways in which a market keeps or breaks what one would expect
// of a search, for as long as it exists.
type manners struct {
	match  string        // of a search by ref or key: exact, folded, prefix, part, word
	off    time.Duration // its clock beside ours
	silent bool          // it shows neither the ref nor the key of what it found
	keys   bool          // it remembers idempotency keys
	deaf   bool          // it does not know the parameters of a search
	reuses bool          // it gives the id of something deleted to something new
	echoes bool          // asked for what it does not have, it answers with the question
}

// market is a downstream with a real socket, a journal that tells the truth, and
// searches of many kinds.
type market struct {
	manners
	*httptest.Server
	now func() time.Time

	mu      sync.Mutex
	things  []*thing
	posts   map[string]int // transmissions, by operation
	lag     time.Duration  // of the index, for the moment
	ails    string         // what is wrong with its answers, for the moment
	ignores bool           // it does not know the parameters of a search, for the moment
	plans   map[string][]string
	onList  func() // what happens while a question is on its way, once
	n       int
	pages   int
	table   *sql.DB // for a policy that asks by SQL
}

// written is how many writes have arrived.
func (d *market) written() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, posts := range d.posts {
		n += posts
	}
	return n
}

func newMarket(now func() time.Time, m manners) *market {
	d := &market{manners: m, ignores: m.deaf, now: now, posts: map[string]int{}, plans: map[string][]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /things", d.write)
	mux.HandleFunc("GET /things", d.list)
	mux.HandleFunc("GET /things/{by}/{value}", d.one)
	d.Server = httptest.NewServer(mux)
	return d
}

// book writes an effect into the journal.
func (d *market) book(t thing, lag time.Duration) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.bookLocked(t, lag)
}

func (d *market) bookLocked(t thing, lag time.Duration) string {
	if t.ID == "" {
		d.n++
		t.ID = fmt.Sprintf("t_%d", d.n)
		if d.reuses {
			for _, old := range d.things {
				if old.Deleted && !strings.HasSuffix(old.Op, "'s") && !slices.ContainsFunc(d.things, func(o *thing) bool { return o.ID == old.ID && !o.Deleted }) {
					t.ID = old.ID
					break
				}
			}
		}
	}
	if t.At.IsZero() {
		t.At = d.now()
	}
	t.Shown = t.At.Add(lag)
	d.things = append(d.things, &t)
	return t.ID
}

// of are the effects of an operation, those still to come included.
func (d *market) of(op string) (made []thing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.things {
		if t.Op == op {
			made = append(made, *t)
		}
	}
	return made
}

// write takes what an engine sends, as was planned for it.
func (d *market) write(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	var in struct {
		Amount       float64
		To, Ref, Key string
	}
	_ = json.Unmarshal(raw, &in)
	op := r.Header.Get("X-Op")
	key := r.Header.Get("Idempotency-Key")
	d.mu.Lock()
	d.posts[op]++
	plan := ""
	if p := d.plans[op]; len(p) > 0 {
		plan, d.plans[op] = p[0], p[1:]
	}
	t := thing{Op: op, Ref: in.Ref, Key: key, To: in.To, Amount: int(in.Amount)}
	id := ""
	if d.keys && key != "" {
		for _, had := range d.things {
			if had.Key == key && had.Op == op {
				id = had.ID
			}
		}
	}
	switch {
	case id != "":
	case plan == "late":
		t.At = d.now().Add(wideLands / 2)
		d.bookLocked(t, 0)
	case plan != "cut":
		id = d.bookLocked(t, 0)
	}
	d.mu.Unlock()
	switch plan {
	case "cut", "late", "commit and cut":
		faults.Cut(w, true)
	case "commit and 502":
		w.WriteHeader(502)
	default:
		w.WriteHeader(201)
		fmt.Fprintf(w, `{"id":%q}`, id)
	}
}

// matches reports whether a search for want finds have.
func (d *market) matches(have, want string) bool {
	switch {
	case have == "":
		return false
	case have == want:
		return true
	}
	switch d.match {
	case "folded":
		return strings.EqualFold(have, want)
	case "prefix":
		return strings.HasPrefix(have, want)
	case "part":
		return strings.Contains(have, want)
	case "word":
		words := func(s string) []string {
			return strings.FieldsFunc(s, func(r rune) bool { return r == '-' || r == ' ' })
		}
		return slices.ContainsFunc(words(have), func(w string) bool { return slices.Contains(words(want), w) })
	}
	return false
}

func (d *market) show(t *thing) map[string]any {
	out := map[string]any{"id": t.ID, "to": t.To, "amount": t.Amount, "ref": t.Ref, "key": t.Key, "created": t.At.Add(d.off).Unix(), "note": t.Note}
	if t.Note == "" {
		out["note"] = "made by <!-- " + t.Ref + " -->"
	}
	if d.silent {
		delete(out, "ref")
		delete(out, "key")
		delete(out, "note")
	}
	return out
}

// echo is the question as an answer, where nothing is there.
func (d *market) echo(q url.Values) []*thing {
	if !d.echoes || !q.Has("ref") && !q.Has("key") && !q.Has("to") {
		return nil
	}
	return []*thing{{ID: "echo", Ref: q.Get("ref"), Key: q.Get("key"), To: q.Get("to"), At: d.now().Add(time.Hour)}}
}

// visible is what a question shows, newest last.
func (d *market) visible(q url.Values) (out []*thing) {
	now := d.now()
	for _, t := range d.things {
		if t.Deleted || t.At.After(now) || t.Shown.After(now) || now.Sub(t.At) < d.lag {
			continue
		}
		if since, _ := strconv.ParseInt(q.Get("since"), 10, 64); since > t.At.Add(d.off).Unix() {
			continue
		}
		if !d.ignores && (q.Has("ref") && !d.matches(t.Ref, q.Get("ref")) || q.Has("key") && !d.matches(t.Key, q.Get("key"))) {
			continue
		}
		if q.Has("to") && t.To != q.Get("to") {
			continue
		}
		out = append(out, t)
	}
	return out
}

func (d *market) meanwhile() {
	d.mu.Lock()
	do := d.onList
	d.onList = nil
	d.mu.Unlock()
	if do != nil {
		do()
	}
}

// ill answers wrongly if that is how it is with the market.
func (d *market) ill(w http.ResponseWriter) bool {
	switch d.ails {
	case "":
		return false
	case "cut":
		faults.Cut(w, true)
	case "empty":
		fmt.Fprint(w, `{"object":"list","data":[],"more":false}`)
	case "html":
		fmt.Fprint(w, `<html>Sign in</html>`)
	case "truncated":
		fmt.Fprint(w, `{"object":"list","data":[{"id":"t_`)
	case "twice":
		fmt.Fprint(w, `{"object":"list","data":[{"id":"t_1","ref":"x","amount":1,"to":"y"}],"data":[],"more":false}`)
	case "cached":
		w.Header().Set("Age", "30")
		fmt.Fprint(w, `{"object":"list","data":[],"more":false}`)
	default:
		status, _ := strconv.Atoi(d.ails)
		w.WriteHeader(status)
	}
	return true
}

func (d *market) list(w http.ResponseWriter, r *http.Request) {
	d.meanwhile()
	d.mu.Lock()
	defer d.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if d.ill(w) {
		return
	}
	q := r.URL.Query()
	all := d.visible(q)
	if len(all) == 0 {
		all = d.echo(q)
	}
	limit, from := 1000, 0
	if n, _ := strconv.Atoi(q.Get("limit")); n > 0 {
		limit = n
	}
	if after := q.Get("after"); after != "" {
		from = len(all)
		for i, t := range all {
			if t.ID == after {
				from = i + 1
			}
		}
	} else {
		from, _ = strconv.Atoi(q.Get("offset"))
	}
	from = min(from, len(all))
	page := all[from:min(from+limit, len(all))]
	more := from+len(page) < len(all)
	data := []map[string]any{}
	for _, t := range page {
		data = append(data, d.show(t))
	}
	if more {
		next := r.URL.Query()
		next.Set("after", page[len(page)-1].ID)
		w.Header().Set("Link", fmt.Sprintf(`<%s/things?%s>; rel="next"`, d.URL, next.Encode()))
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": data, "more": more, "offset": from})
}

// one is an exact lookup: 404 where there is none.
func (d *market) one(w http.ResponseWriter, r *http.Request) {
	d.meanwhile()
	d.mu.Lock()
	defer d.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if d.ill(w) {
		return
	}
	asked := url.Values{r.PathValue("by"): {r.PathValue("value")}}
	found := d.visible(asked)
	if len(found) == 0 {
		found = d.echo(asked)
	}
	if len(found) == 0 {
		w.WriteHeader(404)
		fmt.Fprint(w, `{"object":"error"}`)
		return
	}
	out := d.show(found[0])
	out["object"] = "thing"
	_ = json.NewEncoder(w).Encode(out)
}
