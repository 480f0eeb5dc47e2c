package mcpproxy

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"indoubt/ledger"
)

const (
	compareWithin = 5 * time.Second // a look at the ledger is not worth more
	compareWith   = 20              // calls
	maxEvents     = 500
)

// compare finds out whether the server is reached otherwise than at its last
// recorded calls, and says so. A name that has come to stand for something else
// makes two servers one; a command that has come to be another one makes two of one
// server, so that what is in doubt there is not held back here.
func (p *Proxy) compare(ctx context.Context) {
	if p.o.Way == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, compareWithin)
	defer cancel()
	page, err := p.o.Store.Page(ctx, ledger.Query{Tab: ledger.TabAll, Order: ledger.OrderNewest, Limit: compareWith, Now: time.Now(),
		Filter: ledger.Filter{Terms: []ledger.Term{{Field: "kind", Value: kindPrefix + p.o.Server + ".*"}}}})
	if err != nil {
		return // the first call will tell what is wrong with the ledger
	}
	elsewhere := false
	for _, row := range page.Rows {
		rec, err := p.o.Store.Read(ctx, ledger.Locator{ID: row.ID})
		switch {
		case err != nil:
			return
		case rec.Operation.Scope != p.o.Scope:
			elsewhere = true
			continue
		case p.o.Scope == p.o.Way: // it is known
			return
		}
		if way := wayOf(ctx, p.o.Store, rec.Operation.ID); way != "" && way != p.o.Way {
			p.changed("the server " + p.o.Server + " is reached otherwise than at its last call (another command, directory or URL), and counts as the same one: " +
				"if it is another one, give it another --server or --scope")
		}
		return
	}
	if elsewhere {
		p.changed("the server " + p.o.Server + " is another one than at its last calls (another command, directory or URL, or another --scope): " +
			"a call that is in doubt there is not held back here; if it is the same one, give both the same --scope")
	}
}

// wayOf is how the server was reached when the operation was last begun.
func wayOf(ctx context.Context, store ledger.Feed, id string) string {
	events, err := store.History(ctx, ledger.HistoryQuery{Operation: id, Newest: true, Limit: maxEvents})
	if err != nil {
		return ""
	}
	for _, e := range events {
		var facts struct{ Way string }
		if e.Verb == "begin" && json.Unmarshal(e.Detail, &facts) == nil && facts.Way != "" {
			return facts.Way
		}
	}
	return ""
}

// changed tells the log of a change, and keeps it for the calls that come.
func (p *Proxy) changed(words string) {
	p.change.found(words)
	p.o.Log(words)
}

// change is how the server is another one than it was.
type change struct {
	mu    sync.Mutex
	words string // a sentence; "" where nothing has changed
	due   bool   // the next recorded call is to say so
}

func (c *change) found(words string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.words, c.due = words, true
}

// remarkNext is what the next recorded call says of a change; remarked is told that
// one has.
func (c *change) remarkNext() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.due {
		return ""
	}
	return c.words
}

func (c *change) remarked(remark string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = c.due && remark != c.words
}

// note is what the status tool says of a change.
func (c *change) note() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.words == "" {
		return ""
	}
	return "Note: " + c.words + "."
}
