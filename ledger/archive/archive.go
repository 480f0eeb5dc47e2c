// Package archive moves settled operations from a ledger to files: JSON, an operation a
// line, compressed with gzip, which every system can read without indoubt.
//
// A file is written under another name, synced, read back and compared before it gets its
// own; only then do operations leave the ledger, a few in a transaction, each only if it
// is as it was read. So they are in the ledger, or in a file that was read
// back, or in both, wherever this is ended. What was begun is not carried on: the next run
// moves what is left, to another file. A file that is whole, and that the ledger did not hear
// of, is sealed as it is.
//
// It imports ledger and no store.
package archive

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"indoubt/ledger"
)

const (
	window = 2000                  // operations that are looked at in one read
	most   = 20_000                // operations in a file
	large  = 256 << 20             // bytes in a file, before they are compressed
	least  = 25                    // operations that leave the ledger in one transaction,
	step   = 100                   // and at most
	brief  = 20 * time.Millisecond // that such a transaction should not exceed
	lease  = 2 * time.Minute       // no other archives meanwhile
)

// Options are what is archived, where to, and how.
type Options struct {
	Dir      string
	Before   time.Time // what settled before then
	Actor    ledger.Actor
	DryRun   bool
	Progress func(Progress)

	pace *pace
}

// Progress is how far it has come.
type Progress struct {
	File       string `json:"-"`          // the newest
	Files      int    `json:"files"`      // that were written
	Operations int    `json:"operations"` // that may be archived
	Removed    int    `json:"removed"`    // that have left the ledger
	Moved      int    `json:"moved"`      // that changed meanwhile, and stay
	Plain      int64  `json:"bytes"`      // of what is archived, before it is compressed
	Packed     int64  `json:"compressed"` // and after
	// Found are files of an earlier run that was ended before the ledger knew that they are whole.
	Found []string `json:"found,omitempty"`
}

// Store is what is asked of a ledger.
type Store interface {
	ledger.Archiver
	ledger.Describer
}

// Run archives. It ends with the context between two steps. Errors: *ledger.LeasedError
// while another one archives.
func Run(ctx context.Context, s Store, o Options) (p Progress, err error) {
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	if o.pace == nil {
		o.pace = &pace{nap: nap}
	}
	o.pace.s = s
	if err := ready(o.Dir, o.DryRun); err != nil {
		return p, err
	}
	for place := int64(0); ; {
		f := &file{dir: o.Dir, dry: o.DryRun}
		place, err = fill(ctx, s, o, f, place, &p)
		if err == nil && len(f.lines) > 0 {
			err = f.move(ctx, s, o, &p)
		}
		err = errors.Join(err, f.drop(ctx, s))
		if err != nil || place == 0 {
			return p, err
		}
	}
}

// fill reads operations into a file until it is large enough, and returns where to go on.
func fill(ctx context.Context, s Store, o Options, f *file, place int64, p *Progress) (int64, error) {
	for {
		began := time.Now()
		ops, next, err := s.Archivable(ctx, o.Before, place, window)
		if err != nil {
			return 0, err
		}
		if len(ops) > 0 && f.out == nil && !o.DryRun {
			if err := f.begin(ctx, s, o, p); err != nil {
				return 0, err
			}
		}
		for _, w := range ops {
			n, err := f.add(w)
			if err != nil {
				return 0, err
			}
			p.Operations, p.Plain = p.Operations+1, p.Plain+n
		}
		took := time.Since(began)
		o.Progress(*p)
		if place = next; place == 0 || len(f.lines) >= most || f.plain >= large {
			return place, nil
		}
		if err := f.prolong(ctx, s); err != nil {
			return 0, err
		}
		if err := o.pace.read(ctx, took); err != nil {
			return 0, err
		}
	}
}

// move seals the file, and takes what it has from the ledger.
func (f *file) move(ctx context.Context, s Store, o Options, p *Progress) error {
	if o.DryRun {
		return nil
	}
	if err := f.seal(); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(f.dir, f.record.File), err)
	}
	p.File, p.Files, p.Packed = f.record.File, p.Files+1, p.Packed+f.record.Size
	if err := f.prolong(ctx, s); err != nil {
		return err
	}
	o.pace.newest++ // tells of the seal
	size := least
	for rest := f.lines; len(rest) > 0; {
		n := min(size, len(rest))
		removed, held, err := s.Archive(ctx, f.record.ID, rest[:n])
		if err != nil {
			return err
		}
		rest, p.Removed, p.Moved = rest[n:], p.Removed+removed, p.Moved+n-removed
		o.Progress(*p)
		if err := f.prolong(ctx, s); err != nil {
			return err
		}
		if held > brief {
			size = max(least, size/2)
		} else if held < brief/2 {
			size = min(step, size*2)
		}
		if err := o.pace.moved(ctx, held); err != nil {
			return err
		}
	}
	return nil
}

// begin records the file and makes it.
func (f *file) begin(ctx context.Context, s Store, o Options, p *Progress) error {
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	id := ledger.NewID()
	found, err := f.sweep(ctx, s)
	p.Found = append(p.Found, found...)
	if err != nil {
		return err
	}
	f.record = ledger.Archive{ID: id, Actor: o.Actor, Before: o.Before, Until: time.Now().Add(lease),
		File: fmt.Sprintf("indoubt-%.8s-%s-%s.jsonl.gz", info.ID, time.Now().UTC().Format("20060102T150405"), id[len(id)-12:])}
	if err := s.ChangeArchive(ctx, f.record); err != nil {
		return err
	}
	f.begun, f.extended = true, time.Now()
	return f.create()
}

// prolong keeps others from archiving for longer, where half of the time is over.
func (f *file) prolong(ctx context.Context, s Store) error {
	sealed := f.record.Digest != "" && !f.told
	if f.out == nil && f.record.Digest == "" || time.Since(f.extended) < lease/2 && !sealed {
		return nil
	}
	f.extended, f.told = time.Now(), f.record.Digest != ""
	f.record.Until = f.extended.Add(lease)
	return s.ChangeArchive(ctx, f.record)
}
