// Package need says in one line what a test expects. An error that it does not expect
// ends the test; after a difference it goes on.
package need

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"reflect"
	"strings"
	"sync"
)

// T is what is asked of a test, be it of testing or of rapid.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// OK ends the test where there is an error; about says what was tried.
func OK(t T, err error, about ...any) {
	t.Helper()
	if err != nil {
		t.Fatal(lead(about) + err.Error())
	}
}

// That says what is wrong where ok does not hold.
func That(t T, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// Must says what is wrong where ok does not hold, and ends the test.
func Must(t T, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatal(fmt.Sprintf(format, args...))
	}
}

// Get is the value of a call that must not fail: text := need.Get(os.ReadFile(path))(t).
func Get[V any](v V, err error) func(t T) V {
	return func(t T) V {
		t.Helper()
		OK(t, err)
		return v
	}
}

// Equal compares; about says which case it is, or what is compared.
func Equal[V comparable](t T, got, want V, about ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%sgot %s, want %s", lead(about), shown(got), shown(want))
	}
}

// Contains looks for each of the parts.
func Contains(t T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}

// Lacks looks for a part that must not be there.
func Lacks(t T, text, part string) {
	t.Helper()
	if strings.Contains(text, part) {
		t.Errorf("%q is in:\n%s", part, text)
	}
}

// Program skips the test where the machine lacks one that it runs.
func Program(t interface {
	Helper()
	Skipf(format string, args ...any)
}, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
}

// Steps is how often a test repeats what is random: few in the fast lane, so that the
// rule is seen, and many in the slow one, which looks for what is rare.
func Steps(few, many int) int {
	if Soak {
		return many
	}
	return few
}

// FixSeed has rapid draw the same at every run of the fast lane, unless a seed is given.
// A test calls it before rapid.Check.
var FixSeed = sync.OnceFunc(func() {
	if f := flag.Lookup("rapid.seed"); f != nil && !Soak && f.Value.String() == f.DefValue {
		_ = f.Value.Set("1")
	}
})

// Rand draws the same at every run of the fast lane, and anew in the slow one, where the
// test says which seed it had.
func Rand(t interface {
	Logf(format string, args ...any)
}) *rand.Rand {
	seed := uint64(1)
	if Soak {
		seed = rand.Uint64()
		t.Logf("seed %d", seed)
	}
	return rand.New(rand.NewPCG(seed, seed))
}

func lead(about []any) string {
	var b strings.Builder
	for _, a := range about {
		fmt.Fprintf(&b, "%+v: ", a)
	}
	return b.String()
}

// shown is a value as it is easiest to compare: a text of several lines stays one.
func shown(v any) string {
	text := fmt.Sprintf("%+v", v)
	if reflect.ValueOf(v).Kind() == reflect.String && !strings.Contains(text, "\n") {
		return fmt.Sprintf("%q", text)
	}
	return text
}
