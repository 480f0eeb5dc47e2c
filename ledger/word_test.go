package ledger

import (
	"strings"
	"testing"

	"indoubt/ledger/need"
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
		need.Must(t, !got || strings.Contains(text, word), "%q is not in %q", word, text)
		need.Must(t, HasWord(text+" "+word+" ", word), "%q is not found at the end of %q", word, text)
		// A plain second opinion: some occurrence stands free on both sides.
		free := false
		for i := range text {
			if rest, ok := strings.CutPrefix(text[i:], word); ok {
				before, after := []rune(text[:i]), []rune(rest)
				free = free || (len(before) == 0 || !inWord(before[len(before)-1])) && (len(after) == 0 || !inWord(after[0]))
			}
		}
		valid := strings.ToValidUTF8(text, "") == text && strings.ToValidUTF8(word, "") == word
		need.Must(t, !valid || free == got, "%q in %q: %v, want %v", word, text, got, free)
	})
}
