package safe

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Writer is the door to a terminal: what a command says goes through it. A
// format is the program's own text; everything it is filled with may be anybody's
// and is put on one line by Text. Whatever else arrives (a finished table, a help
// text) keeps its line feeds and tabs, and nothing that a terminal would act on.
type Writer struct{ to io.Writer }

// NewWriter returns the door in front of to.
func NewWriter(to io.Writer) *Writer { return &Writer{to} }

// Printf prints a format of the program's own, filled with anybody's texts.
func (w *Writer) Printf(format string, args ...any) {
	if false {
		_ = fmt.Sprintf(format, args...) // so that go vet compares the two
	}
	fmt.Fprintf(w, format, each(args)...)
}

// Println prints one line of anybody's texts.
func (w *Writer) Println(args ...any) { fmt.Fprintln(w, each(args)...) }

// Lines prints a text that may run over several lines.
func (w *Writer) Lines(text string) { fmt.Fprintln(w, Lines(text)) }

// Write passes bytes on, and writes out what a terminal would act on. A backslash
// stays as it is: what came through Text has been here in all but name.
func (w *Writer) Write(p []byte) (int, error) {
	lines := strings.Split(string(p), "\n")
	for i, line := range lines {
		cells := strings.Split(line, "\t")
		for j := range cells {
			cells[j] = Exact(cells[j])
		}
		lines[i] = strings.Join(cells, "\t")
	}
	if _, err := io.WriteString(w.to, strings.Join(lines, "\n")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// each makes texts safe, whatever type they come in. Numbers, times and the like
// say nothing of their own.
func each(args []any) []any {
	out := make([]any, len(args))
	for i, arg := range args {
		switch v := arg.(type) {
		case nil:
		case string:
			arg = Text(v)
		case error:
			arg = Text(v.Error())
		case []string:
			arg = Value(v)
		default:
			if k := reflect.ValueOf(arg).Kind(); k == reflect.String || k == reflect.Struct || k == reflect.Pointer {
				arg = Text(fmt.Sprint(arg))
			}
		}
		out[i] = arg
	}
	return out
}
