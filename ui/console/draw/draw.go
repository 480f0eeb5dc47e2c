// Package draw is what every part of the console is drawn with: the styles of a
// theme, and texts cut to cells. It knows no ledger.
package draw

import (
	"fmt"
	"image/color"
	"strings"
	"time"

	"indoubt/ui/ticket"

	"charm.land/lipgloss/v2"
)

// Frame is the moment and the styles that a whole screen is drawn with.
type Frame struct {
	*Theme
	Now   time.Time
	Zone  *time.Location
	Ticks bool // something that was drawn changes every second
}

// Moment is a time as it is read now.
func (f *Frame) Moment(t time.Time) string { return ticket.Moment(t, f.Now, f.Zone) }

// Paint is one style, made once for a theme: what to write before and after a
// text. Rendering a row is then only concatenation.
type Paint struct{ on, off string }

// Render paints a text.
func (p Paint) Render(text string) string {
	if p.on == "" || text == "" {
		return text
	}
	return p.on + text + p.off
}

func paintOf(style lipgloss.Style) Paint {
	on, off, _ := strings.Cut(style.Render("x"), "x")
	return Paint{on, off}
}

// Theme is every style of the console. There are no others.
type Theme struct {
	Name   string
	Text   Paint // what is read
	Strong Paint // what is read first
	Faint  Paint // labels, rules, what is over
	Accent Paint // keys
	Good   Paint // proven or done
	Warn   Paint // needs a look
	Bad    Paint // went wrong, or may cost
	Cursor Paint // the selected row, never told by colour alone
	Head   Paint // column heads
	Button Paint // the button that Enter presses
}

// Tone is the paint of a sentence.
func (th *Theme) Tone(t ticket.Tone) Paint {
	switch t {
	case ticket.Good:
		return th.Good
	case ticket.Warn:
		return th.Warn
	case ticket.Bad:
		return th.Bad
	}
	return th.Text
}

type palette struct{ faint, accent, good, warn, bad, back string }

var (
	dark  = palette{faint: "#8a93a6", accent: "#7aa2f7", good: "#9ece6a", warn: "#e0af68", bad: "#ff7a90", back: "#2b3552"}
	light = palette{faint: "#5c6470", accent: "#1d56b8", good: "#2c6e22", warn: "#8a5200", bad: "#b3202c", back: "#d8e2f5"}
)

// Themes are what --theme and :theme take.
var Themes = []string{"auto", "light", "dark", "none"}

// NewTheme makes the styles of light, dark or none; anything else is dark.
func NewTheme(name string) *Theme {
	plain := lipgloss.NewStyle()
	if name == "none" {
		return &Theme{
			Name:   "none",
			Strong: paintOf(plain.Bold(true)),
			Faint:  paintOf(plain.Faint(true)),
			Accent: paintOf(plain.Bold(true)),
			Warn:   paintOf(plain.Bold(true)),
			Bad:    paintOf(plain.Bold(true)),
			Cursor: paintOf(plain.Bold(true).Reverse(true)),
			Head:   paintOf(plain.Underline(true)),
			Button: paintOf(plain.Reverse(true)),
		}
	}
	p := dark
	if name == "light" {
		p = light
	}
	fg := func(hex string) lipgloss.Style { return plain.Foreground(lipgloss.Color(hex)) }
	return &Theme{
		Name:   name,
		Strong: paintOf(plain.Bold(true)),
		Faint:  paintOf(fg(p.faint)),
		Accent: paintOf(fg(p.accent)),
		Good:   paintOf(fg(p.good)),
		Warn:   paintOf(fg(p.warn)),
		Bad:    paintOf(fg(p.bad).Bold(true)),
		Cursor: paintOf(plain.Bold(true).Background(lipgloss.Color(p.back))),
		Head:   paintOf(fg(p.faint)),
		Button: paintOf(plain.Bold(true).Background(lipgloss.Color(p.back))),
	}
}

// PickTheme turns what was asked for and what is known of the terminal into
// the name of a theme.
func PickTheme(asked string, background color.Color, noColour bool) (string, error) {
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
	return "dark", fmt.Errorf("no theme %q: there are %s", asked, strings.Join(Themes, ", "))
}

func isDark(c color.Color) bool {
	r, g, b, _ := c.RGBA()
	return 299*r+587*g+114*b < 500*0xffff
}
