package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
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
	policy.Findings
	from, to ledger.Moment // Began and Ended by both clocks
	evidence evidence
	request  policy.Request // for the first page
	wait     time.Time      // the downstream wants no request before this
	notThere bool           // the last answer said that there is no such thing
}

// read requests the pages of one read, to the end or the limit.
func (e *reader) read(ctx context.Context, k *policy.Kind, rec ledger.Record) findings {
	var f findings
	f.Began, f.from = e.now(), e.moment()
	begun := sync.OnceFunc(func() { f.Began, f.from = e.now(), e.moment() }) // when its wait is over
	var cursor any
	for more := true; more; more = cursor != nil {
		found, stop := e.page(ctx, k, rec, cursor, begun, &f)
		if stop {
			break
		}
		before := len(f.Effects)
		cursor = f.Add(found, e.maxPages)
		for i := range f.Effects[before:] {
			effect := &f.Effects[before+i]
			effect.Receipt, effect.Differs = f.evidence.clean.text(effect.Receipt), f.evidence.clean.text(effect.Differs)
			effect.Doubt = f.evidence.clean.text(effect.Doubt)
			f.evidence.effect(*effect)
		}
	}
	f.evidence.Others, f.evidence.Unmarked = f.Others, f.Unmarked
	f.Ended, f.to = e.now(), e.moment()
	return f
}

// page requests one page and judges it. stop ends the read: f.Trouble says why.
func (e *reader) page(ctx context.Context, k *policy.Kind, rec ledger.Record, cursor any, begun func(), f *findings) (found policy.Found, stop bool) {
	trouble := func(format string, args ...any) (policy.Found, bool) {
		f.Trouble = clip(f.evidence.clean.text(fmt.Sprintf(format, args...)), maxReason) // the other side may have written some of it
		return policy.Found{}, true
	}
	req, err := k.Read.Request(rec, cursor)
	if err == nil {
		err = req.Missing()
	}
	if err != nil {
		if policy.LackedHere(err) { // it may be there the next time
			f.wait, f.Unasked = e.now().Add(muteFor), len(f.evidence.Pages) == 0
		}
		return trouble("no check is possible: %s", err)
	}
	answer, err := e.downs.of(k).query(ctx, begun, func(ctx context.Context) ledger.Answer {
		return e.over.Read(ctx, e.downs.of(k).http, k, req)
	})
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
	if why := unusable(answer); why != "" {
		p.Error = clip(f.evidence.clean.text(why), maxReason)
		if until, wanted := retryAfter(answer, e.now()); wanted {
			f.wait = until
		}
		return trouble("%s", why)
	}
	// What an old answer shows was there; what it does not show may be there now.
	if f.Stale == "" {
		f.Stale = policy.Stale(answer)
	}
	if found, err = e.judge(ctx, k, rec, cursor, answer); err != nil {
		p.Error = clip(f.evidence.clean.text(err.Error()), maxReason)
	}
	f.notThere = notThere(answer)
	if why := unread(answer, found, err); why != "" {
		return trouble("%s", why)
	}
	p.Found, p.Complete = len(found.Effects), found.Complete
	return found, false
}

// judge applies the policy to one page, to as many at once as the downstream has
// judges.
func (e *reader) judge(ctx context.Context, k *policy.Kind, rec ledger.Record, cursor any, answer ledger.Answer) (policy.Found, error) {
	judges := e.downs.of(k).judges
	select {
	case judges <- struct{}{}:
	case <-ctx.Done():
		return policy.Found{}, ctx.Err()
	}
	defer func() { <-judges }()
	return k.Read.JudgePage(ctx, rec, cursor, policy.WithoutAge(answer))
}

// unread says why a page shows nothing; "" when it does.
func unread(answer ledger.Answer, found policy.Found, err error) string {
	switch {
	case (err != nil || !found.Valid) && answer.Status >= 300:
		return fmt.Sprintf("downstream answered %d", answer.Status)
	case err != nil && (errors.As(err, new(*policy.AnswerError)) || errors.Is(err, context.Canceled)):
		return err.Error()
	case err != nil:
		return "the answer cannot be read: " + err.Error()
	case !found.Valid && answer.Exited && answer.Exit != 0:
		return fmt.Sprintf("the check ended with exit code %d", answer.Exit)
	case !found.Valid:
		return "the answer is not what the policy calls valid"
	}
	return ""
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
func (c *Connections) Read(ctx context.Context, h *connect.HTTP, k *policy.Kind, req policy.Request) (a ledger.Answer) {
	defer func() { a.Err = req.WithholdFrom(a.Err) }()
	limits := policy.Limits{Timeout: pageTime, Max: k.Read.MaxBody}
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

// unusable says why no verdict can rest on an answer, whatever the policy says;
// "" when it may be judged.
func unusable(a ledger.Answer) string {
	switch {
	case a.Truncated && a.Via == "mcp":
		return "answer is too long to be read whole"
	case errors.As(a.Err, new(*connect.Mistaken)):
		return fmt.Sprintf("the check cannot be asked like this: %s", a.Err)
	case a.Err != nil && a.Status != 0 && len(a.Body) > 0:
		return fmt.Sprintf("answer broke off after %d bytes: %s", len(a.Body), cmp.Or(string(a.Class), a.Err.Error()))
	case a.Err != nil && a.Class != "" && (a.Class != ledger.ClassEOF || a.Via != "mcp"): // a server that ended says why
		return fmt.Sprintf("the check got no answer: %s%s", a.Class, policy.Complaint(a))
	case a.Err != nil:
		return fmt.Sprintf("the check got no answer: %s", a.Err)
	case a.Truncated && a.Via == "command":
		return "answer is too long to be read whole, or was not ended"
	case a.Truncated:
		return "answer is too long to be read whole"
	case a.Signal != "":
		return "the check was ended by a signal: " + a.Signal
	case a.Status == http.StatusUnauthorized, a.Status == http.StatusForbidden, a.Status == http.StatusProxyAuthRequired,
		a.Status == http.StatusRequestTimeout, a.Status == http.StatusTooManyRequests,
		a.Status >= 300 && a.Status < 400, a.Status >= 500:
		return fmt.Sprintf("downstream answered %d", a.Status)
	}
	return ""
}
