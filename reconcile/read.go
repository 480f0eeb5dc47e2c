package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/policy/transport"
	"indoubt/policy/verdict"
	"indoubt/reconcile/connect"
)

// pageTime is the longest that one request of a check may take.
const pageTime = 30 * time.Second

const (
	// patience is how long a read waits for a downstream that asked for a pause.
	patience = 2 * time.Second
	// maxReason bounds, in bytes, why a read says nothing.
	maxReason = 1 << 10
)

// findings is what one read showed, with what is kept of it.
type findings struct {
	verdict.Findings
	from, to ledger.Moment // Began and Ended by both clocks
	evidence evidence
	request  transport.Request // for the first page
	wait     time.Time         // the downstream wants no request before this
	notThere bool              // the last answer said that there is no such thing
}

// asking makes one request of a check; begun is called when its wait is over.
type asking func(ctx context.Context, k *policy.Kind, req transport.Request, begun func()) (ledger.Answer, error)

// ask asks the downstream, within its limits.
func (e *reader) ask(ctx context.Context, k *policy.Kind, req transport.Request, begun func()) (ledger.Answer, error) {
	d := e.downs.of(k)
	return d.query(ctx, begun, func(ctx context.Context) ledger.Answer { return e.over.Read(ctx, d.http, k, req) })
}

// read requests the pages of one read, to the end or the limit.
func (e *reader) read(ctx context.Context, k *policy.Kind, rec ledger.Record) findings {
	return e.readBy(ctx, k, rec, e.ask)
}

// readBy is read by other means of asking.
func (e *reader) readBy(ctx context.Context, k *policy.Kind, rec ledger.Record, ask asking) findings {
	var f findings
	f.Began, f.from = e.now(), e.moment()
	begun := sync.OnceFunc(func() { f.Began, f.from = e.now(), e.moment() }) // when its wait is over
	var cursor any
	for more := true; more; more = cursor != nil {
		found, stop := e.page(ctx, k, rec, cursor, begun, ask, &f)
		if stop {
			break
		}
		before := len(f.Effects)
		cursor = f.Add(found, e.maxPages)
		for i := range f.Effects[before:] {
			effect := &f.Effects[before+i]
			effect.Receipt = f.evidence.clean.text(effect.Receipt)
			effect.Doubt = f.evidence.clean.text(effect.Doubt)
			f.evidence.effect(*effect)
		}
	}
	f.evidence.Others, f.evidence.Unmarked = f.Others, f.Unmarked
	f.Ended, f.to = e.now(), e.moment()
	return f
}

// page requests one page and judges it. stop ends the read: f.Trouble says why.
func (e *reader) page(ctx context.Context, k *policy.Kind, rec ledger.Record, cursor any, begun func(), ask asking,
	f *findings) (found verdict.Found, stop bool) {
	trouble := func(format string, args ...any) (verdict.Found, bool) {
		f.Trouble = clip(f.evidence.clean.text(fmt.Sprintf(format, args...)), maxReason) // the other side may have written some of it
		return verdict.Found{}, true
	}
	req, err := k.Read.Request(rec, cursor)
	if err == nil {
		err = req.Missing()
	}
	if err != nil {
		if transport.LackedHere(err) { // it may be there the next time
			f.wait, f.Unasked = e.now().Add(muteFor), len(f.evidence.Pages) == 0
		}
		return trouble("no check is possible: %s", err)
	}
	answer, err := ask(ctx, k, req, begun)
	if err != nil {
		var later *waitError
		if errors.As(err, &later) {
			f.wait = later.until
		}
		f.Unasked = len(f.evidence.Pages) == 0
		return trouble("%s", err)
	}
	if len(f.evidence.Pages) == 0 {
		f.request = req
	}
	p := f.evidence.page(k, req, answer)
	if until, wanted := retryAfter(answer, e.now()); wanted {
		f.wait = until
	}
	// What an old answer shows was there; what it does not show may be there now.
	f.Stale = cmp.Or(f.Stale, transport.Stale(answer))
	f.notThere = notThere(answer)
	if found, err = k.Read.JudgePage(ctx, rec, cursor, transport.WithoutAge(answer)); err != nil {
		p.Error, p.Body = clip(f.evidence.clean.text(err.Error()), maxReason), f.evidence.clean.excerpt(p.body)
		return trouble("%s", err)
	}
	p.Found, p.Complete = len(found.Effects), found.Complete
	return found, false
}

// Connections are the ways by which a check asks.
type Connections struct {
	mcp connect.MCP // servers, over one connection each
	sql connect.SQL // databases, by one pool each
}

// Close ends the connections that were kept open for more requests.
func (c *Connections) Close() {
	c.mcp.Close()
	c.sql.Close()
}

// Read makes one request of a check.
func (c *Connections) Read(ctx context.Context, h *connect.HTTP, k *policy.Kind, req transport.Request) (a ledger.Answer) {
	defer func() { a.Err = req.WithholdFrom(a.Err) }()
	limits := transport.Limits{Timeout: pageTime, Max: k.Read.MaxBody}
	switch {
	case req.HTTP != nil:
		q := *req.HTTP
		q.Limits = limits
		return h.Read(ctx, q)
	case req.Command != nil:
		q := *req.Command
		q.Limits = limits
		return connect.Command(ctx, q)
	case req.SQL != nil:
		q := *req.SQL
		q.Limits = limits
		return c.sql.Read(ctx, q)
	case req.MCP != nil:
		q := *req.MCP
		q.Limits = limits
		return c.mcp.Read(ctx, q)
	}
	return ledger.Answer{Err: errors.New("the policy names no way to ask")}
}
