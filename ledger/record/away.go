package record

import (
	"context"
	"errors"
	"fmt"

	"indoubt/ledger"
)

// mostMoves bounds how often a ledger is followed that has moved on.
const mostMoves = 8

// settleElsewhere records an outcome where the ledger is that has moved: its attempt went
// along. Until it is known to be there, why is the error.
func settleElsewhere(ctx context.Context, r *Recorder, sent ledger.Sent, req ledger.SettleRequest, why error) (ledger.Applied, error) {
	here, err := r.store.Info(ctx)
	if err != nil || here.MovedTo == "" || r.options.Elsewhere == nil {
		return ledger.Applied{}, why
	}
	there, err := within(ctx, func(ctx context.Context) (ledger.Store, error) { return follow(ctx, r.options.Elsewhere, here.MovedTo) })
	if err != nil {
		return ledger.Applied{}, fmt.Errorf("%w; it is not reached there: %v", why, err) //nolint:errorlint // what is wrong there says nothing of the outcome
	}
	defer there.Close()
	there = bounded{there}
	if is, err := there.Info(ctx); err != nil || is.ID != here.ID {
		return ledger.Applied{}, fmt.Errorf("%w; what is there is not known to be this ledger (%v)", why, err) //nolint:errorlint // nor does this
	}
	return ledger.SettleSent(ctx, there, sent, req)
}

// follow opens the ledger where it is now, going by what each place says of the next.
func follow(ctx context.Context, opens func(context.Context, string) (ledger.Store, error), name string) (s ledger.Store, err error) {
	for range mostMoves {
		s, err = opens(ctx, name)
		var away *ledger.AwayError
		if !errors.As(err, &away) {
			return s, err
		}
		name = away.To
	}
	return s, err
}
