package ledger

import (
	"strings"
	"unicode"
)

// ShellWord is a text as one word of a shell's command line, in quotes where it needs them.
func ShellWord(text string) string {
	needs := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !strings.ContainsRune("_.:@/+,%=-", r)
	}
	if text != "" && !strings.ContainsFunc(text, needs) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
