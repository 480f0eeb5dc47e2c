package policy

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"indoubt/ledger"
	"indoubt/policy/expr"
	"indoubt/policy/file"
	"indoubt/policy/transport"
)

// finishPaging checks `next` against the request: where that holds `cursor`, `next` gives
// it; else `next` gives the address of the following page.
func (d decoder) finishPaging(r *Read, at file.Place) {
	asks := r.usesCursor()
	r.follow = r.next != nil && !asks
	http, _ := r.way.(*transport.HTTP)
	switch {
	case r.next == nil && asks:
		d.Fail(at, "the request uses `cursor`, but `next` does not say where it comes from", "next: body.next_cursor")
	case r.next == nil:
	case asks && r.next.Uses("link"):
		d.Fail(at, "`next` gives the address of the next page, and the request uses `cursor` too", "leave out ${cursor}")
	case r.follow && http == nil:
		d.Fail(at, "`next` gives an address, and only a read over http can follow one", "use ${cursor} in the request")
	case r.follow && http.Method != "GET":
		d.Fail(at, "an address is followed by get only", "use ${cursor} in the request")
	}
}

// Pages reports whether the read can ask for a following page.
func (r *Read) Pages() bool { return r.next != nil }

// following computes the cursor of the page after the one that cursor asked
// for; nil where there is none. Null, "" and false mean that there is none.
func (r *Read) following(ctx context.Context, vars *variables, cursor any) (any, error) {
	v, err := r.next.Eval(ctx, vars.Names)
	if err != nil {
		return nil, err
	}
	next, err := v.Data()
	if err != nil || next == nil || next == "" || next == false {
		return nil, err
	}
	if !r.follow {
		return next, nil
	}
	address, text := next.(string)
	if !text {
		return nil, fmt.Errorf("the address of the next page is not text")
	}
	return fromPage(cursor, address), nil
}

// fromPage is an address as it is meant on the page that cursor leads to. What is
// relative to the first page stays so.
func fromPage(cursor any, address string) string {
	at, err := url.Parse(fmt.Sprint(cursor))
	if cursor == nil || err != nil || !strings.HasPrefix(at.Path, "/") {
		return address
	}
	u, err := at.Parse(address)
	if err != nil {
		return address
	}
	return u.String()
}

// page renders the request for the page at an address of the answer before. The
// address must be of the same place as the first page's, because the headers go
// there too (I11).
func (r *Read) page(rec ledger.Record, address string) (transport.Request, error) {
	req, err := r.request(rec, nil)
	if err != nil {
		return transport.Request{}, err
	}
	first, err := url.Parse(req.HTTP.URL)
	if err != nil {
		return transport.Request{}, fmt.Errorf("address: it is not an http address")
	}
	u, err := first.Parse(address)
	switch {
	case err != nil:
		return transport.Request{}, fmt.Errorf("the address of the next page cannot be read")
	case u.Scheme != first.Scheme || !strings.EqualFold(u.Host, first.Host) || u.User != nil:
		return transport.Request{}, fmt.Errorf("the next page is at another host (%s), which is not asked", expr.Shorten(u.Host, 60))
	}
	u.Fragment = ""
	req.HTTP.URL = u.String()
	// The answer's address may repeat a secret of ours, so it is not shown.
	head, rest, _ := strings.Cut(req.Shown, "\n")
	req.Shown = strings.TrimSuffix(head+"  (a following page)\n"+rest, "\n")
	return req, nil
}
