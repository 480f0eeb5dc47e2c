package file

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"indoubt/ledger"
	"indoubt/ledger/redact"
)

// Problem is one thing wrong with a policy file.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`   // 1-based; 0: of the file as a whole
	Column  int    `json:"column"` // 1-based, in characters
	Path    string `json:"path"`   // where in the file, e.g. kinds.stripe.charge.read.list
	Message string `json:"message"`
	Excerpt string `json:"-"`              // the line, and a mark under the column
	Hint    string `json:"hint,omitempty"` // what to write instead, "" when there is none
}

// Error is the problem as text of several lines: place, message, excerpt, hint.
func (p Problem) Error() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "%s:%d:%d: ", p.File, p.Line, p.Column)
	} else {
		fmt.Fprintf(&b, "%s: ", p.File)
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Excerpt != "" {
		b.WriteString("\n" + p.Excerpt)
	}
	if p.Hint != "" {
		b.WriteString("\n  hint: " + p.Hint)
	}
	return b.String()
}

// Errors are all problems of a file, in its order.
type Errors []Problem

func (e Errors) Error() string {
	return strings.Join(ledger.Each(e, Problem.Error), "\n")
}

func (e Errors) Sorted() Errors {
	slices.SortStableFunc(e, func(a, b Problem) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
	return e
}

// Position is a place in the file, 1-based; the zero position is built in.
type Position struct{ Line, column int }

// Place is a position and the path of what stands there: kinds.a.tests[0].want.
type Place struct {
	Position
	Path string
}

// Below is the same position, said of a field of what stands there.
func (p Place) Below(name string) Place {
	if p.Path != "" {
		name = p.Path + "." + name
	}
	return Place{p.Position, name}
}

func (p Place) At(line, column int) Place { return Place{Position{line, column}, p.Path} }

// Item is the same position, said of an element of the list there.
func (p Place) Item(i int) Place { return Place{p.Position, fmt.Sprintf("%s[%d]", p.Path, i)} }

type source struct {
	name    string
	lines   []string
	secrets []string // written out in it
}

func newSource(name string, text []byte) *source {
	return &source{name: name, lines: strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")}
}

const excerptWidth = 100

// excerpt shows the line and a mark under the column; long lines are cut
// around it. What a terminal could act on is made visible.
func (s *source) excerpt(at Position) string {
	if at.Line < 1 || at.Line > len(s.lines) {
		return ""
	}
	line := []rune(painted(strings.ToValidUTF8(s.lines[at.Line-1], "\uFFFD"), s.secrets))
	col := min(max(at.column-1, 0), len(line))
	from := 0
	if col > excerptWidth-10 {
		from = col - excerptWidth/2
	}
	to := min(from+excerptWidth, len(line))
	var shown, mark strings.Builder
	for i, r := range line[from:to] {
		text := " "
		if r != '\t' {
			text = visible(string(r))
		}
		shown.WriteString(text)
		if i < col-from {
			mark.WriteString(strings.Repeat(" ", utf8.RuneCountInString(text)))
		}
	}
	line = []rune(strings.TrimRight(shown.String(), " "))
	return fmt.Sprintf("%5d | %s\n      | %s^", at.Line, string(line), mark.String())
}

// painted is a line with its secrets painted over, so that columns stay.
func painted(line string, secrets []string) string {
	paint := func(v string) string {
		if strings.HasPrefix(v, "${") {
			return v
		}
		return strings.Repeat("*", utf8.RuneCountInString(v))
	}
	for _, v := range secrets {
		line = strings.ReplaceAll(line, v, paint(v))
	}
	return redact.Replace(line, paint)
}

func (s *source) problem(at Place, message, hint string) Problem {
	fit := func(text string) string { return visible(redact.Hide(redact.Withhold(text, s.secrets))) }
	return Problem{
		File: s.name, Line: at.Line, Column: at.column, Path: fit(at.Path),
		Message: fit(message), Excerpt: s.excerpt(at.Position), Hint: fit(hint),
	}
}

// visible writes out what a terminal would act on or hide (I11).
func visible(text string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}
