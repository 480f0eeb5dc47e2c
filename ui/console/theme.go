package console

import (
	"fmt"
	"image/color"
	"strings"

	"indoubt/ui/ticket"

	"charm.land/lipgloss/v2"
)

// paint is one style, made once for a theme: what to write before and after a
// text. Rendering a row is then only concatenation.
type paint struct{ on, off string }

// s paints a text.
func (p paint) s(text string) string {
	if p.on == "" || text == "" {
		return text
	}
	return p.on + text + p.off
}

func paintOf(style lipgloss.Style) paint {
	on, off, _ := strings.Cut(style.Render("x"), "x")
	return paint{on, off}
}

// theme is every style of the console. There are no others.
type theme struct {
	name   string
	text   paint // what is read
	strong paint // what is read first
	faint  paint // labels, rules, what is over
	accent paint // keys
	good   paint // proven or done
	warn   paint // needs a look
	bad    paint // went wrong, or may cost
	cursor paint // the selected row, never told by colour alone
	head   paint // column heads
	button paint // the button that Enter presses
}

// tone is the paint of a sentence.
func (th *theme) tone(t ticket.Tone) paint {
	switch t {
	case ticket.Good:
		return th.good
	case ticket.Warn:
		return th.warn
	case ticket.Bad:
		return th.bad
	}
	return th.text
}

type palette struct{ faint, accent, good, warn, bad, back string }

var (
	dark  = palette{faint: "#8a93a6", accent: "#7aa2f7", good: "#9ece6a", warn: "#e0af68", bad: "#ff7a90", back: "#2b3552"}
	light = palette{faint: "#5c6470", accent: "#1d56b8", good: "#2c6e22", warn: "#8a5200", bad: "#b3202c", back: "#d8e2f5"}
)

// themeNames are what --theme and :theme take.
var themeNames = []string{"auto", "light", "dark", "none"}

// newTheme makes the styles of light, dark or none; anything else is dark.
func newTheme(name string) *theme {
	plain := lipgloss.NewStyle()
	if name == "none" {
		return &theme{
			name:   "none",
			strong: paintOf(plain.Bold(true)),
			faint:  paintOf(plain.Faint(true)),
			accent: paintOf(plain.Bold(true)),
			warn:   paintOf(plain.Bold(true)),
			bad:    paintOf(plain.Bold(true)),
			cursor: paintOf(plain.Bold(true).Reverse(true)),
			head:   paintOf(plain.Underline(true)),
			button: paintOf(plain.Reverse(true)),
		}
	}
	p := dark
	if name == "light" {
		p = light
	}
	fg := func(hex string) lipgloss.Style { return plain.Foreground(lipgloss.Color(hex)) }
	return &theme{
		name:   name,
		strong: paintOf(plain.Bold(true)),
		faint:  paintOf(fg(p.faint)),
		accent: paintOf(fg(p.accent)),
		good:   paintOf(fg(p.good)),
		warn:   paintOf(fg(p.warn)),
		bad:    paintOf(fg(p.bad).Bold(true)),
		cursor: paintOf(plain.Bold(true).Background(lipgloss.Color(p.back))),
		head:   paintOf(fg(p.faint)),
		button: paintOf(plain.Bold(true).Background(lipgloss.Color(p.back))),
	}
}

// pickTheme turns what was asked for and what is known of the terminal into
// the name of a theme.
func pickTheme(asked string, background color.Color, noColour bool) (string, error) {
	switch asked {
	case "light", "dark", "none":
		if noColour {
			return "none", nil
		}
		return asked, nil
	case "", "auto":
		if noColour {
			return "none", nil
		}
		if background != nil && !isDark(background) {
			return "light", nil
		}
		return "dark", nil
	}
	return "dark", fmt.Errorf("no theme %q: there are %s", asked, strings.Join(themeNames, ", "))
}

func isDark(c color.Color) bool {
	r, g, b, _ := c.RGBA()
	return 299*r+587*g+114*b < 500*0xffff
}
