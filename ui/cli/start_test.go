//go:build unix

package cli_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"indoubt/ledger/need"
	"indoubt/ledger/record/command/standby"
)

// initOf is what one package did before main, as the runtime traces it.
type initOf struct {
	ms     float64
	bytes  int
	allocs int
}

// inits starts the program once and returns what each package did before main.
func inits(t testing.TB, cmd *exec.Cmd) map[string]initOf {
	t.Helper()
	cmd.Env = append(cmd.Env, "GODEBUG=inittrace=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err, stderr.String())
	}
	out := map[string]initOf{}
	for line := range strings.Lines(stderr.String()) {
		var name string
		var at float64
		var did initOf
		if _, err := fmt.Sscanf(line, "init %s @%g ms, %g ms clock, %d bytes, %d allocs", &name, &at, &did.ms, &did.bytes, &did.allocs); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		out[name] = did
	}
	need.Must(t, len(out) >= 10, "only %d packages told what they did", len(out))
	return out
}

// Every command pays for what each package does before main. A package that
// allocates much there builds something that it should build when it is first
// used, and ours have less of an excuse than those of others. BenchmarkStart has the
// times.
func TestNoPackageIsBusyBeforeMain(t *testing.T) {
	for name, did := range inits(t, binary(place(t), "--version")) {
		bytes, allocs := 200<<10, 1100
		if strings.HasPrefix(name, "indoubt/") {
			bytes, allocs = 60<<10, 300
		}
		need.That(t, did.bytes <= bytes && did.allocs <= allocs,
			"%s allocates %d bytes in %d steps before main", name, did.bytes, did.allocs)
	}
}

// A guard that is dismissed has waited before nearly every other package. One that has
// something to do goes on to the rest of the program.
func TestAGuardWaitsBeforeTheRest(t *testing.T) {
	dir := place(t)
	guard := func(charges string) int {
		cmd := binary(dir, append(slices.Clone(standby.Args), "--ledger", "none.db")...)
		cmd.Stdin = strings.NewReader(charges)
		return len(inits(t, cmd))
	}
	whole := len(inits(t, binary(dir, "--version")))
	if n := guard("a 4194304 0 60000\n- 0 0 0\n"); n > whole/4 {
		t.Errorf("a guard that is dismissed has initialised %d of %d packages", n, whole)
	}
	if n := guard("- 4194304 0 60000\n"); n < whole {
		t.Errorf("a guard with something to do has initialised %d of %d packages", n, whole)
	}
}

// The linker leaves out methods that nothing calls, unless something could call any
// method by its name: a template, or reflection. Then the program is a fifth larger,
// and every start is slower.
func TestUnusedMethodsAreNotLinked(t *testing.T) {
	linked := need.Get(os.ReadFile(program))(t)
	need.Must(t, bytes.Contains(linked, []byte("cobra.(*Command).ExecuteContextC\x00")),
		"the program does not name its methods")
	need.That(t, !bytes.Contains(linked, []byte("cobra.(*Command).SetUsageTemplate\x00")),
		"a method that nothing calls is linked; what keeps it: go build -ldflags=-dumpdep 2>&1 | grep ReflectMethod")
}

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
