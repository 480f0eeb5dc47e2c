package mcpproxy

import (
	"context"
	"encoding/json"
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
		if way := p.wayOf(ctx, rec.Operation.ID); way != "" && way != p.o.Way {
			p.change("the server " + p.o.Server + " is reached otherwise than at its last call (another command, directory or URL), and counts as the same one: " +
				"if it is another one, give it another --server or --scope")
		}
		return
	}
	if elsewhere {
		p.change("the server " + p.o.Server + " is another one than at its last calls (another command, directory or URL, or another --scope): " +
			"a call that is in doubt there is not held back here; if it is the same one, give both the same --scope")
	}
}

// wayOf is how the server was reached when the operation was last begun.
func (p *Proxy) wayOf(ctx context.Context, id string) (way string) {
	events, err := p.o.Store.Events(ctx, id, 0, maxEvents)
	if err != nil {
		return ""
	}
	for _, e := range events {
		var facts struct{ Way string }
		if e.Verb == "begin" && json.Unmarshal(e.Detail, &facts) == nil && facts.Way != "" {
			way = facts.Way
		}
	}
	return way
}

func (p *Proxy) change(words string) {
	p.mu.Lock()
	p.changed, p.remark = words, true
	p.mu.Unlock()
	p.o.Log(words)
}

// remarkNext is what the next recorded call says of a change; remarked is told that
// one has.
func (p *Proxy) remarkNext() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.remark {
		return ""
	}
	return p.changed
}

func (p *Proxy) remarked(remark string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remark = p.remark && remark != p.changed
}

func (p *Proxy) changedWords() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == "" {
		return ""
	}
	return "Note: " + p.changed + "."
}
