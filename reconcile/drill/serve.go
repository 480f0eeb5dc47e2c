package drill

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func account(r *http.Request) string {
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
}

// write makes an effect, or lets the caller down in the way its trouble says.
func (d *Downstream) write(w http.ResponseWriter, r *http.Request, res *resource) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		return // cut before its end: no request has arrived
	}
	in, err := parse(raw)
	seen := d.arrive(r, string(raw))
	if err != nil {
		say(w, http.StatusBadRequest, problem("unreadable", err.Error()))
		return
	}

	release, key := func() {}, ""
	if res.keyed && seen.Key != "" {
		key = account(r) + "\x00" + res.name + "\x00" + seen.Key
		if !d.enter(key) {
			say(w, http.StatusConflict, problem("idempotency_key_in_use", "Another request with this key is still being worked on."))
			return
		}
		release = func() { d.leaveKey(key) }
		defer release()
		if ans, known := d.remembered(key, d.clock().Add(-d.remembers)); known {
			replay(w, ans, in)
			return
		}
	}

	t := d.meet(r, seen)
	if t.Fault == HangBefore && !d.wait(r.Context(), t.For) {
		return
	}
	if t.Fault == Refuse {
		say(w, t.Status, refusal(t))
		return
	}
	if status, body := res.refuses(in); status != 0 {
		say(w, status, body)
		return
	}
	body := []byte(nil)
	if t.Fault == "" || t.Fault == HangBefore || t.Fault.commits() {
		body, err = d.make(account(r), key, res, in, t)
		if err != nil {
			say(w, http.StatusInternalServerError, problem("books", err.Error()))
			return
		}
	}
	if t.Fault == CommitAndHang && !d.wait(r.Context(), t.For) {
		return
	}
	release() // before the caller can know that it is over
	d.end(w, res, t, body)
}

// end answers a write whose effect is settled, or does not.
func (d *Downstream) end(w http.ResponseWriter, res *resource, t Trouble, body []byte) {
	switch {
	case t.Fault == CommitAndVanish:
		cut(w, true)
		go d.Stop()
	case t.Fault.cuts():
		cut(w, t.Fault != CommitAndClose && t.Fault != CloseBefore)
	case t.Fault == CommitAndGateway:
		say(w, http.StatusBadGateway, []byte("<html><h1>502 Bad Gateway</h1></html>"))
	case t.Fault == CommitAndError:
		say(w, http.StatusInternalServerError, body)
	case t.Fault == CommitAndHalf:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(res.success())
		w.Write(body[:len(body)/2])
		http.NewResponseController(w).Flush()
		cut(w, false)
	default:
		say(w, res.success(), body)
	}
}

// make commits the effect and says how it looks.
func (d *Downstream) make(account, key string, res *resource, in fields, t Trouble) (body []byte, err error) {
	d.writing.Lock()
	defer d.writing.Unlock()
	times := 1
	if t.Fault == CommitTwiceAndCut {
		times = 2
	}
	var made []Effect
	now := d.clock()
	if t.Fault == CommitLaterAndCut {
		now = now.Add(t.For)
	}
	for i := range times {
		id := d.receipt(res, in, i)
		shown := encode(res.render(in, id, now.Unix()))
		kept := shown
		if res == legacyCharges {
			kept = encode(in)
		}
		made = append(made, Effect{Resource: res.name, ID: id, Account: account, Body: kept, At: now})
		if i == 0 {
			body = shown
		}
	}
	ans := answer{Digest: digestOf(in), Status: res.success(), Body: body, At: now}
	if t.Fault == CommitAndError {
		body = problem("internal", "Something went wrong on our end.")
		ans.Status, ans.Body = http.StatusInternalServerError, body
	}
	return body, d.commit(entry{Effects: made, Key: key, Answer: ans})
}

// replay answers a request whose key is remembered as it was answered before.
func replay(w http.ResponseWriter, ans answer, in fields) {
	if ans.Digest != digestOf(in) {
		say(w, http.StatusBadRequest, problem("idempotency_error", "This key was used with other parameters."))
		return
	}
	w.Header().Set("Idempotent-Replayed", "true")
	say(w, ans.Status, ans.Body)
}

// shown are the effects of an account that a list shows at now, as the trouble has it.
func (t Trouble) shown(effects []Effect, account string, since, now time.Time) []fields {
	all := []fields{}
	for _, e := range effects {
		age := now.Sub(e.At)
		if e.Account != account || e.At.Before(since) || age < 0 || t.Fault == Lag && age < t.For || t.Fault == Forget && age > t.For {
			continue
		}
		item := e.item
		if v, ok := item[t.FromName]; ok && t.Fault == Rename {
			item = maps.Clone(item)
			delete(item, t.FromName)
			item[t.To] = v
		}
		all = append(all, item)
	}
	return all
}

// read lists effects of the caller's account.
func (d *Downstream) read(w http.ResponseWriter, r *http.Request, res *resource) {
	seen := d.arrive(r, "")
	t := d.meet(r, seen)
	switch t.Fault {
	case HangList:
		if !d.wait(r.Context(), t.For) {
			return
		}
	case BreakList:
		say(w, t.Status, refusal(t))
		return
	case CutList:
		cut(w, true)
		return
	case Stale:
		w.Header().Set("Age", "30")
		say(w, http.StatusOK, encode(res.list([]fields{}, false)))
		return
	}
	whose := account(r)
	if t.Fault == Foreign {
		whose = "another account than " + whose
	}
	query := r.URL.Query()
	all := t.shown(d.made(res), whose, since(query), d.clock())
	if t.Fault == Truncate && query.Get("starting_after") != "" {
		say(w, http.StatusBadRequest, problem("too_many", "This list cannot be followed any further."))
		return
	}
	page, more, err := res.page(all, query)
	if err != nil {
		say(w, http.StatusBadRequest, problem("bad_query", err.Error()))
		return
	}
	if t.Fault == Truncate && len(page) >= t.Limit {
		page, more = page[:t.Limit], true
	}
	say(w, http.StatusOK, encode(res.list(page, more)))
}

func (d *Downstream) enter(key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy[key] {
		return false
	}
	d.busy[key] = true
	return true
}

func (d *Downstream) leaveKey(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.busy, key)
}

// refuses says no to a write that lacks something.
func (res *resource) refuses(in fields) (status int, body []byte) {
	for _, name := range res.require {
		if v, ok := in[name]; !ok || v == "" {
			return http.StatusBadRequest, problem("parameter_missing", "Missing: "+name)
		}
	}
	if res.check == nil {
		return 0, nil
	}
	status, code, message := res.check(in)
	if status == 0 {
		return 0, nil
	}
	return status, problem(code, message)
}

func (res *resource) success() int {
	if res == charges || res == legacyCharges {
		return http.StatusOK
	}
	return http.StatusCreated
}

func refusal(t Trouble) []byte {
	if t.Answer != "" {
		return []byte(t.Answer)
	}
	return problem("refused", http.StatusText(t.Status))
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

// digestOf tells requests apart by their parameters.
func digestOf(in fields) string {
	sum := sha256.Sum256(encode(in))
	return hex.EncodeToString(sum[:])
}
