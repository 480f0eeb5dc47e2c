//go:build soak

package postgres

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// want wants one key after the other on eight connections, until its input ends, as other
// processes do, and says what it sends and what was then acknowledged.
func want(url string) error {
	s, err := Open(ctx, with(url, "pool_max_conns=8"), Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	over := make(chan struct{})
	go func() { _, _ = bufio.NewReader(os.Stdin).ReadString('\n'); close(over) }()
	again := func(what func() error) error { // while the server is away
		for {
			err := what()
			if !errors.Is(err, ledger.ErrLost) && !errors.Is(err, ledger.ErrUnknown) && !errors.Is(err, ledger.ErrBusy) {
				return err
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	var all sync.WaitGroup
	failed := make(chan error, 8)
	for w := range 8 {
		all.Go(func() {
			for n := w; ; n += 8 {
				select {
				case <-over:
					return
				default:
				}
				var res ledger.BeginResult
				key := fmt.Sprint("key-", n)
				err := again(func() (err error) { res, err = ledger.Begin(ctx, s, begun(key)); return err })
				if err == nil && res.Answer == ledger.AnswerBegun {
					fmt.Println("sent", key)
					settle := ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: res.Attempt.ID, Outcome: ledger.OutcomeCommitted, Actor: ledger.Actor{Name: "pipeline", Machine: true}}
					err = again(func() error { _, err := ledger.Settle(ctx, s, settle); return err })
					fmt.Println("settled", key)
				}
				if err != nil {
					failed <- fmt.Errorf("%s: %w", key, err)
					return
				}
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed
}

// I3, I10: the server and all its processes are killed again and again, while four
// processes with eight connections each want the same keys. INDOUBT_KILLS_OF_THE_SERVER
// says how often.
func TestI10_AKilledServerLosesNothing(t *testing.T) {
	kills := need.Get(strconv.Atoi(cmp.Or(os.Getenv("INDOUBT_KILLS_OF_THE_SERVER"), "3")))(t)
	c := pgtest.Start(t, pgtest.Options{Durable: true})
	need.OK(t, c.Exec("postgres", "CREATE DATABASE ledger"))
	need.OK(t, need.Get(Create(ctx, c.URL("ledger"), Options{}))(t).Close())
	var mu sync.Mutex
	sent, settled := map[string]int{}, map[string]bool{}
	acknowledged := func() int { mu.Lock(); defer mu.Unlock(); return len(settled) }
	var hearing sync.WaitGroup
	var ends []func()
	for range 4 {
		cmd := exec.Command(os.Args[0])
		cmd.Env, cmd.Stderr = append(os.Environ(), "INDOUBT_TEST_WANTS="+c.URL("ledger")), os.Stderr
		out, in := need.Get(cmd.StdoutPipe())(t), need.Get(cmd.StdinPipe())(t)
		need.OK(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		hearing.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				what, key, _ := strings.Cut(lines.Text(), " ")
				mu.Lock()
				if what == "sent" {
					sent[key]++
				} else {
					settled[key] = true
				}
				mu.Unlock()
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("a writer: %v", err)
			}
		})
		ends = append(ends, func() { _ = in.Close() })
	}
	for n := range kills {
		for goal, end := acknowledged()+50, time.Now().Add(time.Minute); acknowledged() < goal; time.Sleep(time.Duration(1+n%7) * 3 * time.Millisecond) {
			need.That(t, time.Now().Before(end), "after %d kills nothing is recorded any more", n)
		}
		c.Kill()
		need.OK(t, c.Up())
	}
	for _, end := range ends {
		end()
	}
	hearing.Wait()

	s := opened(t, c.URL("ledger"), Options{Clock: func() time.Time { return time.Now().Add(time.Hour) }, Steady: func() ledger.Steady { return ledger.Steady{Boot: "later", At: time.Hour} }})
	for need.Get(s.Expire(ctx, 100))(t) > 0 {
	}
	counts := need.Get(s.Counts(ctx, time.Now()))(t)
	for key, n := range sent {
		rec := need.Get(s.Read(ctx, ledger.Locator{Kind: "charge", Key: key}))(t)
		need.That(t, n == 1 && rec.Found && rec.Operation.State == ledger.Committed,
			"%s was sent %d times, and is %q", key, n, rec.Operation.State)
	}
	if stuck, open := counts.ByState[ledger.Pending], counts.All-len(sent); stuck > 0 || counts.ByState[ledger.Committed] != len(sent) || len(settled) != len(sent) {
		t.Errorf("%d are stuck; %d were sent, %d acknowledged, %+v", stuck, len(sent), len(settled), counts.ByState)
	} else {
		t.Logf("%d kills, %d sent, %d begun that no one was told of", kills, len(sent), open)
	}
	found := need.Get(s.Deviations(ctx))(t)
	need.That(t, len(found) == 0, "%+v", found)
}

func init() { others["INDOUBT_TEST_WANTS"] = want }
