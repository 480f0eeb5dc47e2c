package ledger

import (
	"strings"

	"indoubt/ledger/lazyregexp"
)

var bareWord = lazyregexp.New(`^[\pL\pN_.:@/+,%=-]+$`)

// ShellWord is a text as one word of a shell's command line, in quotes where it needs them.
func ShellWord(text string) string {
	if bareWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
