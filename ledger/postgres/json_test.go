package postgres

import (
	"strings"
	"testing"

	"indoubt/ledger/need"
)

// What is set aside comes back as it was.
func TestJSONThatTheServerDoesNotRead(t *testing.T) {
	for text, kept := range map[string]string{
		`{"a": "b"}`:             `{"a": "b"}`,
		`{"a": "\u00e9"}`:        `{"a": "\u00e9"}`,
		`["\u0000x"]`:            `["` + aside + `0000x"]`,
		`["\\u0000"]`:            `["\\u0000"]`,
		`["\\\u0000"]`:           `["\\` + aside + `0000"]`,
		`["\ud83d\ude00"]`:       `["\ud83d\ude00"]`,
		`["\ud83d", "\uDE00"]`:   `["` + aside + `d83d", "` + aside + `DE00"]`,
		`["\ud83d\ud83d\ude00"]`: `["` + aside + `d83d\ud83d\ude00"]`,
		`["\uf8ff0000"]`:         `["` + aside + `f8ff0000"]`,
	} {
		need.Equal(t, readable(text), kept)
		need.Equal(t, asWritten(kept), text)
	}
	need.Equal(t, asWritten(readable(`["`+aside+`0000"]`)), `["\uf8ff0000"]`)
	need.That(t, !strings.Contains(readable(`"\u0000"`), `\u`), "it is not set aside")
}
