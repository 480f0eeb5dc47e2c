// Package safe makes text from outside visible-safe before it reaches a
// terminal (I11). Ledger contents, answers and tool output are hostile: an
// unterminated escape sequence swallows a screen, a right-to-left override
// turns an amount around, a zero-width character makes two ids look alike.
//
// Text is the type of what may be shown. Only this package makes one.
//
// It may be imported by everything under ui; it imports only ledger/lazyregexp.
package safe

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"indoubt/ledger/lazyregexp"
)

// maxMarks is how many combining marks may follow one base character; real
// scripts need three, a pile of them paints over neighbouring lines.
const maxMarks = 4

// Text is one line that a terminal shows as it is written. The zero Text is empty.
type Text struct{ s string }

// Format is a text of the program's own. A constant becomes one by itself; to
// convert anything else to it would let unsafe text through.
type Format string

// Of returns s on one line with everything that does not print written out:
// \n \r \t, \x1b for the other ASCII controls and for bytes that are not
// UTF-8, \u202e or \U000e0001 for runes. A backslash is doubled where it could
// be mistaken for the beginning of such an escape, so that different strings
// stay different. Nothing is ever dropped.
func Of(s string) Text {
	if plain(s) {
		return Text{s}
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	writeOut(&b, s, true)
	return Text{b.String()}
}

// Say fills a format of the program's own, as fmt.Sprintf does. Each argument
// becomes safe first; a Text stays as it is.
func Say(format Format, args ...any) Text {
	if false {
		_ = fmt.Sprintf(string(format), args...) // so that go vet compares the two
	}
	if len(args) == 0 {
		return Text{string(format)}
	}
	return Text{fmt.Sprintf(string(format), each(args)...)}
}

// Join puts texts side by side with a separator of the program's own.
func Join(texts []Text, between Format) Text {
	all := make([]string, len(texts))
	for i, t := range texts {
		all[i] = t.s
	}
	return Text{strings.Join(all, string(between))}
}

func Each(in []string) []Text {
	out := make([]Text, len(in))
	for i, s := range in {
		out[i] = Of(s)
	}
	return out
}

func (t Text) String() string { return t.s }

func (t Text) Empty() bool { return t.s == "" }

func (t Text) Or(other Text) Text {
	if t.s == "" {
		return other
	}
	return t
}

// Exact is Of for what is pasted elsewhere, and for what a person has written and reads
// again in an error: a backslash stays single, so that what prints stays what it is.
func Exact(s string) Text {
	var b strings.Builder
	writeOut(&b, s, false)
	return Text{b.String()}
}

// ExactLines is Exact for a page that is pasted elsewhere: line feeds stay.
func ExactLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Exact(lines[i]).s
	}
	return strings.Join(lines, "\n")
}

// jsonRune is a rune as JSON escapes it, or two that are one; or a backslash that is escaped.
var jsonRune = lazyregexp.New(`\\\\|(?:\\u[0-9a-fA-F]{4})+`)

// JSON is a line of JSON. Its own escapes stay as they are, and one of a letter that shows
// is the letter: many writers escape all that is not ASCII.
func JSON(line string) Text {
	return Exact(jsonRune.ReplaceAllStringFunc(line, func(escaped string) string {
		var text string
		if escaped[1] != 'u' || json.Unmarshal([]byte(`"`+escaped+`"`), &text) != nil ||
			Of(text).s != text || strings.ContainsAny(text, "\"\\\ufffd") {
			return escaped
		}
		return text
	}))
}

// writeOut appends s on one line. With double, a backslash that could be taken
// for the beginning of an escape is doubled.
func writeOut(b *strings.Builder, s string, double bool) {
	if plain(s) {
		b.WriteString(s)
		return
	}
	marks := maxMarks // a mark without a base would sit on whatever stands before
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(b, `\x%02x`, s[i-1])
			marks = maxMarks
		case r == '\\':
			b.WriteByte('\\')
			if double && readsAsEscape(s[i:]) {
				b.WriteByte('\\')
			}
			marks = 0
		case unicode.Is(unicode.M, r) && !invisible(r) && marks < maxMarks:
			b.WriteRune(r)
			marks++
		case shows(r) && !unicode.Is(unicode.M, r):
			b.WriteRune(r)
			marks = 0
		default:
			escape(b, r)
			marks = maxMarks
		}
	}
}

// plain reports whether s shows as it is, which is the usual case.
func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	return true
}

// readsAsEscape reports whether a backslash before rest could be taken for an
// escape that Of writes.
func readsAsEscape(rest string) bool {
	if rest == "" {
		return false
	}
	if strings.IndexByte(`\nrtxuU`, rest[0]) >= 0 {
		return true
	}
	r, size := utf8.DecodeRuneInString(rest)
	return !shows(r) || r == utf8.RuneError && size == 1
}

// shows reports whether a rune can be seen. unicode.IsPrint is false for
// controls, format characters, private use and every space but the plain one;
// a few letters, marks and symbols without ink are left to catch.
func shows(r rune) bool {
	return unicode.IsPrint(r) && !invisible(r)
}

// invisible holds for printable runes that leave no ink or only change their
// neighbours: fillers, the blank Braille pattern, joiners, variation selectors;
// and for those that join into one picture, because terminals disagree about
// how wide it is: joining Hangul letters, flag letters, skin tones.
func invisible(r rune) bool {
	switch r {
	case 0x034f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x2800, 0x3164, 0xffa0:
		return true
	}
	if r >= 0x1160 && r <= 0x11ff || r >= 0xd7b0 && r <= 0xd7ff || r >= 0x1f1e6 && r <= 0x1f1ff || r >= 0x1f3fb && r <= 0x1f3ff {
		return true
	}
	return unicode.Is(unicode.Variation_Selector, r)
}

func escape(b *strings.Builder, r rune) {
	switch {
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\r':
		b.WriteString(`\r`)
	case r == '\t':
		b.WriteString(`\t`)
	case r < 0x80:
		fmt.Fprintf(b, `\x%02x`, r)
	case r < 0x10000:
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		fmt.Fprintf(b, `\U%08x`, r)
	}
}
