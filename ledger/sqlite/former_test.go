package sqlite

import (
	"path/filepath"
	"sync"
	"testing"

	"indoubt/ledger/need"
)

// A process that finds no ledger, and then one made meanwhile, does not take its files
// for traces of one that was lost.
func TestAMakersFilesAreNoTraces(t *testing.T) {
	t.Parallel()
	for range need.Steps(4, 30) {
		path := filepath.Join(t.TempDir(), "ledger.db")
		done := make(chan struct{})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					if err := former(path, Options{}); err != nil {
						t.Error(err)
					}
					select {
					case <-done:
						return
					default:
					}
				}
			})
		}
		s := need.Get(Create(ctx, path, Options{}))(t)
		begin(t, s)
		close(done)
		wg.Wait()
		need.OK(t, s.Close())
	}
}
