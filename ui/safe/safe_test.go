package safe

import (
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestI11_Text(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"charge cus_9 420.00", "charge cus_9 420.00"},
		{"\x1b]52;c;ZXZpbA==\x07", `\x1b]52;c;ZXZpbA==\x07`},
		{"\x1b[2Jgone", `\x1b[2Jgone`},
		{"a\rb\nc\td", `a\rb\nc\td`},
		{"x\u202eyz", `x\u202eyz`},
		{"x\u009b2J", `x\u009b2J`},
		{"x\x9b2J", `x\x9b2J`},
		{`C:\Temp`, `C:\Temp`},
		{`C:\new`, `C:\\new`},
		{"zero\u200bwidth", `zero\u200bwidth`},
		{"Ana Müller → 東京", "Ana Müller → 東京"},
		{"\u0301x", `\u0301x`},
		{"e\u0301", "e\u0301"},
		{"e\u0301\u0302\u0303", "e\u0301\u0302" + `\u0303`},
		{"\U0001f600\ufe0f", "\U0001f600" + `\ufe0f`},
	} {
		if got := Text(c.in); got != c.want {
			t.Errorf("Text(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func TestI11_TextIsVisibleAndOneToOne(t *testing.T) {
	letters := rapid.SampledFrom([]string{`\`, "x", "1", "b", "u", "n", "\x1b", "\n", "\u202e", "\u009b", "\x9b", "0", "9", "2", "e", "a", "\u0301", "é", "\ufe0f"})
	text := rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(letters, 0, 8).Draw(t, "letters"), "") })
	rapid.Check(t, func(t *rapid.T) {
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		if a != b && Text(a) == Text(b) {
			t.Fatalf("%q and %q both read %q", a, b, Text(a))
		}
		for _, r := range Text(a) {
			if !strconv.IsPrint(r) {
				t.Fatalf("%q lets %U through", a, r)
			}
		}
	})
}

func TestValueReachesEveryString(t *testing.T) {
	type inner struct{ S string }
	type outer struct {
		A  string
		B  []inner
		C  *inner
		D  []byte
		in string
	}
	v := Value(outer{A: "\x1b", B: []inner{{"\r"}}, C: &inner{"\n"}, D: []byte("\x1b"), in: "kept"})
	if v.A != `\x1b` || v.B[0].S != `\r` || v.C.S != `\n` || string(v.D) != "\x1b" || v.in != "kept" {
		t.Fatalf("%+v", v)
	}
}
