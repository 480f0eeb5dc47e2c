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

// Paints are the styles of text on one background.
type Paints struct {
	Text   Paint // what is read
	Strong Paint // what is read first
	Faint  Paint // labels, rules, what is over
	Accent Paint // keys
	Good   Paint // asks for nothing
	Warn   Paint // needs a look
	Bad    Paint // went wrong, or may cost
}

func (p *Paints) Tone(t ticket.Tone) Paint {
	switch t {
	case ticket.Good:
		return p.Good
	case ticket.Sure:
		return p.Strong
	case ticket.Warn:
		return p.Warn
	case ticket.Bad:
		return p.Bad
	}
	return p.Text
}

// Theme is every style of the console. There are no others.
type Theme struct {
	Name   string
	Paints        // on the background of the terminal
	Cursor Paints // on the selected row, which is never told by colour alone
	Head   Paint  // column heads
	Button Paint  // the button that Enter presses
	Danger Paint  // the same, where it cannot be taken back
}

// palette are colours on one background; "" is the terminal's own.
type palette struct{ back, text, faint, accent, good, warn, bad string }

// scheme are the colours of a theme: on the terminal's background and on the
// selected row.
type scheme struct{ plain, cursor palette }

// schemes are readable: a test computes the contrast of each colour with what is
// behind it. Terminals with 16 colours get names of theirs: the nearest of those to
// a colour may be as dark as what is behind it.
var schemes = map[string]scheme{
	"dark": {
		palette{"", "", "#a2abbd", "#8fb2ff", "#9ece6a", "#e0af68", "#ff8787"},
		palette{"#2b3552", "#ffffff", "#c3cbdb", "#a9c4ff", "#b5e08a", "#f2c98a", "#ffc6c6"},
	},
	"light": {
		palette{"", "", "#535b66", "#1d56b8", "#2a6b20", "#7d4a00", "#b3202c"},
		palette{"#d8e2f5", "#101418", "#454c57", "#174a9e", "#215718", "#6b3f00", "#991520"},
	},
	"dark 16":  {palette{"", "", "7", "14", "10", "11", "9"}, palette{"7", "0", "0", "4", "0", "5", "1"}},
	"light 16": {palette{"", "", "", "4", "2", "5", "1"}, palette{"7", "0", "0", "4", "0", "5", "1"}},
}

// Themes are what :theme and the configuration take.
var Themes = []string{"auto", "light", "dark", "none"}

// NewTheme makes the styles of light, dark or none for a terminal that has few
// colours, 16, or more; any other name is dark.
func NewTheme(name string, few bool) *Theme {
	plain := lipgloss.NewStyle()
	if name == "none" {
		strong, under := paintOf(plain.Bold(true)), paintOf(plain.Bold(true).Reverse(true))
		grave := paintOf(plain.Bold(true).Reverse(true).Underline(true))
		return &Theme{
			Name:   name,
			Paints: Paints{Strong: strong, Accent: strong, Warn: strong, Bad: strong},
			Cursor: Paints{Text: under, Strong: under, Faint: under, Accent: under, Good: under, Warn: under, Bad: grave},
			Head:   paintOf(plain.Underline(true)),
			Button: paintOf(plain.Reverse(true)),
			Danger: grave,
		}
	}
	if name != "light" {
		name = "dark"
	}
	if few {
		name += " 16"
	}
	c := schemes[name]
	t := &Theme{Name: name, Paints: c.plain.paints(), Cursor: c.cursor.paints()}
	t.Head, t.Button = t.Faint, t.Cursor.Strong
	t.Danger = palette{back: c.cursor.bad, text: c.cursor.back}.paints().Strong
	return t
}

func (c palette) paints() Paints {
	on := func(colour string, bold bool) Paint {
		style := lipgloss.NewStyle().Bold(bold)
		if colour != "" {
			style = style.Foreground(lipgloss.Color(colour))
		}
		if c.back != "" {
			style = style.Background(lipgloss.Color(c.back))
		}
		return paintOf(style)
	}
	return Paints{on(c.text, false), on(c.text, true), on(c.faint, false), on(c.accent, false), on(c.good, false),
		on(c.warn, false), on(c.bad, true)}
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
