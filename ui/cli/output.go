package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/record"
	"indoubt/ui/safe"
)

const (
	exitDone       = 0
	exitError      = 1
	exitUsage      = 2
	exitNotFound   = 3
	exitConflict   = 4
	exitRefused    = 5
	exitInDoubt    = 6
	exitInProgress = 7
	exitKeyReused  = 8
	exitFinished   = 9
)

// The effects a command may report. A rehearsal says would_….
const (
	effectCreated     = "created"
	effectUpdated     = "updated"
	effectNoop        = "noop"
	effectWouldCreate = "would_create"
	effectWouldUpdate = "would_update"
)

// effectOf is what a command does to the ledger, by whether it makes something new.
func effectOf(creates, dryRun bool) string {
	switch {
	case creates && dryRun:
		return effectWouldCreate
	case creates:
		return effectCreated
	case dryRun:
		return effectWouldUpdate
	}
	return effectUpdated
}

// formatOfJSON is the version of the JSON. Fields that are added leave it as it is.
const formatOfJSON = 1

// envelope is the one object that --json prints.
type envelope struct {
	Format int        `json:"format"`
	OK     bool       `json:"ok"`
	Effect string     `json:"effect,omitempty"`
	Data   any        `json:"data,omitempty"`
	Error  *errorJSON `json:"error,omitempty"`
}

type errorJSON struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	*record.Facts
}

// done prints the result of a command that succeeded: data as JSON, or what
// text prints.
func (a *app) done(effect string, data any, text func(w *safe.Writer)) error {
	if a.json {
		return printJSON(a.out, envelope{OK: true, Effect: effect, Data: data})
	}
	if text != nil {
		text(a.out)
	}
	return nil
}

// left tells a person what a list does not show, and how to see it; in the JSON that is
// a field.
func (a *app) left(format safe.Format, args ...any) {
	if !a.json {
		a.errOut.Println(safe.Say(format, args...))
	}
}

// within is the first part of a list that was read one longer than its limit; cut: it had more.
func within[T any](a *app, all []T, limit int) (some []T, cut bool) {
	if cut = len(all) > limit; cut {
		all = all[:limit]
		a.left("the newest %s; there are more: --limit", ledger.Count(limit))
	}
	return all, cut
}

// mostListed is the largest --limit of a list.
const mostListed = 10_000

func atMost(limit int) error {
	if limit < 1 || limit > mostListed {
		return usage(fmt.Sprintf("--limit %d is not between 1 and %d", limit, mostListed), "")
	}
	return nil
}

// fail prints an error and returns its exit code.
func (a *app) fail(err error) int {
	var quiet *exitOnly
	if errors.As(err, &quiet) {
		return quiet.code
	}
	f := asFailure(err)
	if a.json {
		if err := printJSON(a.out, envelope{Error: f.json(), Effect: f.Effect, Data: f.Data}); err != nil {
			return exitError
		}
		return f.exit()
	}
	if f.Text != nil {
		f.Text(a.out)
	}
	a.say(f)
	return f.exit()
}

// say tells on standard error what went wrong.
func (a *app) say(f *failure) {
	if f.Message != "" {
		name := "indoubt: "
		if f.Code == "no_ledger" {
			name = "" // a sentence of its own, the first that a new user reads
		}
		a.errOut.Println(safe.Exact(name + f.Message))
	}
	for _, line := range f.More {
		a.errOut.Println(safe.Exact(line))
	}
	for _, line := range strings.Split(f.Hint, "\n") {
		if line != "" {
			a.errOut.Println(safe.Exact("  " + line))
		}
	}
}

// exitOnly ends the program with a code and no word: everything was said.
type exitOnly struct{ code int }

func (e *exitOnly) Error() string { return fmt.Sprintf("exit %d", e.code) }

func printJSON(w *safe.Writer, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// encode is JSON for people and pipes: no HTML escapes, and nothing that a
// terminal would act on.
func encode(v any) ([]byte, error) {
	if e, ok := v.(envelope); ok {
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

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
