package policy

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

// Error prints all of them, one after the other.
func (e Errors) Error() string {
	return strings.Join(ledger.Each(e, Problem.Error), "\n")
}

func (e Errors) sorted() Errors {
	slices.SortStableFunc(e, func(a, b Problem) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
	return e
}

// position is a place in the file, 1-based; the zero position is built in.
type position struct{ line, column int }

// place is a position and the path of what stands there: kinds.a.tests[0].want.
type place struct {
	position
	path string
}

// below is the same position, said of a field of what stands there.
func (p place) below(name string) place {
	if p.path != "" {
		name = p.path + "." + name
	}
	return place{p.position, name}
}

// item is the same position, said of an element of the list there.
func (p place) item(i int) place { return place{p.position, fmt.Sprintf("%s[%d]", p.path, i)} }

// source is the file's text, for excerpts.
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
func (s *source) excerpt(at position) string {
	if at.line < 1 || at.line > len(s.lines) {
		return ""
	}
	line := []rune(painted(strings.ToValidUTF8(s.lines[at.line-1], "\uFFFD"), s.secrets))
	col := min(max(at.column-1, 0), len(line))
	from := 0
	if col > excerptWidth-10 {
		from = col - excerptWidth/2
	}
	to := min(from+excerptWidth, len(line))
	var shown, mark strings.Builder
	for i, r := range line[from:to] {
		text := string(r)
		switch {
		case r == '\t':
			text = " "
		case !unicode.IsPrint(r):
			text = fmt.Sprintf("\\u%04x", r)
		}
		shown.WriteString(text)
		if i < col-from {
			mark.WriteString(strings.Repeat(" ", utf8.RuneCountInString(text)))
		}
	}
	number := fmt.Sprintf("%5d", at.line)
	return fmt.Sprintf("%s | %s\n%s | %s^", number, strings.TrimRight(shown.String(), " "), strings.Repeat(" ", len(number)), mark.String())
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

func (s *source) problem(at place, message, hint string) Problem {
	fit := func(text string) string { return visible(hide(withhold(text, s.secrets))) }
	return Problem{File: s.name, Line: at.line, Column: at.column, Path: fit(at.path), Message: fit(message), Excerpt: s.excerpt(at.position), Hint: fit(hint)}
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

// otherWord is our word for one that went, and how it is written. Without ours nothing takes its
// place.
type otherWord struct{ ours, hint string }

// otherWords are the words that went. One that meant several things counts where the mapping
// knows `ours`.
var otherWords = map[string][]otherWord{
	"found": {
		{"list", "write `list:`, where the candidates are in the answer, and `mark:`, where each of them shows the token"},
		{"read", "write `read:`, which says how to look for the effect"},
	},
	"mark_as":         {{"mark", "write the form with the mark: { it.body: \"<!-- ${token} -->\" }"}},
	"mark_is":         {{"unique", "write name: it.key in place of `mark`, or name: { it.invoice: \"${input.invoice}\" }"}},
	"send":            {{"resend", "write resend: here, where what was recorded may be sent again from here"}},
	"auto":            {{"resend", "write resend: here, where what was recorded may be sent again from here"}},
	"idempotent":      {{"effect", "write effect: safe, where a repeat does no harm"}},
	"repeat_in_doubt": {{"effect", "write effect: safe, where a repeat does no harm"}},
	"supersedes":      {{"effect", "write effect: replaces, where it sets what its `target` is"}},
	"access":          {{"effect", "write effect: read, for what is not recorded; else once, safe or replaces"}},
	"recheck_after":   {{"verify", "write verify: 10m, when it is looked at once more after its commit"}},
	"read_only":       {{"tool", "write read_only: true beside `mcp:`"}},
	"look":            {{"", "leave it out: looking by hand counts as 5"}},
	"timeout":         {{"", "leave it out: one request of a check may take 30s, and an attempt as long as `deadline`"}},
	"outage":          {{"escalate_after", "write it in the downstream: outage: { errors: 5 }"}},
	"incident": {
		{"outage", "write outage: { errors: 5, within: 5m }"},
		{"escalate_after", "write it in the downstream: outage: { errors: 5 }"},
	},
	"mysql":           {{"postgres", "write a command that asks it: read: { command: [mysql, …] }"}},
	"strategy":        {{"from", "leave it out: where fields name it, write from: [input.invoice]"}},
	"window":          {{"ttl", "write ttl: 24h"}},
	"offset":          {{"next", "write the next page in `next:`; pages that shift never prove that something is not there"}},
	"page":            {{"next", "write the next page in `next:`; pages that shift never prove that something is not there"}},
	"trace":           {{"link", "write it as `link:`"}},
	"dash":            {{"", "leave it out: put -- before what may begin with -"}},
	"affected":        {{"rows", "leave it out: a check reads rows"}},
	"skew":            {{"", "leave it out: a second is allowed for clocks that differ"}},
	"cancel":          {{"", "leave it out: what was recorded is finished, though its client cancelled it"}},
	"redirects":       {{"base", "give the other host a downstream of its own: a check is followed on its own host only"}},
	"untaken_after":   {{"on", "leave it out: no one may take what needs a person for 15m"}},
	"unchecked_after": {{"on", "leave it out: no engine may check for 5m"}},
	"never":           {{"valid", "leave it out: what was never sent is asked for in the form of what was"}},
	"control":         {{"read", "write complete: \"false\" in the read, where finding nothing must never count"}},
	"unattended_risk": {{"", "leave it out: only a person takes a risk"}},
}

// meantField is the hint for a name that a mapping does not know.
func meantField(name string, known []string) string {
	for _, w := range otherWords[name] {
		if w.ours == "" || slices.Contains(known, w.ours) {
			return w.hint
		}
	}
	return ledger.DidYouMean(name, known)
}
