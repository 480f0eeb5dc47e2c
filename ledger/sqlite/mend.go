package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

// keeper looks once a second whether the files are still those in use, also where
// nothing is written: what is only in a log that was removed goes into the ledger
// before another process opens it.
type keeper struct {
	stop  chan struct{}
	ended sync.Once
	done  sync.WaitGroup
}

func keep(s *handle) *keeper {
	k := &keeper{stop: make(chan struct{})}
	k.done.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-k.stop:
				return
			case <-ticker.C:
			}
			s.tend()
		}
	})
	return k
}

func (s *handle) tend() {
	switch {
	case s.anchored() == nil:
		if s.writer != nil {
			reserve(s.path)
		}
	case s.writer != nil: // what stays wrong is told when it is asked for
		_ = s.writer.do(context.Background(), func(store.Tx) error { return nil })
	default:
		_, _ = s.ready()
	}
}

func (k *keeper) end() {
	if k != nil {
		k.ended.Do(func() { close(k.stop) })
		k.done.Wait()
	}
}

// ready puts right what can be put right before a transaction. gone is why no caller
// may send because of it: the ledger is not where its path leads, and what has
// happened is written down there all the same, because it may come back. The
// caller holds the write lock. Errors: *Refusal, *DamagedError.
func (s *handle) ready() (gone, err error) {
	now, err := filesAt(s.path)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	was, open := s.files, s.read.by != ""
	s.mu.Unlock()
	if err := was.replaced(s.path, now); err != nil {
		if !open || !errors.Is(err, ledger.ErrGone) {
			return nil, err
		}
		return err, nil
	}
	if err := now.db.usable(s.path); err != nil {
		return nil, err
	}
	if open && !was.sameLog(now) {
		if err := s.mend(was, now); err != nil {
			return nil, err
		}
		open = false
	}
	if open {
		if err := s.logWhole(); err != nil {
			return nil, err
		}
		return nil, s.touched(was, now)
	}
	opening.Lock()
	defer opening.Unlock()
	if _, err := settled(s.path); err != nil {
		return nil, err
	}
	return nil, translate(s.path, s.connect(context.Background()))
}

// touched has the writer look again where the file was written to since: by a checkpoint,
// or by what is not SQLite. Errors: *DamagedError.
func (s *handle) touched(was, now files) error {
	if s.writer == nil || now.db.changed == was.db.changed {
		return nil
	}
	if err := s.behind(); err != nil {
		return err
	}
	s.writer.rereads, s.writer.stamps = true, true
	s.mu.Lock()
	s.files.db = now.db
	s.mu.Unlock()
	return nil
}

// mend lets go of a log that is not beside the ledger any more. What is in there
// goes into the ledger first, unless others have gone on without it.
func (s *handle) mend(was, now files) error {
	ours := now.shm.is(was.shm) // a process that opens the ledger without its index makes another one
	switch {
	case s.writer == nil:
		return s.disconnect()
	case now.wal.is(was.wal), now.wal.size > 0 && !ours:
		return s.abandon()
	case !now.wal.there() && (ours || !now.shm.there()): // it was not opened since
	default:
		if alone, err := s.alone(); err != nil || !alone {
			return errors.Join(lostLog(s.path), err)
		}
	}
	var busy, log, copied int
	err := s.logWhole()
	if err == nil {
		err = one(&tx{w: s.writer}, `PRAGMA wal_checkpoint(FULL)`, &busy, &log, &copied)
	}
	switch {
	case err != nil && now.wal.size > 0: // others went on with the log that is there
		return s.abandon()
	case err != nil:
		return translate(s.path, err)
	}
	if busy != 0 || copied < log {
		return fmt.Errorf("%w: the log of %s, which was removed, is being read", ledger.ErrBusy, s.path)
	}
	return s.disconnect()
}

// leave closes what is open. A log that is not to count any more, or that was cut, is left
// as it is: parts of it in the file would make a mixture of two states.
func (s *handle) leave() error {
	wrong := s.anchored()
	switch {
	case wrong == nil:
		return s.disconnect()
	case errors.As(wrong, new(*DamagedError)):
		return s.abandon()
	}
	now, err := filesAt(s.path)
	s.mu.Lock()
	was, open := s.files, s.read.by != ""
	s.mu.Unlock()
	if err == nil && open && was.replaced(s.path, now) == nil && !was.sameLog(now) {
		if err := s.mend(was, now); err != nil {
			return s.abandon()
		}
	}
	return s.disconnect()
}
