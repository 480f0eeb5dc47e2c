package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"indoubt/ledger"
	"indoubt/policy/expr"
)

// paging is how a read comes from one page to the next.
type paging struct {
	expr   *expr.Expression // the cursor, or the address of the next page
	follow bool             // expr gives an address
	step   int              // counted by us: added to the cursor; 0: not counted
	first  int              // the cursor that stands for the first page
}

// nextLinkExpression is what `next: link` stands for.
const nextLinkExpression = `link("next")`

// next reads `next:`: an expression that gives a cursor, `link`, or a mapping
// that says what else it is.
func (d requestDecoder) next(n *node) *paging {
	p := &paging{}
	switch {
	case n.kind == scalarNode && n.text == "link":
		p.expr, _ = expr.Compile(nextLinkExpression, expr.ForAnswer, expr.Any)
		d.placed(p.expr, n)
	case n.kind != mappingNode:
		if p.expr = d.expression(n, expr.ForAnswer, expr.Any); p.expr == nil {
			return nil
		}
	default:
		d.fields(n,
			field{"url", func(n *node) { p.expr, p.follow = d.expression(n, expr.ForAnswer, expr.Any), true }},
			field{"offset", d.integer(&p.step, 1, 1_000_000)}, // so many entries a page
			field{"page", func(n *node) {
				d.integer(&p.first, 0, 1_000_000)(n) // the number of the first page
				p.step = 1
			}},
		)
		if len(n.entries) != 1 {
			d.fail(n.place, "says one of `url`, `offset` and `page`", "next: link, next: { url: body.next }, next: { offset: 100 } or next: { page: 1 }")
		}
		return p
	}
	p.follow = p.expr.Uses("link")
	return p
}

// finishPaging checks `next` against the request.
func (d checker) finishPaging(r *Read, at place) {
	p, asks := r.next, r.usesCursor()
	switch {
	case p == nil && asks:
		d.fail(at, "the request uses `cursor`, but `next` does not say where it comes from", "next: body.next_cursor")
	case p == nil:
	case p.follow && r.transport.http == nil:
		d.fail(at, "`next` gives an address, and only a read over http can follow one", "use ${cursor} in the request")
	case p.follow && asks:
		d.fail(at, "`next` gives the address of the next page, and the request uses `cursor` too", "leave out ${cursor}")
	case p.follow && r.transport.http.method != "GET":
		d.fail(at, "an address is followed by get only", "use ${cursor} in the request")
	case !p.follow && !asks:
		d.warn(at, "`next` gives a cursor that no request uses, so only the first page is read", "use ${cursor} in the request, for example query: { starting_after: \"${cursor}\" }")
	}
}

// countedIn reports whether a request puts its cursor under a name for counts.
func countedIn(v *expr.Tree) bool {
	if v == nil {
		return false
	}
	for _, e := range v.Entries {
		for _, t := range e.Value.Templates() {
			if t.Uses("cursor") && offsetName(e.Name) {
				return true
			}
		}
	}
	return false
}

// Pages reports whether the read can ask for a following page.
func (r *Read) Pages() bool { return r.next != nil && (r.next.follow || r.usesCursor()) }

// following computes the cursor of the page after the one that cursor asked
// for; nil where there is none. Null, "" and false mean that there is none.
func (r *Read) following(ctx context.Context, vars *variables, cursor any) (any, error) {
	p := r.next
	if p.step != 0 {
		at := float64(p.first)
		if cursor != nil {
			var err error
			if at, err = strconv.ParseFloat(fmt.Sprint(cursor), 64); err != nil {
				return nil, fmt.Errorf("the cursor %v is not a number", cursor)
			}
		}
		return json.Number(expr.FormatNumber(at + float64(p.step))), nil
	}
	v, err := p.expr.Eval(ctx, vars.Names)
	if err != nil {
		return nil, err
	}
	next, err := v.Data()
	if err != nil || next == nil || next == "" || next == false {
		return nil, err
	}
	if !p.follow {
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

// paged tells how a page is asked for by its cursor; "" for the first one.
func (r *Read) paged(cursor any) string {
	switch {
	case cursor == nil || r.next == nil:
		return ""
	case r.next.step != 0:
		return PagedOffset
	case !r.next.follow:
		if r.countsBy(cursor) {
			return PagedOffset
		}
		return PagedCursor
	}
	if u, err := url.Parse(fmt.Sprint(cursor)); err == nil && counted(u.Query()) {
		return PagedOffset
	}
	return PagedLink
}

// offsetNames are parameters that count entries or pages.
var offsetNames = map[string]bool{"page": true, "offset": true, "skip": true, "start": true, "from": true, "startat": true,
	"startindex": true, "pagenumber": true, "pageindex": true, "p": true, "pageno": true}

func offsetName(name string) bool {
	return offsetNames[strings.NewReplacer("_", "", "-", "", "$", "", "[", "", "]", "").Replace(strings.ToLower(name))]
}

// counted reports whether an address asks for its page by a number.
func counted(query url.Values) bool {
	for name, values := range query {
		for _, v := range values {
			if offsetName(name) && wholeNumber(v) {
				return true
			}
		}
	}
	return false
}

func wholeNumber(v any) bool {
	text := fmt.Sprint(v)
	return text != "" && len(text) < 12 && strings.Trim(text, "0123456789") == ""
}

// countsBy reports whether a cursor is an offset or page number: a whole number
// that the request puts where such numbers go, or one that `next` adds up.
func (r *Read) countsBy(cursor any) bool {
	if !wholeNumber(cursor) || r.next.expr.Sums() {
		return wholeNumber(cursor)
	}
	switch t := r.transport; {
	case t.http != nil:
		return countedIn(t.http.query) || countedIn(t.http.json) || countedIn(t.http.form)
	case t.mcp != nil:
		return countedIn(t.mcp.arguments)
	case t.sql != nil:
		return t.sql.counts()
	}
	return false
}

// page renders the request for the page at an address of the answer before. The
// address must be of the same place as the first page's, because the headers go
// there too (I11).
func (r *Read) page(rec ledger.Record, address string) (Request, error) {
	req, err := r.transport.request(r.kind.variables(rec), "", nil)
	if err != nil {
		return Request{}, err
	}
	first, err := url.Parse(req.HTTP.URL)
	if err != nil {
		return Request{}, fmt.Errorf("address: it is not an http address")
	}
	u, err := first.Parse(address)
	switch {
	case err != nil:
		return Request{}, fmt.Errorf("the address of the next page cannot be read")
	case u.Scheme != first.Scheme || !strings.EqualFold(u.Host, first.Host) || u.User != nil:
		return Request{}, fmt.Errorf("the next page is at another host (%s), which is not asked", expr.Shorten(u.Host, 60))
	}
	u.Fragment = ""
	req.HTTP.URL = u.String()
	// The answer's address may repeat a secret of ours, so it is not shown.
	head, rest, _ := strings.Cut(req.Shown, "\n")
	req.Shown = strings.TrimSuffix(head+"  (a following page)\n"+rest, "\n")
	return req, nil
}
