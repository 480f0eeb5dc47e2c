package connect

import (
	"fmt"
	"slices"
	"strings"
)

// mustBegin refuses a statement that does not begin with one of the words.
func mustBegin(query string, words ...string) error {
	first := firstWord(query)
	if slices.Contains(words, first) {
		return nil
	}
	if first == "" {
		first = "no word"
	}
	return fmt.Errorf("the statement begins with %s, not with one of %s", first, strings.Join(words, " "))
}

// firstWord is the word a statement begins with, in capitals.
func firstWord(query string) string {
	rest := skipBlank(query)
	for strings.HasPrefix(rest, "(") {
		rest = skipBlank(rest[1:])
	}
	end := 0
	for end < len(rest) && rest[end]|0x20 >= 'a' && rest[end]|0x20 <= 'z' {
		end++
	}
	return strings.ToUpper(rest[:end])
}

// oneStatement refuses text that SQLite would run as several statements.
// PostgreSQL refuses it by itself.
func oneStatement(query string) error {
	for rest := skipBlank(query); rest != ""; rest = skipBlank(rest) {
		switch rest[0] {
		case ';':
			if skipBlank(strings.TrimLeft(rest, "; \t\r\n")) != "" {
				return fmt.Errorf("there is more than one statement")
			}
			return nil
		case '\'', '"', '`':
			rest = after(rest[1:], rest[:1]) // a doubled quote is two strings side by side
		case '[':
			rest = after(rest[1:], "]")
		default:
			rest = rest[1:]
		}
	}
	return nil
}

// skipBlank skips white space and comments.
func skipBlank(s string) string {
	for {
		s = strings.TrimLeft(s, " \t\r\n\f")
		switch {
		case strings.HasPrefix(s, "--"):
			s = after(s, "\n")
		case strings.HasPrefix(s, "/*"):
			s = after(s[2:], "*/")
		default:
			return s
		}
	}
}

func after(s, end string) string {
	_, rest, _ := strings.Cut(s, end)
	return rest
}
