package safe_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"indoubt/ledger/need"
	"indoubt/ui/safe"
)

// A page that is pasted elsewhere keeps its lines and nothing else that a terminal acts on.
func TestAPageKeepsItsLines(t *testing.T) {
	need.Equal(t, safe.ExactLines("a\n\tb\x1b[2J\r\n`c\\n`\n"), "a\n\\tb\\x1b[2J\\r\n`c\\n`\n")
	need.Equal(t, safe.Exact("rm -rf\n").String(), `rm -rf\n`)
}

func TestI11_TextWritesOutWhatDoesNotPrint(t *testing.T) {
	for in, want := range map[string]string{
		"":                     "",
		"charge cus_9":         "charge cus_9",
		"\x1b]0;gone":          `\x1b]0;gone`,
		"\u009b31m":            `\u009b31m`,
		"a\u202eb":             `a\u202eb`,
		"a\u200bb":             `a\u200bb`,
		"a\r\nb\tc":            `a\r\nb\tc`,
		"caf\u00e9 \u65e5":     "caf\u00e9 \u65e5",
		"cafe\u0301":           "cafe\u0301",
		"\u0301x":              `\u0301x`,
		"\xff\xfe":             `\xff\xfe`,
		`C:\dir`:               `C:\dir`,
		`C:\new`:               `C:\\new`,
		`\x1b`:                 `\\x1b`,
		"\\\x1b":               `\\\x1b`,
		`\`:                    `\`,
		`a\"b`:                 `a\"b`,
		"a\u00a0b":             `a\u00a0b`,
		"a\ufe0fb":             `a\ufe0fb`,
		"\u3164":               `\u3164`,
		"\U000e0001":           `\U000e0001`,
		"\U0001f680 deploy":    "\U0001f680 deploy",
		"z" + marks(6):         "z" + marks(4) + `\u0301\u0301`,
		"\u2028para\u2029\x00": `\u2028para\u2029\x00`,
	} {
		need.Equal(t, safe.Of(in).String(), want, "Text", in)
	}
}

// A Text is made of constants and of arguments that became safe on the way.
func TestI11_TextIsSafeByItsType(t *testing.T) {
	const bad, shown = "a\x1b[31m\n", `a\x1b[31m\n`
	of := safe.Of(bad)
	for want, got := range map[string]safe.Text{
		shown:                        of,
		"x":                          safe.Say("x"),
		"x " + shown + " 3":          safe.Say("x %s %d", bad, 3),
		"once " + shown:              safe.Say("once %s", of),
		shown + ", " + shown:         safe.Join(safe.Each([]string{bad, bad}), ", "),
		"instead":                    safe.Of("").Or(safe.Say("instead")),
		"100% of " + shown + " here": safe.Say("100%% of %s here", of),
	} {
		need.That(t, got.String() == want && !got.Empty(), "%q, want %q", got, want)
	}
	need.That(t, safe.Of("").Empty() && (safe.Text{}).Empty(), "an empty text is not empty")
}

func marks(n int) string { return strings.Repeat("\u0301", n) }

func TestI11_DifferentStringsStayDifferent(t *testing.T) {
	piece := rapid.SampledFrom([]string{`\`, "x", "u", "n", "1b", "\x1b", "\n", "\u202e", "202e", "\u0301", "\xff", "ff", "a", "\u200b", "é"})
	seen := map[string]string{}
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(piece, 0, 6).Draw(t, "pieces"), "")
		out := safe.Of(in).String()
		if before, ok := seen[out]; ok && before != in {
			t.Fatalf("%q and %q both show as %q", before, in, out)
		}
		seen[out] = in
		need.Must(t, utf8.ValidString(out), "%q shows as invalid UTF-8 %q", in, out)
		for _, r := range out {
			need.Must(t, unicode.IsPrint(r), "%q lets %U through", in, r)
		}
	})
}

// JSON has escapes of its own: they are not doubled, and letters are shown.
func TestI11_JSONIsShownAsItReads(t *testing.T) {
	for in, want := range map[string]string{
		`{"t":"a\nb \"q\""}`:          `{"t":"a\nb \"q\""}`,
		`"\u0639\u0631 Ren\u00e9"`:    `"عر René"`,
		`"\ud83d\ude00 \ud83d"`:       `"😀 \ud83d"`,
		`"\u202e\u0022\u005c\u0000x"`: `"\u202e\u0022\u005c\u0000x"`,
		`"\\u00e9 \\\u00e9"`:          `"\\u00e9 \\é"`,
		"\"\u202e\x1b\xff\"":          `"\u202e\x1b\xff"`,
	} {
		got := safe.JSON(in).String()
		need.Equal(t, got, want, in)
		need.Equal(t, safe.Exact(got).String(), got, "it is not safe")
	}
}
