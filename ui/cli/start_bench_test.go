//go:build soak

package cli_test

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/creack/pty"

	"indoubt/ledger/need"
)

// BenchmarkStart starts the program and ends it: the time from exec to exit, and
// the time before main of the package that needs most, in its best start; and the time
// from exec to a first frame of the console, beside the smallest program of its kind.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	binary(dir, "--version") // builds it
	b.Run("version", func(b *testing.B) {
		best := map[string]float64{}
		for b.Loop() {
			b.StopTimer() // a start that is traced takes longer
			for name, did := range inits(b, binary(dir, "--version")) {
				if before, ok := best[name]; ok {
					did.ms = math.Min(before, did.ms)
				}
				best[name] = did.ms
			}
			b.StartTimer()
			need.OK(b, binary(dir, "--version").Run())
		}
		slowest := ""
		for name, ms := range best {
			if slowest == "" || ms > best[slowest] {
				slowest = name
			}
		}
		b.ReportMetric(best[slowest], "slowest-init-ms")
		b.Logf("%s needs %.2f ms before main", slowest, best[slowest])
	})
	b.Run("run", func(b *testing.B) {
		for b.Loop() {
			cmd := binary(dir, "run", "--kind", "start", "--", "true")
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatal(err, string(out))
			}
		}
	})
	b.Run("frame", func(b *testing.B) {
		bare := filepath.Join(dir, "bare")
		need.Get(exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bare, "./testdata/bare").CombinedOutput())(b)
		need.Get(binary(dir, "run", "--kind", "a.start", "--doubt-exit", "0", "--", "false").CombinedOutput())(b)
		var ours, smallest time.Duration
		for b.Loop() {
			cmd := exec.Command(bare)
			cmd.Env = append(os.Environ(), "TERM=xterm-256color")
			smallest += frame(b, cmd, "hello")
			ours += frame(b, binary(dir), "a.start")
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(ours.Milliseconds())/float64(b.N), "frame-ms")
		b.ReportMetric(float64(ours)/float64(smallest), "×bare")
	})
}

// frame starts a program on a terminal, and ends it when it has shown a text. It gives
// the time that it was shown after.
func frame(b *testing.B, cmd *exec.Cmd, text string) time.Duration {
	began := time.Now()
	tty := need.Get(pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 120}))(b)
	defer tty.Close()
	var shown []byte
	for part := make([]byte, 64<<10); !bytes.Contains(shown, []byte(text)); {
		n := need.Get(tty.Read(part))(b)
		shown = append(shown, part[:n]...)
	}
	took := time.Since(began)
	need.OK(b, cmd.Process.Kill())
	_ = cmd.Wait()
	return took
}
