package safe_test

import (
	"errors"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"indoubt/ledger/need"
	"indoubt/ui/safe"
)

type word string

type person struct{ name string }

func (p person) String() string { return p.name }

func TestI11_WhatAFormatIsFilledWithStaysOnItsLine(t *testing.T) {
	const in, want = "a\x1b[31m\nforged\\n", `a\x1b[31m\nforged\\n`
	for _, arg := range []any{in, word(in), errors.New(in), person{in}, &person{in}} {
		var out strings.Builder
		w := safe.NewWriter(&out)
		w.Printf("x %s\ty\n", arg)
		w.Println("-", arg)
		need.Equal(t, out.String(), "x "+want+"\ty\n- "+want+"\n", arg)
	}
	var out strings.Builder
	w := safe.NewWriter(&out)
	w.Printf("%d %.1f %v %v\n", 3, 2.5, true, []string{in})
	w.Lines("one\ntwo\x07")
	if got, all := out.String(), "3 2.5 true ["+want+"]\none\ntwo\\x07\n"; got != all {
		t.Errorf("%q", got)
	}
}

func TestI11_WriterPassesNothingThatATerminalActsOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes")
		if rapid.Bool().Draw(t, "runes") {
			in = []byte(rapid.StringN(0, 40, -1).Draw(t, "text"))
		}
		var out strings.Builder
		if n, err := safe.NewWriter(&out).Write(in); n != len(in) || err != nil {
			t.Fatal(n, err)
		}
		for i, r := range out.String() {
			if r != '\n' && r != '\t' && !unicode.IsPrint(r) || r == unicode.ReplacementChar && out.String()[i] != 0xef {
				t.Fatalf("%q lets %U through: %q", in, r, out.String())
			}
		}
		need.Must(t, strings.Count(out.String(), "\n") == strings.Count(string(in), "\n"),
			"%q has other lines as %q", in, out.String())
	})
	var out strings.Builder
	_, _ = safe.NewWriter(&out).Write([]byte("\tA table, made by Text: \\x1b \\\\n é 日\n"))
	need.Equal(t, out.String(), "\tA table, made by Text: \\x1b \\\\n é 日\n", "what is safe is changed")
}
