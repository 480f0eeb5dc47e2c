package sqlite

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/store"
)

// keeper looks once a second whether the files are still those in use, also where
// nothing is written.
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

// ready looks at the files before a transaction, and opens what is closed. gone is why no caller
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
		if s.writer != nil {
			return nil, lostLog(s.path)
		}
		if err := s.disconnect(); err != nil {
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

// leave closes what is open. What is only in a log that was removed goes into the ledger then,
// unless others have gone on without it, or an older state was put in its place. A log that is not to count any more, or
// that was cut, is left as it is: parts of it in the file would make a mixture of two states.
func (s *handle) leave() error {
	wrong := cmp.Or(s.anchored(), s.behind())
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
		if alone, err := s.alone(); err != nil || !alone || now.wal.size > 0 || s.logWhole() != nil ||
			s.log != nil && s.behindLog(s.log.log) != nil {
			return s.abandon()
		}
	}
	return s.disconnect()
}
