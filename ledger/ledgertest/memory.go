package ledgertest

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"runtime"
	"slices"
	"sync"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/store"
)

// Memory is a ledger that forgets everything: the tables of ledger/store, in SQLite's memory.
type Memory struct {
	*store.Store
	db store.Database

	mu      sync.Mutex
	related map[string][]ledger.Relation // of what was put, beside those that are found
}

// NewMemory makes an empty one. nil stands for the host's clocks.
func NewMemory(clock ledger.Clock, steady ledger.SteadyClock) *Memory {
	return empty.NewMemory(clock, steady, func(*Memory) {})
}

// Image is what ledgers in memory begin with. Many tests of few contents take less time so.
type Image struct {
	of image

	mu      sync.Mutex
	related map[string][]ledger.Relation
}

var empty Image

// NewMemory makes a ledger that begins with the image, which fill writes if that was not done.
func (i *Image) NewMemory(clock ledger.Clock, steady ledger.SteadyClock, fill func(*Memory)) *Memory {
	m := &Memory{}
	begins := func(db store.Database) {
		m.Store, m.db = store.New(db, Key("0123456789abcdef0123456789abcdef"), ""), db
	}
	db, err := i.of.inMemory(clock, steady, func(db store.Database) error {
		begins(db)
		m.related = map[string][]ledger.Relation{}
		fill(m)
		i.mu.Lock()
		defer i.mu.Unlock()
		i.related = m.related
		return nil
	})
	must(err)
	begins(db)
	i.mu.Lock()
	m.related = maps.Clone(i.related)
	i.mu.Unlock()
	runtime.AddCleanup(m, func(db store.Database) { _ = db.Close() }, db)
	return m
}

// memoryBeside makes one whose digests are those of another ledger.
func memoryBeside(t need.T, s ledger.Store, clock *Clock) *Memory {
	m := NewMemory(clock.Now, clock.Steady)
	m.Store = store.New(m.db, Key(need.Get(s.DigestKey(context.Background()))(t)), "")
	need.Get(m.DigestKey(context.Background()))(t)
	return m
}

// Contents are records, events and holds as a ledger may have them, ready-made.
type Contents struct {
	Records []ledger.Record
	Events  []ledger.Event // their Seq is given by the store
	Holds   []ledger.Hold
}

// Key is a key of digests that lies nowhere.
type Key string

// Path is what stands for its place.
func (Key) Path() string { return "memory" }

// Read gives it.
func (k Key) Read() ([]byte, error) { return []byte(k), nil }

// Make gives it, too.
func (k Key) Make() ([]byte, error) { return []byte(k), nil }

// Put takes contents as they are: a record in place of the one with its id, with its relations
// beside those that the store finds, and the rest at the end. No rule is asked, and from then on
// no guard; of records and holds the history says nothing.
func (m *Memory) Put(c Contents) {
	ctx, seqs := context.Background(), map[string]int64{}
	m.update(func(tx store.Tx) error { return unguard(tx, c.Records, seqs) })
	newest := slices.SortedStableFunc(slices.Values(c.Records), func(a, b ledger.Record) int {
		return a.Operation.UpdatedAt.Compare(b.Operation.UpdatedAt)
	})
	for _, rec := range newest {
		m.put(rec, seqs[rec.Operation.ID])
	}
	for i, h := range c.Holds {
		h.ChangeID = cmp.Or(h.ChangeID, ledger.NewID())
		c.Holds[i] = h
		must(m.Hold(ctx, h))
	}
	m.update(func(tx store.Tx) error {
		for _, h := range c.Holds {
			if _, err := tx.Exec(`UPDATE ev SET verb = 'look' WHERE op = 0 AND id = ?`, h.ChangeID); err != nil {
				return err
			}
		}
		for _, e := range c.Events {
			facts := []byte(`{}`)
			if e.Detail != nil {
				facts = ledger.EncodeJSON(map[string]json.RawMessage{"detail": e.Detail})
			}
			if _, err := tx.Exec(`INSERT INTO ev (op, id, at, verb, actor, machine, reason, before, state, version, conflict, facts)
				VALUES (coalesce((SELECT seq FROM op WHERE id = ?), 0), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, e.OperationID,
				cmp.Or(e.ID, ledger.NewID()), e.At.UnixMilli(), e.Verb, cmp.Or(e.Actor.Name, "?"), e.Actor.Machine, e.Reason,
				string(e.From), string(e.To), e.Version, string(e.Conflict), string(facts)); err != nil {
				return err
			}
		}
		return nil
	})
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (m *Memory) update(change func(store.Tx) error) { must(m.db.Update(context.Background(), change)) }

// rows are the first columns of what a query finds.
func rows[T any](tx store.Tx, query string, args ...any) (out []T, err error) {
	found, err := tx.Query(query, args...)
	if err != nil {
		return nil, err
	}
	for found.Next() && err == nil {
		var one T
		err = found.Scan(&one)
		out = append(out, one)
	}
	return out, cmp.Or(err, found.Err(), found.Close())
}

// unguard has the database take everything, and takes out what records will be in the place of:
// seqs are their numbers.
func unguard(tx store.Tx, recs []ledger.Record, seqs map[string]int64) error {
	guards, err := rows[string](tx, `SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name LIKE '%\_refuse\_%' ESCAPE '\'`)
	for _, name := range guards {
		if err == nil {
			_, err = tx.Exec(`DROP TRIGGER ` + name)
		}
	}
	for _, rec := range recs {
		known, failed := rows[int64](tx, `SELECT seq FROM op WHERE id = ?`, rec.Operation.ID)
		err = cmp.Or(err, failed)
		for _, seq := range known {
			seqs[rec.Operation.ID] = seq
			for _, from := range []string{`ev WHERE op = ?`, `price WHERE op = ?`, `op WHERE seq = ?`} {
				if _, failed := tx.Exec(`DELETE FROM `+from, seq); failed != nil {
					err = failed
				}
			}
		}
	}
	return err
}

// put writes a record down by changes that are no lines of the history, under its number if it had one.
func (m *Memory) put(rec ledger.Record, seq int64) {
	o := rec.Operation
	change := func(c ledger.Change) {
		_, err := m.Store.Change(context.Background(), ledger.Locator{ID: o.ID}, "", func(*ledger.Record) (ledger.Change, error) { return c, nil })
		must(err)
	}
	event := func() *ledger.Event {
		return &ledger.Event{ID: ledger.NewID(), Verb: "look", Actor: ledger.Actor{Name: o.Actor}, Reason: o.Reason}
	}
	born := o
	born.KeyLive = true
	change(ledger.Change{Operation: &born, Insert: true, Attempts: rec.Attempts[:min(1, len(rec.Attempts))], Event: event()})
	for i := 1; i < len(rec.Attempts); i++ {
		change(ledger.Change{Operation: &o, Attempts: rec.Attempts[i : i+1], Event: event()})
	}
	for _, g := range slices.Backward(rec.Allowed) {
		change(ledger.Change{Operation: &o, Allowed: []ledger.Allowed{g}, Event: event()})
	}
	for _, r := range slices.Backward(rec.Reads) {
		change(ledger.Change{Read: &r})
	}
	if p := rec.Pricing; o.State != ledger.Pending || p.Digest != "" {
		p.OperationID, p.Version = o.ID, 0
		must(m.Price(context.Background(), []ledger.Pricing{p}))
	}
	m.update(func(tx store.Tx) error {
		made, err := rows[int64](tx, `SELECT seq FROM op WHERE id = ?`, o.ID)
		for _, is := range made {
			for _, set := range []string{`UPDATE op SET live = ?1, seq = ?2 WHERE seq = ?3`, `UPDATE price SET op = ?2 WHERE op = ?3`,
				`UPDATE ev SET op = ?2, verb = 'look', outcome = coalesce(facts ->> 'outcome', ''), lost_at = coalesce(facts ->> 'lost_at', 0)
					WHERE op = ?3`} {
				if _, failed := tx.Exec(set, o.KeyLive, cmp.Or(seq, is), is); failed != nil {
					err = failed
				}
			}
		}
		return err
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.related[o.ID] = rec.Related
}

// beside adds the relations that were put.
func (m *Memory) beside(rec *ledger.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rec.Related = append(slices.Clone(m.related[rec.Operation.ID]), rec.Related...)
}

func (m *Memory) Read(ctx context.Context, at ledger.Locator) (ledger.Record, error) {
	rec, err := m.Store.Read(ctx, at)
	m.beside(&rec)
	return rec, err
}

func (m *Memory) Records(ctx context.Context, ids []string) ([]ledger.Record, error) {
	return m.besides(m.Store.Records(ctx, ids))
}

func (m *Memory) Kept(ctx context.Context, ids []string) ([]ledger.Record, error) {
	return m.besides(m.Store.Kept(ctx, ids))
}

func (m *Memory) besides(recs []ledger.Record, err error) ([]ledger.Record, error) {
	for i := range recs {
		m.beside(&recs[i])
	}
	return recs, err
}

func (m *Memory) Page(ctx context.Context, q ledger.Query) (ledger.Page, error) {
	page, err := m.Store.Page(ctx, q)
	for i, r := range page.Rows {
		if len(m.related[r.ID]) == 0 || err != nil {
			continue
		}
		var rec ledger.Record
		if rec, err = m.Read(ctx, ledger.Locator{ID: r.ID}); err == nil {
			page.Rows[i] = rec.Row()
			page.Rows[i].Group = rec.Group(r.Group == ledger.GroupRunning)
		}
	}
	return page, err
}
