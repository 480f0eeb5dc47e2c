package archive

import (
	"context"
	"time"
)

// glance is how often it is looked whether others write.
const glance = 250 * time.Millisecond

// restFor is how long the ledger is left to others while they write, as a multiple of how
// long they may have waited for a step.
const restFor = 5

// pace leaves the ledger and the processor to others, while there are any.
type pace struct {
	s      Store
	nap    func(context.Context, time.Duration) error
	newest int64 // event
	looked time.Time
	others bool // write
}

// read rests after a step that no one waits for: it takes a processor at most.
func (p *pace) read(ctx context.Context, took time.Duration) error {
	return p.pause(ctx, took)
}

// moved rests after a step that others may have waited for.
func (p *pace) moved(ctx context.Context, held time.Duration) error {
	return p.pause(ctx, restFor*held)
}

func (p *pace) pause(ctx context.Context, rest time.Duration) error {
	if time.Since(p.looked) >= glance {
		info, err := p.s.Info(ctx)
		if err != nil {
			return err
		}
		p.others, p.newest, p.looked = info.LastSeq != p.newest, info.LastSeq, time.Now()
	}
	if !p.others {
		return ctx.Err()
	}
	return p.nap(ctx, rest)
}

func nap(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err()
}
