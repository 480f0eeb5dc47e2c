//go:build unix

package reconcile

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// BenchmarkReads settles operations in doubt by reads that take 20 ms at a
// server in a process of its own, 64 at a time, beside the time the waiting
// alone would take. They were summed up and priced as they came. cpu-us/op is what it costs this process.
func BenchmarkReads(b *testing.B) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RECONCILE_TEST_LISTER=1")
	in := need.Get(cmd.StdinPipe())(b)
	out := need.Get(cmd.StdoutPipe())(b)
	need.OK(b, cmd.Start())
	defer func() { in.Close(); _ = cmd.Wait() }()
	lines := bufio.NewReader(out)
	url := need.Get(lines.ReadString('\n'))(b)
	const latency, width = 20 * time.Millisecond, 64
	w := newWorld(b, askingOne("    concurrency: 64\n"))
	w.policy(fmt.Sprintf(askingOne("    concurrency: 64\n"), strings.TrimSpace(url)))
	for range b.N {
		fmt.Fprintln(in, w.doubt("pay", 1).Token)
	}
	fmt.Fprintln(in)
	need.Get(lines.ReadString('\n'))(b)
	e := w.leading()
	need.Get(e.follow(w.ctx))(b)
	for need.Get(e.priceBatch(w.ctx))(b) > 0 {
	}
	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	b.ResetTimer()
	s, err := e.Once(context.Background(), nil)
	b.StopTimer()
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	need.Must(b, err == nil && s.Read[ledger.Landed] == b.N, "%+v %v", s, err)
	cpu := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	ideal := float64(latency.Nanoseconds()) / width
	b.ReportMetric(ideal, "ideal-ns/op")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/ideal, "x-ideal")
	b.ReportMetric(float64(cpu)/float64(b.N)/1000, "cpu-us/op")
}
