package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// The test binary is also the other process: its first argument after -- says
// what to do, on which ledger.
func TestMain(m *testing.M) {
	if role := os.Getenv("INDOUBT_TEST_ROLE"); role != "" {
		if err := roles[role](os.Getenv("INDOUBT_TEST_LEDGER")); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var roles = map[string]func(path string) error{
	"write": write, "saturate": saturate, "park": park, "commit": commitOnLine, "once": once,
}

// other starts the test binary in a role.
func other(t testing.TB, role, path string) (*exec.Cmd, *bufio.Scanner, io.WriteCloser) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "INDOUBT_TEST_ROLE="+role, "INDOUBT_TEST_LEDGER="+path)
	cmd.Stderr = os.Stderr
	out := need.Get(cmd.StdoutPipe())(t)
	in := need.Get(cmd.StdinPipe())(t)
	need.OK(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd, bufio.NewScanner(out), in
}

// write begins and settles from eight goroutines for ever, and says what was
// acknowledged.
func write(path string) error {
	s, err := Create(ctx, path, Options{})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	say := func(what, id string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(what, id)
	}
	failed := make(chan error)
	for range 8 {
		go func() {
			for {
				res, err := ledger.Begin(ctx, s, request(func(r *ledger.BeginRequest) { r.Key = ledger.NewID() }))
				if err != nil {
					failed <- err
					return
				}
				say("begun", res.Operation.ID)
				if _, err := ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: res.Attempt.ID, Outcome: ledger.OutcomeCommitted, Actor: billing}); err != nil {
					failed <- err
					return
				}
				say("settled", res.Operation.ID)
			}
		}()
	}
	return <-failed
}

// A writer that is killed in the middle of anything has lost nothing that it
// was told is recorded, and the ledger opens as if nothing had happened.
func TestI10_KilledWriterLosesNothing(t *testing.T) {
	path := t.TempDir() + "/ledger.db"
	told := acknowledged{}
	for round := range 4 {
		cmd, out, _ := other(t, "write", path)
		told.hear(out, func() { time.AfterFunc(time.Duration(100+130*round)*time.Millisecond, func() { cmd.Process.Kill() }) }, never)
		cmd.Wait()
	}
	told.whole(t, path)
}

// acknowledged is what a writer was told is recorded: begun or settled, by id.
type acknowledged map[string]string

// hear takes in what a writer says until it ends. end is called at its first word, so
// that a slow start is no excuse; what it says once deaf is not taken in.
func (a acknowledged) hear(out *bufio.Scanner, end func(), deaf func() bool) {
	for first := true; out.Scan(); first = false {
		if first {
			end()
		}
		if deaf() {
			continue
		}
		if what, id, ok := strings.Cut(out.Text(), " "); ok && len(id) == 36 {
			a[id] = what
		}
	}
}

func never() bool { return false }

// whole opens the ledger and finds everything that was acknowledged, and nothing half.
func (a acknowledged) whole(t *testing.T, path string) {
	t.Helper()
	need.Must(t, len(a) != 0, "nothing was written before the end")
	s := need.Get(Open(ctx, path, Options{}))(t)
	defer s.Close()
	for id, what := range a {
		rec := need.Get(s.Read(ctx, ledger.Locator{ID: id}))(t)
		if what == "settled" && rec.Operation.State != ledger.Committed || !rec.Found {
			t.Fatalf("%s was %s and is %q", id, what, rec.Operation.State)
		}
		if o := rec.Operation; len(rec.Attempts) != 1 || (o.State == ledger.Pending) != (rec.Attempts[0].Outcome == "") {
			t.Fatalf("half a change: %+v", rec)
		}
	}
	var ok string
	need.OK(t, s.read.QueryRow(`PRAGMA integrity_check`).Scan(&ok))
	counts := need.Get(s.Counts(ctx, time.Now()))(t)
	var all, events int
	need.OK(t, s.read.QueryRow(`SELECT (SELECT count(*) FROM operations), (SELECT count(*) FROM events)`).Scan(&all, &events))
	need.Must(t, ok == "ok" && counts.All == all && events == all+counts.ByState[ledger.Committed],
		"integrity %s, %d operations, %d events, counts %+v", ok, all, events, counts)
}

// park moves one operation until it has moved it often enough, always from the
// version it has seen.
func park(path string) error {
	s, err := Open(ctx, path, Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	won, err := parkOften(s, "one", 5)
	fmt.Println(won)
	return err
}

func parkOften(s *Store, id string, times int) (won int, err error) {
	for won < times {
		rec, err := s.Read(ctx, ledger.Locator{ID: id})
		if err != nil {
			return won, err
		}
		_, err = ledger.Decide(ctx, s, ledger.Decision{ChangeID: ledger.NewID(), ID: id, Version: rec.Operation.Version,
			Verb: ledger.VerbPark, Until: rec.Now.Add(time.Hour), Actor: ann})
		switch {
		case err == nil:
			won++
		case !errors.Is(err, ledger.ErrMoved):
			return won, err
		}
	}
	return won, nil
}

func TestI7_ManyWritersOneVersionEach(t *testing.T) {
	s := need.Get(Create(ctx, t.TempDir()+"/ledger.db", Options{}))(t)
	defer s.Close()
	res := begin(t, s, func(r *ledger.BeginRequest) { r.OperationID = "one" })
	first := settleAs(t, s, res.Attempt.ID, ledger.OutcomeUncertain)
	var outs []*bufio.Scanner
	for range 4 {
		_, out, _ := other(t, "park", s.path)
		outs = append(outs, out)
	}
	var won atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			n, err := parkOften(s, "one", 5)
			need.That(t, err == nil, "%v", err)
			won.Add(int64(n))
		})
	}
	wg.Wait()
	for _, out := range outs {
		for out.Scan() {
			n := need.Get(strconv.Atoi(out.Text()))(t)
			won.Add(int64(n))
		}
	}
	rec := need.Get(s.Read(ctx, ledger.Locator{ID: "one"}))(t)
	if won.Load() != 100 || rec.Operation.Version != first.Version+100 {
		t.Fatalf("%d won, version went from %d to %d", won.Load(), first.Version, rec.Operation.Version)
	}
	events := need.Get(s.History(ctx, ledger.HistoryQuery{Operation: "one", Limit: 1000}))(t)
	for i := 1; i < len(events); i++ {
		need.Must(t, events[i].Version == events[i-1].Version+1, "version %d after %d", events[i].Version, events[i-1].Version)
	}
}

// saturate commits for two seconds and prints how often and the longest wait.
func saturate(path string) error {
	s, err := Open(ctx, path, Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	n, longest := 0, time.Duration(0)
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); n++ {
		began := time.Now()
		if _, err := ledger.Begin(ctx, s, request(func(r *ledger.BeginRequest) { r.Key = ledger.NewID() })); err != nil {
			return err
		}
		longest = max(longest, time.Since(began))
	}
	fmt.Println(n, longest.Microseconds())
	return nil
}

// BenchmarkFourProcesses saturates one ledger from four processes. fairness is
// the smallest share over the largest.
func BenchmarkFourProcesses(b *testing.B) {
	s := need.Get(Create(ctx, b.TempDir()+"/ledger.db", Options{}))(b)
	defer s.Close()
	for range b.N {
		var outs []*bufio.Scanner
		var ins []io.Writer
		for range 4 {
			_, out, in := other(b, "saturate", s.path)
			need.Must(b, out.Scan(), "no writer")
			outs, ins = append(outs, out), append(ins, in)
		}
		for _, in := range ins {
			fmt.Fprintln(in)
		}
		var shares []int
		total, longest := 0, 0
		for _, out := range outs {
			var n, us int
			need.Must(b, out.Scan(), "a writer failed")
			fmt.Sscan(out.Text(), &n, &us)
			shares = append(shares, n)
			total, longest = total+n, max(longest, us)
		}
		b.ReportMetric(float64(slices.Min(shares))/float64(slices.Max(shares)), "fairness")
		b.ReportMetric(float64(longest)/1000, "longest-ms")
		b.ReportMetric(float64(total)/2, "commits/s")
	}
	b.ReportMetric(0, "ns/op")
}

// commitOnLine begins an operation for every line it is given and says when.
func commitOnLine(path string) error {
	s, err := Open(ctx, path, Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		if _, err := ledger.Begin(ctx, s, request(func(r *ledger.BeginRequest) { r.Key = ledger.NewID() })); err != nil {
			return err
		}
		fmt.Println(time.Now().UnixNano())
	}
	return nil
}

// BenchmarkCommitToSeen measures from the return of a commit in another process
// to the event being read here.
func BenchmarkCommitToSeen(b *testing.B) {
	s := need.Get(Create(ctx, b.TempDir()+"/ledger.db", Options{}))(b)
	defer s.Close()
	_, out, in := other(b, "commit", s.path)
	wctx, cancel := context.WithCancel(ctx)
	heard := s.Watch(wctx)
	var after ledger.Cursor
	var waits []time.Duration
	for range b.N {
		for range 400 {
			fmt.Fprintln(in)
			var seen time.Time
			for seen.IsZero() {
				<-heard
				events, next, err := s.Follow(ctx, after, 100)
				need.OK(b, err)
				if len(events) > 0 {
					seen, after = time.Now(), next
				}
			}
			need.Must(b, out.Scan(), "the writer failed")
			at, _ := strconv.ParseInt(out.Text(), 10, 64)
			waits = append(waits, max(0, seen.Sub(time.Unix(0, at))))
			time.Sleep(2 * time.Millisecond)
		}
	}
	cancel()
	slices.Sort(waits)
	b.ReportMetric(float64(waits[len(waits)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(0, "ns/op")
}
