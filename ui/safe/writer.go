package safe

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync/atomic"
)

// Writer stands in front of a terminal: all that a command prints goes through
// it. A format is the program's own text; each argument is put on one line by
// Of. Other bytes (a finished table, a help text) keep their line feeds and
// tabs, and lose what a terminal would act on.
type Writer struct {
	to     io.Writer
	failed atomic.Pointer[error] // what the first Write that failed said
}

func NewWriter(to io.Writer) *Writer { return &Writer{to: to} }

// Err is why something that was printed did not arrive; nil where all did.
func (w *Writer) Err() error {
	if err := w.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (w *Writer) Printf(format string, args ...any) {
	if false {
		_ = fmt.Sprintf(format, args...) // so that go vet compares the two
	}
	fmt.Fprintf(w, format, each(args)...)
}

func (w *Writer) Println(args ...any) { fmt.Fprintln(w, each(args)...) }

// Lines prints a text that may run over several lines, and that a person may copy: a
// backslash stays as it is written.
func (w *Writer) Lines(text string) { fmt.Fprintln(w, text) }

// Write passes bytes on, and writes out what a terminal would act on. A backslash
// stays as it is: what came through Of is safe already.
func (w *Writer) Write(p []byte) (int, error) {
	lines := strings.Split(string(p), "\n")
	for i, line := range lines {
		cells := strings.Split(line, "\t")
		for j := range cells {
			cells[j] = Exact(cells[j]).s
		}
		lines[i] = strings.Join(cells, "\t")
	}
	if _, err := io.WriteString(w.to, strings.Join(lines, "\n")); err != nil {
		w.failed.CompareAndSwap(nil, &err)
		return 0, err
	}
	return len(p), nil
}

// each makes every argument that holds text safe. Numbers stay as they are.
func each(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case nil:
		case Text:
			arg = v.s
		case string:
			arg = Of(v).s
		case error:
			arg = Of(v.Error()).s
		case []string:
			lines := make([]string, len(v))
			for i, text := range Each(v) {
				lines[i] = text.s
			}
			arg = lines
		default:
			if k := reflect.ValueOf(arg).Kind(); k == reflect.String || k == reflect.Struct || k == reflect.Pointer {
				arg = Of(fmt.Sprint(arg)).s
			}
		}
		out[i] = arg
	}
	return out
}
