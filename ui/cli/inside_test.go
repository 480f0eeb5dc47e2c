package cli

import (
	"context"
	"io"
	"strings"
	"time"

	"indoubt/ledger/hostclock"
	"indoubt/ui/cli/base"
)

// Inside runs one command line in this process with the environment of another one, when
// some time has passed.
func Inside(ctx context.Context, env []string, later time.Duration, stdout, stderr io.Writer, args ...string) (exit int) {
	a := base.NewApp(strings.NewReader(""), stdout, stderr)
	a.Env = func(name string) (value string) {
		for _, pair := range env {
			if its, is := strings.CutPrefix(pair, name+"="); is {
				value = its // the last one counts
			}
		}
		return value
	}
	if later > 0 {
		a.Clock = func() time.Time { return time.Now().Add(later) }
		a.Steady = hostclock.With(a.Clock)
	}
	exit = run(ctx, a, args)
	return exit
}
