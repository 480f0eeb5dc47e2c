package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/store"
)

// holdLock takes the write lock as any program may, until its input ends.
func holdLock(path string) error {
	s, err := Open(ctx, path, Options{})
	if err != nil {
		return err
	}
	if err := s.writer.exec(`BEGIN IMMEDIATE`); err != nil {
		return err
	}
	fmt.Println("held")
	fmt.Scanln()
	return nil
}

func init() { roles["hold"] = holdLock }

// Somebody else's lock keeps nobody from looking, and is waited for no longer than a client
// waits: from when a change was asked for, not from when its turn came.
func TestAHeldLock(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	begin(t, s)
	need.OK(t, TryLock(ctx, s.path))
	cmd, out, in := other(t, "hold", s.path)
	need.Must(t, out.Scan(), "no lock")
	second := need.Get(Open(ctx, s.path, Options{}))(t)
	defer second.Close()
	if c := need.Get(second.Counts(ctx, s.now()))(t); c.All != 1 {
		t.Errorf("%+v", c)
	}
	need.That(t, errors.Is(tryLock(ctx, s.path, 10*time.Millisecond), ledger.ErrBusy), "the lock is free")
	waited := &job{ctx: ctx, run: func(store.Tx) error { return nil }, came: time.Now().Add(-patience), done: make(chan struct{})}
	s.writer.queue <- waited
	s.writer.wait(ctx, waited)
	need.That(t, errors.Is(waited.err, ledger.ErrBusy), "%v", waited.err)
	need.OK(t, in.Close())
	cmd.Wait()
	begin(t, s)
	need.OK(t, TryLock(ctx, s.path))
}

// Trying the lock of a copy leaves it as it is, also for who has it open to look.
func TestTheLockOfACopyIsTried(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	begin(t, s)
	to := filepath.Join(t.TempDir(), "copy.db")
	need.Get(s.Backup(ctx, to, 0))(t)
	before := need.Get(os.ReadFile(to))(t)
	looker := need.Get(Open(ctx, to, Options{ReadOnly: true}))(t)
	defer looker.Close()
	_ = need.Get(looker.Info(ctx))(t)
	need.OK(t, TryLock(ctx, to))
	_ = need.Get(looker.Info(ctx))(t)
	need.That(t, bytes.Equal(before, need.Get(os.ReadFile(to))(t)), "the copy has changed")
}

// What still waits for the lock when its ledger is closed gets nothing: neither the lock,
// nor the number of a file that is opened meanwhile.
func TestAClosedWaitLetsGo(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	need.OK(t, os.WriteFile(path, nil, 0o600))
	at := func() *writeLock { return need.Get(newWriteLock(path))(t) }
	for range 20 {
		holder, waiter, next := at(), at(), at()
		ok, err := holder.acquire(time.Second)
		need.That(t, ok && err == nil, "%v", err)
		ok, err = waiter.acquire(time.Millisecond)
		need.That(t, !ok && err == nil, "%v", err)
		need.OK(t, waiter.close())
		holder.release()
		ok, err = next.acquire(30 * time.Second)
		need.That(t, ok && err == nil, "it is kept by what was closed: %v", err)
		need.OK(t, holder.close())
		need.OK(t, next.close())
	}
}

// Who gave a wait for the lock up, and writes nothing more, does not keep the lock that it
// still gets; who comes back gets it.
func TestI10_AWaitThatWasGivenUpKeepsNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	need.OK(t, os.WriteFile(path, nil, 0o600))
	at := func() *writeLock { return need.Get(newWriteLock(path))(t) }
	holder, idle, next := at(), at(), at()
	taken := func(what string, g *writeLock, patience time.Duration, want bool) {
		t.Helper()
		ok, err := g.acquire(patience)
		need.Must(t, ok == want && err == nil, "%s: %v, %v", what, ok, err)
	}
	for range 20 {
		taken("the first", holder, 30*time.Second, true)
		taken("who gives up", idle, time.Millisecond, false)
		holder.release()
		taken("the next one", next, 30*time.Second, true)
		taken("who gives up again", idle, time.Millisecond, false)
		taken("and once more", idle, time.Millisecond, false)
		next.release()
		taken("who came back", idle, 30*time.Second, true)
		idle.release()
	}
}
