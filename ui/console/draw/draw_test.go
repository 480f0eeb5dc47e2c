package draw

import (
	"image/color"
	"math"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"indoubt/ledger/need"
)

// Labels are read at night, on whatever terminal there is: the contrast of every
// style with what is behind it is at least that of WCAG AA.
func TestEveryStyleIsReadable(t *testing.T) {
	behind := map[string][]color.Color{
		"dark":  {rgb(0, 0, 0), rgb(0x1e, 0x1e, 0x1e), rgb(0x28, 0x2c, 0x34)},
		"light": {rgb(0xff, 0xff, 0xff), rgb(0xfd, 0xf6, 0xe3)},
	}
	for name, backs := range behind {
		for _, profile := range []colorprofile.Profile{colorprofile.TrueColor, colorprofile.ANSI256, colorprofile.ANSI} {
			th := NewTheme(name, profile == colorprofile.ANSI)
			paints := map[string]Paint{"head": th.Head, "button": th.Button, "danger": th.Danger}
			for set, of := range map[string]Paints{"": th.Paints, "cursor ": th.Cursor} {
				for i := range reflect.TypeOf(of).NumField() {
					paints[set+reflect.TypeOf(of).Field(i).Name] = reflect.ValueOf(of).Field(i).Interface().(Paint)
				}
			}
			if profile == colorprofile.ANSI {
				backs = backs[:1] // of the others there is no telling
			}
			for what, p := range paints {
				front, own := sgr(t, p.on)
				need.That(t, !strings.HasPrefix(what, "cursor") || front != nil && own != nil, "%s, %s: %s sets no foreground and background: %q", name, profile, what, p.on)
				if front == nil {
					continue // the terminal's own
				}
				for _, back := range backs {
					if own != nil {
						back = own
					}
					if c := contrast(profile.Convert(front), profile.Convert(back)); c < 4.5 {
						t.Errorf("%s, %s: %s on %v has a contrast of %.2f", name, profile, what, back, c)
					}
				}
			}
		}
	}
}

// What is grave is red, and what is amber is amber, where a terminal has 256 colours:
// the nearest of those to a pale colour may be a grey.
func TestAColourIsOneOf256(t *testing.T) {
	for name, s := range schemes {
		for i, p := range []palette{s.plain, s.cursor} {
			for _, hex := range []string{p.accent, p.good, p.warn, p.bad} {
				if !strings.HasPrefix(hex, "#") {
					continue // of a terminal with 16
				}
				r, g, b, _ := colorprofile.ANSI256.Convert(lipgloss.Color(hex)).RGBA()
				if max(r, g, b)-min(r, g, b) < 0x2000 {
					t.Errorf("%s, %d: %s becomes a grey", name, i, hex)
				}
			}
		}
	}
}

func rgb(r, g, b uint8) color.Color { return color.RGBA{r, g, b, 0xff} }

// sgr reads the colours of an escape sequence; nil where it sets none.
func sgr(t *testing.T, on string) (front, back color.Color) {
	t.Helper()
	var codes []int
	for _, part := range strings.FieldsFunc(on, func(r rune) bool { return r < '0' || r > '9' }) {
		n := need.Get(strconv.Atoi(part))(t)
		codes = append(codes, n)
	}
	for i := 0; i < len(codes); i++ {
		set := &front
		switch n := codes[i]; {
		case n == 1 || n == 4 || n == 7:
		case n == 38 || n == 48:
			if n == 48 {
				set = &back
			}
			need.Must(t, codes[i+1] == 2, "%q", on)
			*set = rgb(uint8(codes[i+2]), uint8(codes[i+3]), uint8(codes[i+4]))
			i += 4
		case n >= 30 && n < 38:
			front = ansi.BasicColor(n - 30)
		case n >= 40 && n < 48:
			back = ansi.BasicColor(n - 40)
		case n >= 90 && n < 98:
			front = ansi.BasicColor(n - 82)
		case n >= 100 && n < 108:
			back = ansi.BasicColor(n - 92)
		default:
			t.Fatalf("%q", on)
		}
	}
	return front, back
}

// contrast is the contrast ratio of two colours by WCAG 2.
func contrast(a, b color.Color) float64 {
	la, lb := luminance(a), luminance(b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

func luminance(c color.Color) float64 {
	r, g, b, _ := c.RGBA()
	linear := func(v uint32) float64 {
		x := float64(v) / 0xffff
		if x <= 0.04045 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(r) + 0.7152*linear(g) + 0.0722*linear(b)
}
