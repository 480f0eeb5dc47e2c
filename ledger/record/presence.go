package record

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	"indoubt/ledger"
)

// presence tells whether a ledger in a file is still the one that was opened. A
// process that holds a removed file open goes on writing to it without an
// error, and nobody would ever see what it wrote.
type presence struct {
	path string
	file os.FileInfo
}

// presenceOf looks at the store's file; a ledger that is no file is always present.
func presenceOf(ctx context.Context, store ledger.Store) presence {
	info, err := store.Info(ctx)
	if err != nil {
		return presence{}
	}
	file, err := os.Stat(info.Path)
	if err != nil {
		return presence{}
	}
	return presence{info.Path, file}
}

// check returns an error that wraps fs.ErrNotExist when the file is gone.
func (p presence) check() error {
	if p.file == nil {
		return nil
	}
	now, err := os.Stat(p.path)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("look for the ledger: %w", err)
	}
	if err != nil || !os.SameFile(p.file, now) {
		return fmt.Errorf("the ledger %s was removed or replaced: %w", p.path, fs.ErrNotExist)
	}
	return nil
}
