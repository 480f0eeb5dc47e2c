package console

import (
	"strings"

	"indoubt/ui/ticket"

	"github.com/charmbracelet/x/ansi"
)

// width is how many cells a text without styles takes.
func width(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return ansi.StringWidth(s)
		}
	}
	return len(s)
}

// cut shortens a text without styles to w cells and ends it with an ellipsis.
func cut(s string, w int) string {
	if w <= 0 {
		return ""
	}
	if width(s) <= w {
		return s
	}
	return ansi.Truncate(s, w, "…")
}

// left pads or cuts a text to exactly w cells.
func left(s string, w int) string {
	s = cut(s, w)
	if n := w - width(s); n > 0 {
		return s + spaces(n)
	}
	return s
}

// right pads on the left.
func right(s string, w int) string {
	s = cut(s, w)
	if n := w - width(s); n > 0 {
		return spaces(n) + s
	}
	return s
}

const blank = "                                                                                                    "

func spaces(n int) string {
	if n <= 0 {
		return ""
	}
	if n <= len(blank) {
		return blank[:n]
	}
	return strings.Repeat(" ", n)
}

func rule(n int) string { return strings.Repeat("─", max(n, 0)) }

// fit pads or cuts a text that may hold styles to exactly w cells.
func fit(s string, w int) string {
	if w <= 0 {
		return ""
	}
	n := ansi.StringWidth(s)
	if n > w {
		return ansi.Truncate(s, w, "…")
	}
	return s + spaces(w-n)
}

// wrap breaks a text without styles into lines of at most w cells, at spaces
// where there are any.
func wrap(s string, w int) []string {
	if w <= 0 {
		return nil
	}
	var out []string
	for width(s) > w {
		line := ansi.Truncate(s, w, "")
		if line == "" {
			break
		}
		end := len(line)
		if s[end] != ' ' {
			if i := strings.LastIndexByte(line, ' '); i > w/3 {
				end = i
			}
		}
		out = append(out, strings.TrimRight(s[:end], " "))
		s = strings.TrimLeft(s[end:], " ")
	}
	return append(out, s)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return ticket.Grouped(float64(n), 0) + " " + many
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// visibleWidth is how many cells a text with styles takes.
func visibleWidth(s string) int { return ansi.StringWidth(s) }
