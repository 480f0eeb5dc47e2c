package drill

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
)

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
	body, again, err := d.make(account(r), key, res, in, d.later(r), by)
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
		if e.Account == account(r) && !e.At.Before(since(query)) && age >= 0 && (t.Fault != Lag || age >= t.For) && !d.hides(r, e.At) {
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
	if w.Header().Get("Content-Type") == "" {
		kind := "application/json"
		if strings.HasPrefix(string(body), "<") {
			kind = "text/html"
		}
		w.Header().Set("Content-Type", kind)
	}
	w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	w.WriteHeader(status)
	w.Write(body)
}
