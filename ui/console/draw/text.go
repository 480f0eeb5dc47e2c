package draw

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"indoubt/ui/ticket"
)

// Width is how many cells a text takes; styles take none.
func Width(s string) int {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return ansi.StringWidth(s)
		}
	}
	return len(s)
}

// Cut shortens a text to w cells and ends it with an ellipsis.
func Cut(s string, w int) string {
	if w <= 0 {
		return ""
	}
	if Width(s) <= w {
		return s
	}
	return ansi.Truncate(s, w, "…")
}

// Left pads or cuts a text, with or without styles, to exactly w cells.
func Left(s string, w int) string {
	s = Cut(s, w)
	if n := w - Width(s); n > 0 {
		return s + Spaces(n)
	}
	return s
}

// Right pads on the left.
func Right(s string, w int) string {
	s = Cut(s, w)
	if n := w - Width(s); n > 0 {
		return Spaces(n) + s
	}
	return s
}

const blank = "                                                                                                    "

func Spaces(n int) string {
	if n <= 0 {
		return ""
	}
	if n <= len(blank) {
		return blank[:n]
	}
	return strings.Repeat(" ", n)
}

func Rule(n int) string { return strings.Repeat("─", max(n, 0)) }

// Wrap breaks a text without styles into lines of at most w cells, at spaces
// where there are any.
func Wrap(s string, w int) []string {
	if w <= 0 {
		return nil
	}
	var out []string
	for Width(s) > w {
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

// Ruled is a rule of w cells with a title in it, and a word in its corner.
func Ruled(title, corner string, w int) string {
	text := ""
	if title != "" {
		text = "── " + Cut(title, w-8) + " "
	}
	if corner != "" && Width(text)+Width(corner)+4 < w {
		return text + Rule(w-Width(text)-Width(corner)-4) + " " + corner + " ──"
	}
	return text + Rule(w-Width(text))
}

// Window is h lines of a text, each exactly w cells. Where there is more, the last
// line says so, and hint how it is reached.
func Window(f *Frame, text []string, w, h, from int, hint string) []string {
	out := make([]string, 0, h)
	for i := from; i < len(text) && len(out) < h; i++ {
		out = append(out, Left(text[i], w))
	}
	if rest := len(text) - from - h; rest > 0 && h > 2 {
		out[h-1] = f.Faint.Render(Left(fmt.Sprintf(" … %s, %s", ticket.Plural(rest+1, "more line", "more lines"), hint), w))
	}
	for len(out) < h {
		out = append(out, Spaces(w))
	}
	return out
}
