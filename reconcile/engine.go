package reconcile

import (
	"context"
	"errors"
)

// Engine reconciles one ledger. It is safe for use by many goroutines.
type Engine struct{ o Options }

var errUnfinished = errors.New("not there yet")

// New makes an engine. It starts nothing.
func New(o Options) *Engine { return &Engine{o: o} }

// Run expires, prices and reads until ctx ends.
func (e *Engine) Run(ctx context.Context) error { return errUnfinished }

// Once does once what is due.
func (e *Engine) Once(ctx context.Context, progress func(Progress)) (Summary, error) {
	return Summary{}, errUnfinished
}

// ReadNow makes one read of one operation now.
func (e *Engine) ReadNow(ctx context.Context, id string) (ReadResult, error) {
	return ReadResult{}, errUnfinished
}

// Plan says what a retry would do now.
func (e *Engine) Plan(ctx context.Context, id string) (Plan, error) { return Plan{}, errUnfinished }

// Retry makes one more attempt.
func (e *Engine) Retry(ctx context.Context, q RetryRequest) (RetryResult, error) {
	return RetryResult{}, errUnfinished
}

// Health tells how each downstream asked so far answers.
func (e *Engine) Health() []Health { return nil }

// Busy is the number of writes in flight.
func (e *Engine) Busy() int { return 0 }

// Drain waits until no write is in flight or ctx ends.
func (e *Engine) Drain(ctx context.Context) {}
