package drill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// fields is a JSON object.
type fields map[string]any

// resource is one thing the downstream can make: how it is asked for, what it
// looks like, and how it is listed.
type resource struct {
	name    string
	prefix  string   // of receipts
	path    string   // where it is written
	lists   string   // where it is listed; "" for nowhere
	items   string   // the member of a list that holds them
	require []string // fields without which a write is refused
	filter  []string // query parameters of the list, equal to the field of that name
	search  []string // fields the list's `query` is looked for in
	keyed   bool     // remembers idempotency keys
	status  string   // a fresh one's status
	bare    bool     // a write is answered with the receipt alone
}

// resources are all of them, by the kind that the policy makes of their writes.
var resources = map[string]*resource{
	"stripe.charge": {
		name: "payment_intents", prefix: "pi_", path: "/v1/payment_intents", lists: "/v1/payment_intents", items: "data",
		require: []string{"amount", "currency", "customer"}, filter: []string{"customer"}, keyed: true, status: "succeeded",
	},
	"bank.payout": {
		name: "payouts", prefix: "po_", path: "/v1/payouts", lists: "/v1/payouts", items: "data",
		require: []string{"amount", "destination"}, filter: []string{"destination"}, status: "pending",
	},
	"x.post": {
		name: "posts", prefix: "post_", path: "/posts", lists: "/posts/search", items: "posts",
		require: []string{"text"}, search: []string{"text", "ref"},
	},
	"mail.send": {
		name: "mails", prefix: "m_", path: "/send", lists: "/messages", items: "messages",
		require: []string{"to", "subject"}, filter: []string{"message_id", "to"}, status: "queued",
	},
	"legacy.charge": {name: "legacy_charges", path: "/legacy/charge", require: []string{"amount", "customer"}, bare: true},
	"deploy": {
		name: "deploys", prefix: "dep_", path: "/deploys", lists: "/deploys", items: "deploys",
		require: []string{"service", "version"}, filter: []string{"service", "version"}, status: "live",
	},
}

// render is a fresh effect as the downstream shows it.
func (res *resource) render(in fields, id string, created int64) fields {
	out := maps.Clone(in)
	out["id"], out["created"] = id, created
	if res.status != "" {
		out["status"] = res.status
	}
	return out
}

// matches reports whether an item belongs to what the list was asked for.
func (res *resource) matches(item fields, query url.Values) bool {
	for _, name := range res.filter {
		if want := query.Get(name); want != "" && fmt.Sprint(item[name]) != want {
			return false
		}
	}
	want := query.Get("query")
	return want == "" || slices.ContainsFunc(res.search, func(name string) bool {
		text, _ := item[name].(string)
		return strings.Contains(text, want)
	})
}

// since is from when on the list shows effects.
func since(query url.Values) time.Time {
	at, _ := strconv.ParseInt(query.Get("created[gte]"), 10, 64)
	return time.Unix(at, 0)
}

// page cuts one page out of all that fits, newest first, after a cursor.
func (res *resource) page(all []fields, query url.Values) (page []fields, more bool, err error) {
	limit := 10
	if text := query.Get("limit"); text != "" {
		limit, err = strconv.Atoi(text)
		if err != nil || limit < 1 || limit > 100 {
			return nil, false, fmt.Errorf("limit must be between 1 and 100")
		}
	}
	page = []fields{}
	after := query.Get("starting_after")
	if after != "" && !slices.ContainsFunc(all, func(item fields) bool { return item["id"] == after }) {
		return nil, false, fmt.Errorf("no such %s: %q", res.name, after)
	}
	for _, item := range all {
		if after != "" {
			if item["id"] == after {
				after = ""
			}
			continue
		}
		if !res.matches(item, query) {
			continue
		}
		if len(page) == limit {
			return page, true, nil
		}
		page = append(page, item)
	}
	return page, false, nil
}

func parse(raw []byte) (in fields, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	err = decoder.Decode(&in)
	return in, err
}

// patience is how long a write may wait for those before it.
const patience = time.Second

func account(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// write makes an effect, or lets the caller down in the way its trouble says.
func (d *Downstream) write(w http.ResponseWriter, r *http.Request, res *resource) {
	by := time.Now().Add(patience)
	raw, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return // cut before its end: no request has arrived
	}
	in, err := parse(raw)
	if err != nil {
		say(w, http.StatusBadRequest, problem("unreadable", err.Error()))
		return
	}
	t := d.meet(r, string(raw))
	if t.Fault == HangBefore {
		d.hang(r.Context(), 0)
		return
	}
	if status, body := res.refuses(in); status != 0 {
		say(w, status, body)
		return
	}
	key := ""
	if sent := r.Header.Get("Idempotency-Key"); res.keyed && sent != "" {
		key = account(r) + "\x00" + res.name + "\x00" + sent
	}
	body, again, err := d.make(account(r), key, res, in, d.Way.Later(r), by)
	switch {
	case errors.Is(err, errBusy):
		say(w, http.StatusServiceUnavailable, problem("busy", err.Error()))
		return
	case err != nil:
		say(w, http.StatusInternalServerError, problem("books", err.Error()))
		return
	case t.Fault == CommitAndHang && !d.hang(r.Context(), t.For):
		return
	case t.Fault == CommitAndCut:
		cut(w)
		return
	case again:
		w.Header().Set("Idempotent-Replayed", "true")
	}
	say(w, http.StatusOK, body)
}

// make commits the effect, which comes so much later, and says how it looks. again reports
// that the key had made it before. Nothing is made after by: errBusy.
func (d *Downstream) make(
	account, key string, res *resource, in fields, later time.Duration, by time.Time,
) (body []byte, again bool, err error) {
	d.writing.Lock()
	defer d.writing.Unlock()
	if body, again = d.remembered(key); again {
		return body, true, nil
	}
	effect := Effect{Resource: res.name, ID: d.receipt(res, in), Account: account, At: d.Clock().Add(later)}
	body = encode(res.render(in, effect.ID, effect.At.Unix()))
	if effect.Body = body; res.bare {
		body, effect.Body = encode(fields{"ok": true, "ref": effect.ID}), encode(in)
	}
	return body, false, d.commit(entry{effect, key}, by)
}

// read lists effects of the caller's account.
func (d *Downstream) read(w http.ResponseWriter, r *http.Request, res *resource) {
	t, query, now, all := d.meet(r, ""), r.URL.Query(), d.Clock(), []fields{}
	if t.Fault == Truncate && query.Get("starting_after") != "" {
		say(w, http.StatusBadRequest, problem("too_many", "This list cannot be followed any further."))
		return
	}
	for _, e := range d.made(res) {
		age := now.Sub(e.At)
		if e.Account == account(r) && !e.At.Before(since(query)) && age >= 0 && (t.Fault != Lag || age >= t.For) && !d.Way.Hides(r, e.At) {
			all = append(all, e.item)
		}
	}
	page, more, err := res.page(all, query)
	if err != nil {
		say(w, http.StatusBadRequest, problem("bad_query", err.Error()))
		return
	}
	if t.Fault == Truncate && len(page) >= t.Limit {
		page, more = page[:t.Limit], true
	}
	say(w, http.StatusOK, encode(fields{"object": "list", res.items: page, "has_more": more}))
}

// refuses says no to a write that lacks something.
func (res *resource) refuses(in fields) (status int, body []byte) {
	for _, name := range res.require {
		if v, ok := in[name]; !ok || v == "" {
			return http.StatusBadRequest, problem("parameter_missing", "Missing: "+name)
		}
	}
	if c, _ := in["customer"].(string); strings.HasPrefix(c, "cus_declined") { // the answer is known, and nothing happened
		return http.StatusPaymentRequired, problem("card_declined", "Your card was declined.")
	}
	return 0, nil
}

// say answers.
func say(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	w.WriteHeader(status)
	w.Write(body)
}
