package reconcile

import (
	"context"
	"errors"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/policy"
	"indoubt/policy/transport"
)

const (
	// listFor is how long a list is kept.
	listFor = 10 * time.Minute
	// maxList is the most bytes of a list that is kept.
	maxList = 8 << 20
)

// lists keeps the newest list of each request. What a ledger may have lost is looked for in one that is the same for
// all of it (I13): read once none of that can land any more, it answers them all.
type lists struct {
	mu   sync.Mutex
	kept map[string]*listing
}

// listing is the newest list of a request. Only who has put something into busy may read another.
type listing struct {
	busy   chan struct{}
	newest *list
}

// list is what a read was answered, page by page.
type list struct {
	began, ended time.Time
	from, to     ledger.Moment
	answers      map[string]ledger.Answer // by the digest of what was asked
	bytes        int
}

func (l *lists) of(key string) *listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == nil || len(l.kept) >= maxControls {
		l.kept = map[string]*listing{}
	}
	if l.kept[key] == nil {
		l.kept[key] = &listing{busy: make(chan struct{}, 1)}
	}
	return l.kept[key]
}

// keep has a list answer for a while.
func (l *lists) keep(key string, is *list) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.kept[key]
	if of == nil {
		return
	}
	of.newest = is
	time.AfterFunc(listFor, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.kept[key] == of && of.newest == is {
			delete(l.kept, key)
		}
	})
}

func (l *lists) newest(of *listing) *list {
	l.mu.Lock()
	defer l.mu.Unlock()
	return of.newest
}

// mayShare reports whether an operation may be looked for in a list that was read for another one, and names that.
func (e *reader) mayShare(k *policy.Kind, rec ledger.Record, digest string) (key string, may bool) {
	if !sentBy(rec, ledger.SenderForgotten) || (policy.Sighted{Kind: k, Record: rec}).Asks() {
		return "", false
	}
	req, err := k.Read.Request(rec, nil)
	if err == nil {
		key, err = req.Sum()
	}
	return k.Name + "\x00" + digest + "\x00" + key, err == nil
}

// seeShared looks for an operation in the newest list, where that tells. Else another is read, once for all who wait.
func (e *reader) seeShared(ctx context.Context, k *policy.Kind, rec *ledger.Record, digest, key string, eager bool) seen {
	in := func(l *list) seen {
		f := e.readBy(ctx, k, *rec, l.ask)
		f.Began, f.Ended, f.from, f.to = l.began, l.ended, l.from, l.to
		return e.judged(ctx, k, rec, digest, f, eager)
	}
	arrived, of := e.moment().Steady.At, e.lists.of(key)
	var tried *list
	for waited := false; ; waited = true {
		if l := e.lists.newest(of); l != tried {
			if s := in(l); s.judgement.Verdict.Tells() || l.from.Steady.At >= arrived {
				return s
			}
			tried = l
		}
		if waited {
			break
		}
		select {
		case of.busy <- struct{}{}:
			defer func() { <-of.busy }()
		case <-ctx.Done():
			return seen{}
		}
	}
	l := &list{answers: map[string]ledger.Answer{}}
	f := e.readBy(ctx, k, *rec, l.keeping(e.ask))
	l.began, l.ended, l.from, l.to = f.Began, f.Ended, f.from, f.to
	if f.Trouble == "" && f.Incomplete == "" && f.Stale == "" && l.bytes <= maxList {
		e.lists.keep(key, l)
	}
	return e.judged(ctx, k, rec, digest, f, eager)
}

// keeping asks, and keeps what it was answered.
func (l *list) keeping(ask asking) asking {
	return func(ctx context.Context, k *policy.Kind, req transport.Request, begun func()) (ledger.Answer, error) {
		answer, err := ask(ctx, k, req, begun)
		sum, unnamed := req.Sum()
		if l.bytes += len(answer.Body) + len(answer.Rows) + len(answer.Stdout); err == nil && unnamed == nil && l.bytes <= maxList {
			l.answers[sum] = answer
		}
		return answer, err
	}
}

// ask answers as the list was answered.
func (l *list) ask(_ context.Context, _ *policy.Kind, req transport.Request, _ func()) (ledger.Answer, error) {
	sum, err := req.Sum()
	answer, known := l.answers[sum]
	if err == nil && !known {
		err = errors.New("the list that was read before has no such page")
	}
	return answer, err
}
