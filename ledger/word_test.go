package ledger

import (
	"strings"
	"testing"
)

func FuzzHasWord(f *testing.F) {
	for _, seed := range [][2]string{{"indoubt-7E3A", "indoubt-7E3A"}, {"xindoubt-7E3A indoubt-7E3A", "indoubt-7E3A"}, {"aa-aa-aa", "aa-aa"}, {"\xffa\xff", "a"}, {"a\u0301", "a"}, {"", "a"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, text, word string) {
		if word == "" {
			return
		}
		got := HasWord(text, word)
		if got && !strings.Contains(text, word) {
			t.Fatalf("%q is not in %q", word, text)
		}
		if !HasWord(text+" "+word+" ", word) {
			t.Fatalf("%q is not found at the end of %q", word, text)
		}
		// A plain second opinion: some occurrence stands free on both sides.
		free := false
		for i := range text {
			if rest, ok := strings.CutPrefix(text[i:], word); ok {
				before, after := []rune(text[:i]), []rune(rest)
				free = free || (len(before) == 0 || !inWord(before[len(before)-1])) && (len(after) == 0 || !inWord(after[0]))
			}
		}
		if valid := strings.ToValidUTF8(text, "") == text && strings.ToValidUTF8(word, "") == word; valid && free != got {
			t.Fatalf("%q in %q: %v, want %v", word, text, got, free)
		}
	})
}
