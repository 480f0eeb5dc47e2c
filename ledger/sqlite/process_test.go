package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
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
	"saturate": saturate, "commit": commitOnLine, "once": once,
}

// other starts the test binary in a role, with more in its environment.
func other(t testing.TB, role, path string, env ...string) (*exec.Cmd, *bufio.Scanner, io.WriteCloser) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "INDOUBT_TEST_ROLE="+role, "INDOUBT_TEST_LEDGER="+path), env...)
	cmd.Stderr = os.Stderr
	out := need.Get(cmd.StdoutPipe())(t)
	in := need.Get(cmd.StdinPipe())(t)
	need.OK(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd, bufio.NewScanner(out), in
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
