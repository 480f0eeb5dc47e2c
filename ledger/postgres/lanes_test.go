package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
	"indoubt/ledger/tables"
)

// begins begins an operation with a key.
func begins(ctx context.Context, s *Store, key string) error {
	_, err := ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "k", Key: key,
		Sender: "pipeline", Deadline: time.Minute, Actor: ledger.Actor{Name: "bench", Machine: true}})
	return err
}

// crowd begins several operations at once, while a lane waits for a lock, and returns
// their errors.
func crowd(t *testing.T, s *Store, keys ...string) []error {
	t.Helper()
	s.lanes.most, s.lanes.longest = 1, time.Minute
	defer func() { s.lanes.longest = longWait }()
	other := need.Get(s.pool.Load().Acquire(ctx))(t)
	defer other.Release()
	need.Get(other.Exec(ctx, `SELECT pg_advisory_lock(`+strings.ReplaceAll(nameKey, "?", "$1")+`)`, tables.KeyName("", keys[0])))(t)
	errs := make([]error, len(keys))
	var all sync.WaitGroup
	for i, key := range keys {
		all.Go(func() { errs[i] = begins(ctx, s, key) })
		for end := time.Now().Add(20 * time.Second); onTheWay(s) <= i && time.Now().Before(end); time.Sleep(time.Millisecond) {
		}
	}
	need.Get(other.Exec(ctx, `SELECT pg_advisory_unlock_all()`))(t)
	all.Wait()
	return errs
}

func waits(s *Store) int {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	return len(s.lanes.waiting)
}

func onTheWay(s *Store) int {
	s.lanes.mu.Lock()
	defer s.lanes.mu.Unlock()
	return s.lanes.busy + len(s.lanes.waiting)
}

// What waits for a lane is one transaction, and where one of them is refused the others
// are recorded all the same.
func TestChangesTravelTogether(t *testing.T) {
	s := opened(t, with(made(t), "pool_max_conns=4"), Options{})
	need.OK(t, begins(ctx, s, "warm"))
	for i, err := range crowd(t, s, "a", "b", "c", "d", "e") {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	transactions := func(keys string) any {
		return scalar(t, s, `SELECT count(DISTINCT e.xid) FROM indoubt.events e JOIN indoubt.operations o ON o.id = e.operation_id WHERE o.key IN (`+keys+`)`)
	}
	if n := transactions(`'b', 'c', 'd', 'e'`); n != int64(1) {
		t.Errorf("four that waited were %v transactions", n)
	}
	for i, err := range crowd(t, s, "f", "g", "warm", "h", strings.Repeat("k", 3000), "i") { // a key in use, and one that is too long
		if refused := i == 4; refused != (err != nil) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if n := transactions(`'f', 'g', 'h', 'i'`); n != int64(4) {
		t.Errorf("those beside one that was refused were %v transactions", n)
	}
	if n := scalar(t, s, `SELECT count(*) FROM events`); n != int64(10) {
		t.Errorf("%v events", n)
	}
}

// A crowd that one process makes at once travels together to its last change, however long
// that waits: what it guesses of the clock is guessed when its turn comes.
func TestACrowdTravelsTogether(t *testing.T) {
	relay, address := pgtest.Through(t, with(made(t), "pool_max_conns=4"))
	relay.Delay = 20 * time.Millisecond
	s := opened(t, address, Options{})
	need.OK(t, begins(ctx, s, "warm"))
	const n = 2000
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := begins(ctx, s, fmt.Sprint("key", i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if recorded := scalar(t, s, `SELECT count(*) FROM operations`); recorded != n+1 {
		t.Errorf("%d operations", recorded)
	}
	if made := scalar(t, s, `SELECT count(DISTINCT xid) FROM indoubt.events`); made > n/4 {
		t.Errorf("%d changes were %d transactions", n, made)
	}
}

// One whose lock another holds keeps no other waiting, and one that is given up while it
// waits for a lane is not made.
func TestAWaitIsNotShared(t *testing.T) {
	s := opened(t, with(made(t), "pool_max_conns=8"), Options{})
	need.OK(t, begins(ctx, s, "warm"))
	other := need.Get(s.pool.Load().Acquire(ctx))(t)
	defer other.Release()
	lock := `SELECT pg_advisory_lock(` + strings.ReplaceAll(nameKey, "?", "$1") + `)`
	need.Get(other.Exec(ctx, lock, tables.KeyName("", "slow")))(t)
	slow := make(chan error, 1)
	s.lanes.most = 1
	go func() { slow <- begins(ctx, s, "slow") }()
	for i := range 20 {
		need.OK(t, begins(ctx, s, fmt.Sprint("more", i)))
	}
	select {
	case err := <-slow:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	need.Get(other.Exec(ctx, `SELECT pg_advisory_unlock_all()`))(t)
	need.OK(t, <-slow)

	s.lanes.mu.Lock()
	s.lanes.busy, s.lanes.alone = s.lanes.most, time.Time{}
	s.lanes.mu.Unlock()
	given, up := context.WithCancel(ctx)
	time.AfterFunc(20*time.Millisecond, up)
	if err := begins(given, s, "given up"); !errors.Is(err, context.Canceled) || waits(s) != 0 {
		t.Errorf("%v, %d wait", err, waits(s))
	}
	if n := scalar(t, s, `SELECT count(*) FROM operations WHERE key = 'given up'`); n != int64(0) {
		t.Errorf("%v of it", n)
	}
}
