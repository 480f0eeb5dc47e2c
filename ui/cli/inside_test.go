package cli

import (
	"context"
	"io"
	"strings"
	"time"

	"indoubt/ledger/hostclock"
)

// Inside runs one command line in this process with the environment of another one, when
// some time has passed.
func Inside(ctx context.Context, env []string, later time.Duration, stdout, stderr io.Writer, args ...string) (exit int) {
	a := newApp(strings.NewReader(""), stdout, stderr)
	a.env = func(name string) (value string) {
		for _, pair := range env {
			if its, is := strings.CutPrefix(pair, name+"="); is {
				value = its // the last one counts
			}
		}
		return value
	}
	if later > 0 {
		a.clock = func() time.Time { return time.Now().Add(later) }
		a.steady = hostclock.With(a.clock)
	}
	exit = a.run(ctx, args)
	return exit
}
