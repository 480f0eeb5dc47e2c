package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/ledger/record"
)

// moving is a ledger that moves to a database without what was recorded last.
type moving struct {
	mu sync.Mutex
	ledger.Store
	line   string
	before func(at ledger.Locator) error // it is asked; nil: nothing happens
	after  func()                        // it has done so
}

func (s *moving) Lineage(context.Context) (opened, now string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return "a", s.line, nil
}

func (s *moving) Change(ctx context.Context, at ledger.Locator, id string, rule ledger.Rule) (ledger.Applied, error) {
	s.mu.Lock()
	store, before, after := s.Store, s.before, s.after
	s.mu.Unlock()
	if before != nil {
		if err := before(at); err != nil {
			return ledger.Applied{}, err
		}
	}
	applied, err := store.Change(ctx, at, id, rule)
	if after != nil {
		after()
	}
	return applied, err
}

// to moves it.
func (s *moving) to(t *testing.T, line string) {
	store := made(t, line+".db")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Store, s.line = store, line
}

// does has it do this from now on.
func (s *moving) does(before func(at ledger.Locator) error, after func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

func made(t *testing.T, name string) ledger.Store {
	s := need.Get(open.Create(t.Context(), filepath.Join(t.TempDir(), name), open.Options{}))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// I3: what a recorder began, and the ledger has lost, it does not let begin again, also
// where a person has adopted the ledger before it has noticed.
func TestI3_ALostKeyIsNotBegunAgain(t *testing.T) {
	s := &moving{Store: made(t, "a.db"), line: "a"}
	r := record.New(s, nil, record.Options{})
	for i, w := range []record.Request{{Kind: "k", Key: "1"}, {Kind: "k", Input: json.RawMessage(`{"n": 1}`)}} {
		first := need.Get(r.Begin(t.Context(), w))(t)
		s.to(t, string(rune('b'+i)))
		again := need.Get(r.Begin(t.Context(), w))(t)
		need.Equal(t, again.Answer, ledger.AnswerInProgress)
		need.Equal(t, again.Operation.ID, first.Operation.ID)
	}
}

// What was recorded just before the ledger moved is offered also where the answer to that
// comes after all others were, and where there is no room for it at first.
func TestI9_WhatMovesWithTheLedger(t *testing.T) {
	s := &moving{Store: made(t, "a.db"), line: "a"}
	r := record.New(s, nil, record.Options{})
	refused := func() { // and what is remembered is offered
		s.does(func(at ledger.Locator) error {
			if at.Key == "refused" {
				return ledger.ErrFailover
			}
			return nil
		}, nil)
		_, err := r.Begin(t.Context(), record.Request{Kind: "k", Key: "refused"})
		need.That(t, errors.Is(err, ledger.ErrFailover), "it is told %v", err)
		s.does(nil, nil)
	}
	moves := func(line string) {
		s.does(nil, func() {
			s.to(t, line)
			refused()
		})
	}
	state := func(id string) ledger.State {
		t.Helper()
		return need.Get(s.Read(t.Context(), ledger.Locator{ID: id}))(t).Operation.State
	}
	moves("b")
	begun := need.Get(r.Begin(t.Context(), record.Request{Kind: "k", Key: "1"}))(t)
	refused()
	need.Equal(t, state(begun.Operation.ID), ledger.Pending)

	moves("c")
	_ = need.Get(r.Settle(t.Context(), ledger.SettleRequest{AttemptID: begun.Attempt.ID, Outcome: ledger.OutcomeCommitted}))(t)
	refused()
	need.Equal(t, state(begun.Operation.ID), ledger.Committed)

	s.to(t, "d")
	s.does(func(at ledger.Locator) error {
		if at.Key == "" {
			return ledger.ErrFull
		}
		return ledger.ErrFailover
	}, nil)
	_, err := r.Begin(t.Context(), record.Request{Kind: "k", Key: "2"})
	need.That(t, errors.Is(err, ledger.ErrFailover), "it is told %v", err)
	refused()
	need.Equal(t, state(begun.Operation.ID), ledger.Committed)
}
