package base

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"indoubt/ledger"
	"indoubt/ledger/record"
	"indoubt/ui/safe"
)

const (
	ExitDone       = 0
	ExitError      = 1
	ExitUsage      = 2
	ExitNotFound   = 3
	exitConflict   = 4
	exitRefused    = 5
	ExitInDoubt    = 6
	exitInProgress = 7
	exitKeyReused  = 8
	exitFinished   = 9
)

// The effects a command may report. A rehearsal says would_….
const (
	EffectCreated     = "created"
	EffectUpdated     = "updated"
	EffectNoop        = "noop"
	EffectWouldCreate = "would_create"
	EffectWouldUpdate = "would_update"
)

// EffectOf is what a command does to the ledger, by whether it makes something new.
func EffectOf(creates, dryRun bool) string {
	switch {
	case creates && dryRun:
		return EffectWouldCreate
	case creates:
		return EffectCreated
	case dryRun:
		return EffectWouldUpdate
	}
	return EffectUpdated
}

// formatOfJSON is the version of the JSON. Fields that are added leave it as it is.
const formatOfJSON = 1

// Envelope is the one object that --json prints.
type Envelope struct {
	Format int        `json:"format"`
	OK     bool       `json:"ok"`
	Effect string     `json:"effect,omitempty"`
	Data   any        `json:"data,omitempty"`
	Error  *ErrorJSON `json:"error,omitempty"`
}

// ErrorJSON is a failure as --json prints it.
type ErrorJSON struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	*record.Facts
}

// Done prints the result of a command that succeeded: data as JSON, or what
// text prints.
func (a *App) Done(effect string, data any, text func(w *safe.Writer)) error {
	if a.JSON {
		return PrintJSON(a.Out, Envelope{OK: true, Effect: effect, Data: data})
	}
	if text != nil {
		text(a.Out)
	}
	return nil
}

// Left tells a person what a list does not show, and how to see it; in the JSON that is
// a field.
func (a *App) Left(format safe.Format, args ...any) {
	if !a.JSON {
		a.ErrOut.Println(safe.Say(format, args...))
	}
}

// Within is the first part of a list that was read one longer than its limit; cut: it had more.
func Within[T any](a *App, all []T, limit int) (some []T, cut bool) {
	if cut = len(all) > limit; cut {
		all = all[:limit]
		a.Left("the newest %s; there are more: --limit", ledger.Count(limit))
	}
	return all, cut
}

// mostListed is the largest --limit of a list.
const mostListed = 10_000

// AtMost refuses a --limit that no list can have.
func AtMost(limit int) error {
	if limit < 1 || limit > mostListed {
		return Usage(fmt.Sprintf("--limit %d is not between 1 and %d", limit, mostListed), "")
	}
	return nil
}

// Fail prints an error and returns its exit code.
func (a *App) Fail(err error) int {
	var quiet *ExitOnly
	if errors.As(err, &quiet) {
		return quiet.Code
	}
	f := AsFailure(err)
	if a.JSON {
		if err := PrintJSON(a.Out, Envelope{Error: f.JSON(), Effect: f.Effect, Data: f.Data}); err != nil {
			return ExitError
		}
		return f.Exit()
	}
	if f.Text != nil {
		f.Text(a.Out)
	}
	a.Say(f)
	return f.Exit()
}

// Say tells on standard error what went wrong.
func (a *App) Say(f *Failure) {
	if f.Message != "" {
		name := "indoubt: "
		if f.Code == "no_ledger" {
			name = "" // a sentence of its own, the first that a new user reads
		}
		a.ErrOut.Println(safe.Exact(name + f.Message))
	}
	for _, line := range f.More {
		a.ErrOut.Println(safe.Exact(line))
	}
	for _, line := range strings.Split(f.Hint, "\n") {
		if line != "" {
			a.ErrOut.Println(safe.Exact("  " + line))
		}
	}
}

// ExitOnly ends the program with a code and no word: everything was said.
type ExitOnly struct{ Code int }

func (e *ExitOnly) Error() string { return fmt.Sprintf("exit %d", e.Code) }

// PrintJSON writes one value as a line of JSON.
func PrintJSON(w *safe.Writer, v any) error {
	b, err := Encode(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Encode is JSON for people and pipes: no HTML escapes, and nothing that a
// terminal would act on.
func Encode(v any) ([]byte, error) {
	if e, ok := v.(Envelope); ok {
		e.Format = formatOfJSON
		v = e
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("write JSON: %w", err)
	}
	return []byte(escapeUnseen(strings.TrimRight(b.String(), "\n"))), nil
}

// escapeUnseen writes runes that do not print as JSON escapes. They occur only
// inside strings, where the escape means the same to every reader.
func escapeUnseen(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < 0x7f || safe.Of(string(r)).String() == string(r):
			b.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return b.String()
}

// FirstLine is a text up to its first line break.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// OutlivePipes keeps a closed standard output or error from ending this process:
// what it is about to record must be recorded all the same. Writes to them err
// then. Processes it starts are not affected.
func OutlivePipes() (stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGPIPE)
	return func() { signal.Stop(c) }
}

// TellInterrupt has the script that this is a part of hear of the interrupt too.
func TellInterrupt() {
	signal.Ignore(syscall.SIGINT)
	_ = syscall.Kill(0, syscall.SIGINT)
}

// WhileRead is ctx until the other end of a pipe or terminal is closed; a write to it errs then.
func WhileRead(ctx context.Context, out io.Writer) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(ctx)
	dies := OutlivePipes()
	stop := func() { end(); dies() }
	if f, ok := out.(*os.File); ok {
		fds := []unix.PollFd{{Fd: int32(f.Fd())}}
		go func() {
			for ctx.Err() == nil {
				if n, _ := unix.Poll(fds, 1000); n > 0 {
					if fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
						end()
					}
					return
				}
			}
		}()
	}
	return ctx, stop
}
