package drill

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	require []string // fields without which a write is refused
	filter  []string // query parameters of the list, equal to the field of that name
	search  []string // fields the list's `query` is looked for in
	keyed   bool     // remembers idempotency keys
	status  string   // a fresh one's status
	// check refuses a write for a reason of its own; nil never does.
	check func(in fields) (status int, code, message string)
	list  func(items []fields, more bool) fields
}

var (
	charges = &resource{
		name: "payment_intents", prefix: "pi_", require: []string{"amount", "currency", "customer"},
		filter: []string{"customer"}, keyed: true, status: "succeeded", check: declined, list: stripeList,
	}
	payouts = &resource{
		name: "payouts", prefix: "po_", require: []string{"amount", "destination"},
		filter: []string{"destination"}, status: "pending", list: stripeList,
	}
	posts = &resource{
		name: "posts", prefix: "post_", require: []string{"text"}, search: []string{"text", "ref"},
		list: func(items []fields, more bool) fields { return fields{"posts": items, "more": more} },
	}
	mails = &resource{
		name: "mails", prefix: "m_", require: []string{"to", "subject"}, filter: []string{"message_id", "to"}, status: "queued",
		list: func(items []fields, more bool) fields {
			return fields{"messages": items, "total": len(items), "more": more}
		},
	}
	legacyCharges = &resource{name: "legacy_charges", prefix: "", require: []string{"amount", "customer"}}
	deploys       = &resource{
		name: "deploys", prefix: "dep_", require: []string{"service", "version"}, filter: []string{"service", "version"}, status: "live",
		list: func(items []fields, more bool) fields { return fields{"deploys": items, "more": more} },
	}
)

func stripeList(items []fields, more bool) fields {
	return fields{"object": "list", "data": items, "has_more": more}
}

// declined is how a card says no: the answer is known, and nothing happened.
func declined(in fields) (int, string, string) {
	if c, _ := in["customer"].(string); strings.HasPrefix(c, "cus_declined") {
		return http.StatusPaymentRequired, "card_declined", "Your card was declined."
	}
	return 0, "", ""
}

// render is a fresh effect as the downstream shows it.
func (res *resource) render(in fields, id string, created int64) fields {
	out := fields{}
	for name, v := range in {
		out[name] = v
	}
	out["id"], out["created"] = id, created
	if res.status != "" {
		out["status"] = res.status
	}
	if res == charges {
		out["object"] = "payment_intent"
	}
	if res == legacyCharges {
		return fields{"ok": true, "ref": id}
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

// parse reads a write's body.
func parse(raw []byte) (in fields, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	err = decoder.Decode(&in)
	return in, err
}
