package roundtrip

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
)

// hungStore answers no look-up and no change.
type hungStore struct {
	ledger.Store
	over chan struct{}
}

func (s hungStore) Change(context.Context, ledger.Locator, string, ledger.Rule) (ledger.Applied, error) {
	<-s.over
	return ledger.Applied{}, ledger.ErrLost
}

func (s hungStore) Read(context.Context, ledger.Locator) (ledger.Record, error) {
	<-s.over
	return ledger.Record{}, ledger.ErrLost
}

// A client is told after one deadline that its write is not recorded, and nothing is sent.
func TestI1_AClientDoesNotWaitForALedgerThatHangs(t *testing.T) {
	for _, key := range []string{"", "k"} {
		synctest.Test(t, func(t *testing.T) {
			s := hungStore{ledgertest.NewMemory(time.Now, nil), make(chan struct{})}
			defer close(s.over)
			tr := &Transport{Recorder: record.New(s, nil, record.Options{})}
			began := time.Now()
			_, err := tr.RoundTrip(order(t.Context(), "http://127.0.0.1:1/orders", key)) //nolint:bodyclose // there is none
			var not *NotTakenError
			need.That(t, errors.As(err, &not) && not.Problem == "not_recorded", "key %q: %v", key, err)
			need.Equal(t, time.Since(began), record.StoreDeadline, "it took")
		})
	}
}
