//go:build soak

package cli_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/archive"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/ledger/postgres/pgtest"
)

// BenchmarkArchiveBesideAWriter archives settled operations while 16 callers write as fast as
// they can, and makes it wait in every fourth window: what is left of the writer's speed, and how many it
// archives a second. INDOUBT_TEST_ARCHIVE_OPERATIONS is how many, 4000 where it is not set.
func BenchmarkArchiveBesideAWriter(b *testing.B) {
	n, _ := strconv.Atoi(os.Getenv("INDOUBT_TEST_ARCHIVE_OPERATIONS"))
	if n == 0 {
		n = 4000
	}
	b.Run("file", func(b *testing.B) { archiveBeside(b, filepath.Join(b.TempDir(), "ledger.db"), n) })
	b.Run("server", func(b *testing.B) {
		c := pgtest.Start(b, pgtest.Options{Durable: true})
		need.OK(b, c.Exec("postgres", "CREATE DATABASE ledger"))
		need.OK(b, exec.Command(program, "init", "--ledger", c.URL("ledger")).Run())
		archiveBeside(b, c.URL("ledger"), n)
	})
}

func archiveBeside(b *testing.B, at string, n int) {
	ctx := context.Background()
	place := need.Get(open.At(at))(b)
	store := need.Get(place.Create(ctx, open.Options{}))(b)
	defer store.Close()
	settledOnes(b, store, ledger.NewID(), n)
	// As in another process: with a lock of its own to wait for.
	mover := need.Get(open.Open(ctx, at, open.Options{}))(b)
	defer mover.Close()
	before := time.Now()
	var pause atomic.Bool
	var archived atomic.Int64
	pause.Store(true)
	done := make(chan error, 1)
	go func() {
		_, err := archive.Run(ctx, mover, archive.Options{Dir: b.TempDir(), Before: before, Actor: ledger.Actor{Name: "maya"}, Progress: func(p archive.Progress) {
			archived.Store(int64(p.Removed))
			for pause.Load() {
				time.Sleep(time.Millisecond)
			}
		}})
		done <- err
	}()
	const window, inWindow = 16 * 20, 1500 * time.Millisecond
	var wrote [2]int
	var took [2]time.Duration
	for i, ended := 0, false; !ended || i < 2; i++ {
		with := min(i%4, 1)
		pause.Store(with == 0)
		began := time.Now()
		for time.Since(began) < inWindow {
			settledOnes(b, store, ledger.NewID(), window)
			wrote[with] += window
		}
		took[with] += time.Since(began)
		select {
		case err := <-done:
			need.OK(b, err)
			ended = true
		default:
		}
	}
	rate := func(i int) float64 { return float64(wrote[i]) / took[i].Seconds() }
	b.ReportMetric(rate(1)/rate(0), "×alone")
	b.ReportMetric(rate(0), "alone/s")
	b.ReportMetric(float64(archived.Load())/took[1].Seconds(), "archived/s")
}
