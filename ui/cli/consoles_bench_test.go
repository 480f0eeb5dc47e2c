//go:build soak

package cli_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
)

// BenchmarkWriterBesideConsoles records operations, one caller, beside 0, 1, 3
// and 10 open consoles at which no key is pressed: operations a second, and how
// many times the speed without a console that is. An operation of the benchmark
// is three seconds of writing.
func BenchmarkWriterBesideConsoles(b *testing.B) {
	alone := 0.0
	for _, consoles := range []int{0, 1, 3, 10} {
		b.Run(fmt.Sprint(consoles), func(b *testing.B) {
			rate := besideConsoles(b, consoles)
			if consoles == 0 {
				alone = rate
			}
			b.ReportMetric(rate, "ops/s")
			b.ReportMetric(rate/alone, "×alone")
		})
	}
}

func besideConsoles(b *testing.B, consoles int) float64 {
	dir := b.TempDir()
	path := filepath.Join(dir, "ledger.db")
	inDoubt(b, path, 200, 1)
	for range consoles {
		cmd := binary(dir, "--ledger", path, "--read-only")
		tty := need.Get(pty.StartWithSize(cmd, &pty.Winsize{Rows: 48, Cols: 160}))(b)
		defer func() { _ = cmd.Process.Signal(syscall.SIGKILL); _ = cmd.Wait(); tty.Close() }()
		drawn := make(chan struct{})
		go func() {
			first := make([]byte, 1)
			_, _ = tty.Read(first)
			close(drawn)
			_, _ = io.Copy(io.Discard, tty)
		}()
		select {
		case <-drawn:
		case <-time.After(20 * time.Second):
			b.Fatal("a console draws nothing")
		}
	}
	s := need.Get(open.Open(context.Background(), path, open.Options{}))(b)
	defer s.Close()
	actor := ledger.Actor{Name: "billing", Machine: true}
	n := 0
	write := func(d time.Duration) float64 {
		began, before := time.Now(), n
		for ; time.Since(began) < d; n++ {
			res, err := ledger.Begin(context.Background(), s, ledger.BeginRequest{
				ChangeID: ledger.NewID(), AttemptID: ledger.NewID(), OperationID: ledger.NewID(), Kind: "pay", Key: fmt.Sprint("w", n), Token: fmt.Sprint("tok-w", n, os.Getpid()),
				Input: []byte(`{"amount":100}`), Deadline: time.Minute, Actor: actor})
			if err == nil {
				_, err = ledger.Settle(context.Background(), s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: res.Attempt.ID, Outcome: ledger.OutcomeCommitted, TokenSent: true, Actor: actor})
			}
			need.OK(b, err)
		}
		return float64(n-before) / time.Since(began).Seconds()
	}
	write(time.Second)
	b.ResetTimer()
	rate := 0.0
	for range b.N {
		rate = write(3 * time.Second)
	}
	b.StopTimer()
	return rate
}
