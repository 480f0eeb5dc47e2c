package postgres

import (
	"strings"

	"indoubt/ledger/lazyregexp"
)

// PostgreSQL keeps a JSON text as it is, and reads nothing of one with \u0000 or half a surrogate pair
// anywhere in it. So these are kept as a sign for private use with the digits behind it, and come back as
// they were.

var (
	unreadable = lazyregexp.New(`\\(?:\\|u(?i:0000|d[89ab][0-9a-f]{2}(?:\\ud[c-f][0-9a-f]{2})?|d[c-f][0-9a-f]{2}|f8ff))|` + aside)
	setAside   = lazyregexp.New(aside + `([0-9a-fA-F]{4})`)
)

const aside = "\uf8ff"

// readable is JSON as the server takes it.
func readable(json string) string {
	if !strings.Contains(json, `\u`) && !strings.Contains(json, aside) {
		return json
	}
	return unreadable.ReplaceAllStringFunc(json, func(escape string) string {
		switch {
		case escape == aside:
			return aside + "f8ff"
		case len(escape) == 6: // one alone
			return aside + escape[2:]
		}
		return escape
	})
}

// asWritten is a text as it was written.
func asWritten(text string) string {
	if !strings.Contains(text, aside) {
		return text
	}
	return setAside.ReplaceAllString(text, `\u$1`)
}
