package reconcile

import (
	"context"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
)

// besidesFor is how long a list of operations is only added to, before it is
// fetched anew.
const besidesFor = time.Minute

// neighbours remembers which operations may have acted where a kind does, because
// an outage asks for it again and again.
type neighbours struct {
	mu     sync.Mutex
	byKind map[string]*neighbourhood
}

type neighbourhood struct {
	fetched time.Time
	seq     int64 // of the history, as far as it is in the list
	ids     []string
	full    bool // there are more
}

// besides are the newest operations of the kinds whose effects may stand where
// this kind's do, and any that moved lately. full tells that there are more.
func (e *Engine) besides(ctx context.Context, k *policy.Kind, digest string) (ids []string, full bool, err error) {
	e.beside.mu.Lock()
	defer e.beside.mu.Unlock()
	key := k.Name + "\x00" + digest
	n := e.beside.byKind[key]
	if n == nil || time.Since(n.fetched) > besidesFor || len(n.ids) > 4*maxOthers {
		if n, err = e.settleIn(ctx, k); err != nil {
			return nil, false, err
		}
		if e.beside.byKind == nil {
			e.beside.byKind = map[string]*neighbourhood{}
		}
		e.beside.byKind[key] = n
	}
	for { // whoever has begun since
		events, err := e.o.Store.Events(ctx, "", n.seq, batch)
		if err != nil {
			return nil, false, err
		}
		for _, ev := range events {
			n.seq = ev.Seq
			if ev.OperationID != "" && (ev.Verb == "begin" || ev.From == "") {
				n.ids = append(n.ids, ev.OperationID)
			}
		}
		if len(events) < batch {
			return append([]string(nil), n.ids...), n.full, nil
		}
	}
}

func (e *Engine) settleIn(ctx context.Context, k *policy.Kind) (*neighbourhood, error) {
	info, err := e.o.Store.Info(ctx)
	if err != nil {
		return nil, err
	}
	n := &neighbourhood{fetched: time.Now(), seq: info.LastSeq}
	for _, name := range e.kindsBeside(k) {
		q := ledger.Query{Tab: ledger.TabAll, Order: ledger.OrderNewest, Now: e.now(), Limit: maxOthers,
			Filter: ledger.Filter{Terms: []ledger.Term{{Field: "kind", Value: name}}}}
		page, err := e.o.Store.Page(ctx, q)
		if err != nil {
			return nil, err
		}
		n.full = n.full || page.Next != ""
		for _, row := range page.Rows {
			n.ids = append(n.ids, row.ID)
		}
	}
	return n, nil
}

// kindsBeside are this kind and those of the policy that act where it does.
func (e *Engine) kindsBeside(k *policy.Kind) []string {
	names := []string{k.Name}
	for _, name := range e.policy().Kinds() {
		if name != k.Name && name != k.Pattern && e.sameSide(k, name) {
			names = append(names, name)
		}
	}
	return names
}
