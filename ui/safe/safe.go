// Package safe makes hostile text fit for a terminal (I11).
//
// Ledger contents, answers and errors go through Text once, where they enter
// the screen. What could move a cursor, start a sequence, hide or reorder
// letters is shown as an escape; nothing is dropped, and two different texts
// stay different. The package imports nothing of indoubt.
package safe

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Text returns s as one line of visible characters. Controls, bytes that are
// not UTF-8, and characters that take no room or turn the writing direction
// become \n, \x9b (a byte) or \u202e (a character); a backslash that would read
// like such an escape is doubled.
func Text(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	marks := 3 // a text does not begin with a combining mark: it would join what stands before
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
			marks = 0
		case r == '\\':
			b.WriteByte('\\')
			if i+1 < len(s) && strings.IndexByte(`nrtxuU\`, s[i+1]) >= 0 {
				b.WriteByte('\\')
			}
			marks = 0
		case unicode.Is(unicode.M, r) && !hidden(r):
			// A few marks are writing, a tower of them paints over the lines above.
			if marks++; marks > 2 {
				escape(&b, r)
			} else {
				b.WriteRune(r)
			}
		case hidden(r):
			escape(&b, r)
			marks = 0
		default:
			b.WriteRune(r)
			marks = 0
		}
		i += n
	}
	return b.String()
}

// Lines is Text for each line of s. Only the line feed separates lines.
func Lines(s string) []string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i := range lines {
		lines[i] = Text(strings.ReplaceAll(lines[i], "\t", "    "))
	}
	return lines
}

func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	return true
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
	case r <= 0xffff:
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		fmt.Fprintf(b, `\U%08x`, r)
	}
}

// hidden tells whether a character is one that a reader cannot see or that
// terminals disagree about how wide it is. strconv.IsPrint knows most of them;
// the rest count as printable there but show nothing, or join their neighbours.
func hidden(r rune) bool {
	switch {
	case !strconv.IsPrint(r):
		return true
	case r < 0x300:
		return false
	case r == 0x34f, r == 0x3164, r == 0xffa0, r == 0x2800, r == 0x115f:
		return true
	case r >= 0x1160 && r <= 0x11ff, r >= 0xd7b0 && r <= 0xd7ff: // joining Hangul letters
		return true
	case r >= 0x180b && r <= 0x180f, r >= 0xfe00 && r <= 0xfe0f, r >= 0xe0100 && r <= 0xe01ef: // variation selectors
		return true
	case r >= 0x1f1e6 && r <= 0x1f1ff, r >= 0x1f3fb && r <= 0x1f3ff: // flags and skin tones join
		return true
	}
	return false
}

// Value returns a copy of v in which every string, however deep, went through
// Text. Bytes are left alone: whoever shows them splits them into Lines.
func Value[T any](v T) T {
	out := reflect.New(reflect.TypeOf(&v).Elem()).Elem()
	clean(out, reflect.ValueOf(&v).Elem())
	return out.Interface().(T)
}

var timeType = reflect.TypeFor[time.Time]()

func clean(dst, src reflect.Value) {
	switch src.Kind() {
	case reflect.String:
		dst.SetString(Text(src.String()))
	case reflect.Struct:
		dst.Set(src)
		if src.Type() == timeType {
			return
		}
		for i := range src.NumField() {
			if src.Type().Field(i).IsExported() {
				clean(dst.Field(i), src.Field(i))
			}
		}
	case reflect.Slice:
		if src.IsNil() || src.Type().Elem().Kind() == reflect.Uint8 {
			dst.Set(src)
			return
		}
		dst.Set(reflect.MakeSlice(src.Type(), src.Len(), src.Len()))
		for i := range src.Len() {
			clean(dst.Index(i), src.Index(i))
		}
	case reflect.Pointer:
		if src.IsNil() || src.Elem().Kind() != reflect.Struct {
			dst.Set(src)
			return
		}
		dst.Set(reflect.New(src.Type().Elem()))
		clean(dst.Elem(), src.Elem())
	default:
		dst.Set(src)
	}
}
