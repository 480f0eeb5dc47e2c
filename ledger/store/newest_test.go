package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
	"indoubt/ledger/need"
)

// A state is judged by what was known before it was taken: what is written down meanwhile, by this process or another
// one of the account, is not in it, and not missing. A line that is not whole says nothing.
func TestI13_WhatCameMeanwhileIsNotMissing(t *testing.T) {
	m, state := inMemory(t), t.TempDir()
	first, second := New(m, digestkey.Named(""), state), New(m, digestkey.Named(""), state)
	defer first.Close()
	defer second.newest.close()
	var id string
	need.OK(t, One(m, []any{&id}, `SELECT value FROM meta WHERE name = 'id'`))
	first.Enter(id)
	second.Enter(id)
	known := first.newest.get()
	lost := ledger.Event{OperationID: "lost", ID: "change", At: time.Now()}
	second.Saw([]ledger.Event{lost, {ID: "of the ledger"}})
	need.OK(t, first.newest.asks(m, known))
	err := second.newest.asks(m, second.newest.get())
	need.That(t, errors.Is(err, ledger.ErrFailover), "the change is not missing: %v", err)
	var lacks *lacking
	need.Must(t, errors.As(err, &lacks), "%v", err)
	adopted := *lacks
	adopted.Ledger = "before it was adopted"
	need.OK(t, adopted.hold(context.Background(), m))
	need.Equal(t, len(need.Get(first.Holds(context.Background(), time.Now()))(t)), 0, "holds of what the ledger was before")
	need.OK(t, lacks.hold(context.Background(), m))
	need.Equal(t, len(need.Get(first.Holds(context.Background(), time.Now()))(t)), 1, "holds")
	later := New(m, digestkey.Named(""), state)
	later.Enter(id)
	need.That(t, errors.Is(later.newest.asks(m, later.newest.get()), ledger.ErrFailover), "who starts later is not told")
	need.Get(later.newest.file.WriteAt([]byte("17"), lineSize-2))(t)
	later.newest.close()
	last := New(m, digestkey.Named(""), state)
	last.Enter(id)
	need.OK(t, last.newest.asks(m, last.newest.get()))
	last.newest.close()
}
