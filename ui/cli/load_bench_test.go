//go:build soak

package cli_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"

	"indoubt/ledger"
	"indoubt/ledger/need"
	ledgers "indoubt/ledger/open"
	"indoubt/ledger/postgres/pgtest"
)

const (
	loadOpen    = 100_000
	loadOutages = 500
	loadRate    = 1000 // changes a second
)

// BenchmarkConsoleUnderLoad is the console over 100,000 open operations in 500 outages
// while another process makes 1,000 changes a second for a minute: how long a key takes
// to its frame, what the console uses of a core meanwhile, and what it uses afterwards,
// when nothing happens. -short takes a tenth of the operations and ten seconds.
func BenchmarkConsoleUnderLoad(b *testing.B) {
	open, long := loadOpen, time.Minute
	if testing.Short() {
		open, long = open/10, long/6
	}
	dir := b.TempDir()
	path := filepath.Join(dir, "ledger.db")
	inDoubt(b, path, open, loadOutages)
	store := need.Get(ledgers.Open(b.Context(), path, ledgers.Options{}))(b)
	defer store.Close()
	c := openWatched(b, dir, path)
	b.ResetTimer()
	for range b.N {
		c.measure(b, store, long, loadRate)
	}
}

// BenchmarkConsoleFarAway is the console of a ledger that is 80 ms away, over 1,000 open
// operations, beside 100 changes a second.
func BenchmarkConsoleFarAway(b *testing.B) {
	near := newLedger(b)
	inDoubt(b, near, 1000, loadOutages)
	store := need.Get(ledgers.Open(b.Context(), near, ledgers.Options{}))(b)
	defer store.Close()
	relay, far := pgtest.Through(b, near)
	relay.Delay = 40 * time.Millisecond
	c := openWatched(b, b.TempDir(), far)
	b.ResetTimer()
	for range b.N {
		c.measure(b, store, 20*time.Second, 100)
	}
}

// watched is a console on a terminal that knows where its cursor is.
type watched struct {
	pid   int
	tty   io.Writer
	em    *vt.SafeEmulator
	mu    sync.Mutex
	rows  int
	at    int // row of the cursor
	moved chan time.Time
}

func openWatched(b *testing.B, dir, path string) *watched {
	b.Helper()
	cmd := binary(dir, "--ledger", path)
	tty := need.Get(pty.StartWithSize(cmd, &pty.Winsize{Rows: 48, Cols: 160}))(b)
	c := &watched{pid: cmd.Process.Pid, tty: tty, em: vt.NewSafeEmulator(160, 48), rows: 48, moved: make(chan time.Time, 1000)}
	b.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		tty.Close()
		c.em.InputPipe().(io.Closer).Close()
	})
	go io.Copy(tty, c.em) // what a terminal answers
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := tty.Read(buf)
			c.em.Write(buf[:n])
			c.look()
			if err != nil {
				return
			}
		}
	}()
	eventuallyIn(b, "the console is idle", func() bool { return strings.Contains(c.em.Render(), "NEED YOU") && c.cpu(b, 2*time.Second) < 0.05 })
	return c
}

// eventuallyIn waits until something holds.
func eventuallyIn(b *testing.B, what string, holds func() bool) {
	b.Helper()
	for end := time.Now().Add(10 * patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("it never came: %s", what)
		}
	}
}

// look notes the moment in which the cursor is on another row.
func (c *watched) look() {
	for y := 5; y < c.rows; y++ {
		if cell := c.em.CellAt(0, y); cell != nil && cell.Content == "▌" {
			c.mu.Lock()
			other := y != c.at
			c.at = y
			c.mu.Unlock()
			if other {
				select {
				case c.moved <- time.Now():
				default:
				}
			}
			return
		}
	}
}

// cpu is what the console uses of a core for a while.
func (c *watched) cpu(b *testing.B, long time.Duration) float64 {
	b.Helper()
	before, began := c.used(b), time.Now()
	time.Sleep(long)
	return (c.used(b) - before).Seconds() / time.Since(began).Seconds()
}

// used is the time that the console has worked.
func (c *watched) used(b *testing.B) time.Duration {
	b.Helper()
	text := need.Get(os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.pid)))(b)
	_, rest, _ := strings.Cut(string(text), ") ")
	var user, system int64
	fields := strings.Fields(rest)
	fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	return time.Duration(user+system) * 10 * time.Millisecond // a hundred ticks a second
}

// measure presses keys while the ledger changes so often.
func (c *watched) measure(b *testing.B, store ledger.Store, long time.Duration, perSecond int) {
	b.Helper()
	over, end := context.WithTimeout(context.Background(), long)
	defer end()
	var made atomic.Int64
	var writer sync.WaitGroup
	writer.Go(func() { change(b, over, store, perSecond, &made) })
	var waits []time.Duration
	began, before := time.Now(), c.used(b)
	for n := 0; over.Err() == nil; n++ {
		time.Sleep(100 * time.Millisecond)
		for len(c.moved) > 0 {
			<-c.moved
		}
		pressed := time.Now()
		io.WriteString(c.tty, []string{"j", "k"}[n%2])
		select {
		case at := <-c.moved:
			waits = append(waits, at.Sub(pressed))
		case <-time.After(2 * time.Second):
			b.Fatalf("a key shows nothing:\n%s", c.em.Render())
		}
	}
	cores := (c.used(b) - before).Seconds() / time.Since(began).Seconds()
	rate := float64(made.Load()) / time.Since(began).Seconds()
	writer.Wait()
	time.Sleep(5 * time.Second)
	idle := c.cpu(b, min(long, 20*time.Second))
	slices.Sort(waits)
	for name, p := range map[string]int{"p50-ms": 50, "p99-ms": 99} {
		b.ReportMetric(float64(waits[len(waits)*p/100].Microseconds())/1000, name)
	}
	b.ReportMetric(cores, "cores")
	b.ReportMetric(100*idle, "idle-%")
	b.ReportMetric(rate, "changes/s")
	b.ReportMetric(0, "ns/op")
}

// change makes doubts that join outages, and settles them by a late answer.
func change(b *testing.B, over context.Context, s ledger.Store, perSecond int, made *atomic.Int64) {
	actor := ledger.Actor{Name: "billing", Machine: true}
	room, ctx := make(chan struct{}, 32), context.Background()
	tick := time.NewTicker(3 * time.Second / time.Duration(perSecond))
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	for i := 0; over.Err() == nil; i++ {
		<-tick.C
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			id := ledger.NewID()
			res, err := ledger.Begin(ctx, s, ledger.BeginRequest{ChangeID: ledger.NewID(), AttemptID: ledger.NewID(), OperationID: id, Kind: payKind(i % loadOutages), Key: id, Token: "tok-" + id,
				Input: []byte(`{"amount":100}`), Deadline: time.Minute, Actor: actor})
			for _, outcome := range []ledger.Outcome{ledger.OutcomeUncertain, ledger.OutcomeCommitted} {
				if err == nil {
					_, err = ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: res.Attempt.ID, Outcome: outcome, TokenSent: true, Actor: actor})
				}
			}
			if err != nil {
				b.Error(err)
				return
			}
			made.Add(3)
		})
	}
}
