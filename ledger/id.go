package ledger

import (
	"crypto/rand"
	"encoding/base32"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// NewID makes an id for an operation, attempt, permission, read or change: a UUIDv7,
// so that ids sort by time of making.
func NewID() string {
	return uuid.Must(uuid.NewV7()).String()
}

// tokenAlphabet has no letters that are mistaken for digits when read aloud.
var tokenAlphabet = base32.NewEncoding("ABCDEFGHJKMNPQRSTVWXYZ0123456789").WithPadding(base32.NoPadding)

// NewToken makes a correlation token: 80 random bits behind a readable prefix.
// It survives being searched for, cased and copied by hand.
func NewToken() string {
	var b [tokenBytes]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err) // crypto/rand never fails on a supported system
	}
	return tokenOf(b[:])
}

const tokenBytes = 10

func tokenOf(b []byte) string { return "indoubt-" + tokenAlphabet.EncodeToString(b) }

// HasWord reports whether a text contains a word whole: with no letter, digit,
// hyphen or underscore beside it. A token that is part of a longer name is not
// the token: a search or a comparison for it would not find it.
func HasWord(text, word string) bool {
	if word == "" {
		return false
	}
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		i += from
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[i+len(word):])
		if (i == 0 || !inWord(before)) && (i+len(word) == len(text) || !inWord(after)) {
			return true
		}
		from = i + 1
	}
}

func inWord(r rune) bool {
	return r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// DeriveID makes the same id from the same run and part, so that a run that is
// repeated after a crash repeats its changes instead of doubling them.
func DeriveID(runID, part string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("indoubt:"+runID+"\x00"+strings.TrimSpace(part))).String()
}
