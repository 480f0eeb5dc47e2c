//go:build unix

package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

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
