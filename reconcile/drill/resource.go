package drill

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
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

// parse reads a write's body.
func parse(raw []byte) (in fields, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	err = decoder.Decode(&in)
	return in, err
}
