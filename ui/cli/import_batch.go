package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"indoubt/ledger"
	"indoubt/ledger/record"
	"indoubt/policy/mapping"
)

// Rows are taken over in batches, so many at once: they share transactions.
const importBatch, importAtOnce = 512, 64

// importBytes is how much text a batch may have: a row takes several times its size.
const importBytes = 16 << 20

// full reports whether the rows of a batch are as many, or as large, as are taken over at once.
func full(batch []importRow) bool {
	size := 0
	for _, row := range batch {
		size += len(row.Text)
	}
	return len(batch) >= importBatch || size >= importBytes
}

// flush takes over the rows of the batch. What is recorded already is looked for in one
// go, so that an import which is given again comes quickly to what is new.
func (c *importing) flush(ctx context.Context) error {
	batch := c.batch
	c.batch = nil
	if len(batch) == 0 {
		return nil
	}
	settled, err := c.settled(ctx, batch)
	if err != nil {
		return err
	}
	if !c.dryRun {
		clear(c.seen)
	}
	todo, group := []*importRow{}, errgroup.Group{}
	group.SetLimit(importAtOnce)
	for i := range batch {
		row := &batch[i]
		if id := row.past.ID; settled[id] || c.seen[id] {
			c.done.Known++
			continue
		}
		c.seen[row.past.ID] = true
		todo = append(todo, row)
		group.Go(func() error {
			if row.err = ctx.Err(); row.err == nil { // what is begun is settled, also when it is stopped
				row.how, row.op, row.err = c.recorder.TakeOver(context.WithoutCancel(ctx), row.past, c.dryRun)
			}
			return nil
		})
	}
	_ = group.Wait() // each row has its own error
	for _, row := range todo {
		if err := c.count(ctx, row); err != nil {
			return err
		}
	}
	c.progress(fmt.Sprintf("%s rows read, %s recorded, %s there already ", ledger.Count(c.done.Read), ledger.Count(c.done.Recorded), ledger.Count(c.done.Known)))
	return nil
}

// settled are the rows that are recorded and not in flight. One that was begun when an
// import was killed is ended by the next.
func (c *importing) settled(ctx context.Context, batch []importRow) (map[string]bool, error) {
	known, err := c.store.Records(ctx, each(batch, func(row importRow) string { return row.past.ID }))
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, rec := range known {
		out[rec.Operation.ID] = rec.Operation.State != ledger.Pending || rec.Operation.LiveAttempt != ledger.DeriveID(rec.Operation.ID, "attempt")
	}
	return out, nil
}

// count says what became of a row; its error ends the import, unless it is the row's own.
func (c *importing) count(ctx context.Context, row *importRow) error {
	var keyless *record.NoKeyError
	switch {
	case errors.As(row.err, &keyless):
		return c.refuse(ctx, row.Row, &mapping.RowError{Message: keyless.Error(), Hint: "give it a key: --map key=EXPRESSION"})
	case errors.Is(row.err, ledger.ErrGuard):
		return c.refuse(ctx, row.Row, &mapping.RowError{Message: row.err.Error()})
	case row.err != nil:
		return row.err
	}
	switch row.how {
	case record.TakenReuse:
		return c.refuse(ctx, row.Row, &mapping.RowError{Message: fmt.Sprintf("its key `%s` is that of %s, which has another input", row.op.Key, row.op.ID), Hint: "make it a key of its own: --map key=EXPRESSION"})
	case record.TakenKnown:
		c.done.Known++
	case record.TakenKey:
		c.done.KnownKey++
	default:
		c.done.Recorded++
		c.kinds[row.past.Kind]++
		if o := row.op; len(c.done.First) < firstShown {
			c.done.First = append(c.done.First, importRowJSON{c.place(row.Row), o.ID, o.Kind, o.Key, o.Title, moment(row.past.SentAt), string(row.past.Outcome)})
		}
	}
	return nil
}

// progress tells a person at a terminal how far a longer import is; "" takes that away.
func (c *importing) progress(line string) {
	now := time.Now()
	if c.json || !isTerminal(c.rawErr) || line != "" && now.Before(c.tell) || line == "" && !c.told {
		return
	}
	c.tell, c.told = now.Add(200*time.Millisecond), line != ""
	fmt.Fprint(c.rawErr, "\r\x1b[K"+line)
}
