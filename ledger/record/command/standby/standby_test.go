package standby

import (
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"indoubt/ledger/need"
)

// What a guard has yet to read, after some charges came and the input ended or not.
func TestWhatIsLeftForTheGuard(t *testing.T) {
	const none = "dismissed"
	for _, c := range []struct {
		name  string
		lines []string
		ends  bool
		after time.Duration // at least, until there is something to do
		left  string
	}{
		{"no charge", nil, true, 0, none},
		{"one that is over", []string{"a 7 0 5000\n", "- 0 0 0\n"}, true, 0, none},
		{"in pieces", []string{"a 7 0 50", "00\n- 0", " 0 0\n"}, true, 0, none},
		{"one in force", []string{"- 0 0 0\n", "a 7 9 0\n"}, true, 0, "a 7 9 0\n"},
		{"one with a time", []string{"a 7 9 5000\n"}, true, 0, "a 7 9 5000\n"},
		{"half a line", []string{"a 7 9 0\nb 8"}, true, 0, "a 7 9 0\nb 8"},
		{"what is no charge", []string{"a 7 9 0\nb 8 x\n- 0 0 0\n"}, false, 0, "a 7 9 0\nb 8 x\n- 0 0 0\n"},
		{"its time is nearly up", []string{"a 7 9 5000\n"}, false, 4500 * time.Millisecond, "a 7 9 500\n"},
		{"a short time", []string{"a 7 9 400\n"}, false, 200 * time.Millisecond, "a 7 9 200\n"},
		{"extended", []string{"a 7 9 1000\n", "a 7 9 9000\n"}, false, 8500 * time.Millisecond, "a 7 9 500\n"},
		{"read late", []string{"a 7 9 5000@" + ago(time.Second) + "\n"}, false, 3500 * time.Millisecond, "a 7 9 500\n"},
		{"read too late", []string{"a 7 9 5000@" + ago(time.Minute) + "\n"}, false, 500 * time.Microsecond, "a 7 9 1\n"},
		{"the clock was set back", []string{"a 7 9 5000@" + ago(-time.Minute) + "\n"}, false, 4500 * time.Millisecond, "a 7 9 500\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in, out := io.Pipe()
				go func() {
					for _, line := range c.lines {
						_, _ = out.Write([]byte(line))
					}
					if c.ends {
						out.Close()
					}
				}()
				began, gone := time.Now(), false
				r := wait(in, func() { gone = true })
				need.Equal(t, time.Since(began), c.after, "after")
				out.Close()
				left, err := io.ReadAll(r)
				if gone {
					left = []byte(none)
				}
				now := "@" + ago(-time.Since(began))
				need.That(t, err == nil && strings.ReplaceAll(string(left), now, "") == c.left, "%q %v, want %q", left, err, c.left)
			})
		})
	}
}

// ago is a moment before that in which a bubble of synctest begins.
func ago(d time.Duration) string {
	return strconv.FormatInt(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(-d).UnixMilli(), 10)
}

// Each import is one more package that comes first.
func TestImportsLittle(t *testing.T) {
	text := need.Get(os.ReadFile("standby.go"))(t)
	if dear := regexp.MustCompile(`(?m)^\t"(fmt|strings|bufio|errors|context|.*\..*/.*|indoubt/.*)"$`).FindSubmatch(text); dear != nil {
		t.Errorf("imports %s", dear[1])
	}
}
