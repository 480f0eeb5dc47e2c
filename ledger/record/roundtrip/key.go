package roundtrip

import (
	"fmt"
	"net/http"
	"strings"
)

const maxKey = 255 // bytes of a key that a caller may give

// givenKey reads a header with a key: an sf-string (RFC 9651, as the IETF draft has it)
// or bare text. It is "" when there is none.
func givenKey(h http.Header, name string) (string, error) {
	values := h.Values(name)
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 {
		return "", malformed("it is given more than once")
	}
	v := strings.Trim(values[0], " \t")
	key := v
	if strings.HasPrefix(v, `"`) {
		text, rest, ok := quotedText(v)
		if rest = strings.TrimLeft(rest, " "); !ok || rest != "" && rest[0] != ';' {
			return "", malformed("it begins with a quote and is no structured string")
		}
		key = text
	} else if strings.ContainsAny(v, " \t") {
		return "", malformed("a key with spaces must be quoted")
	}
	switch {
	case strings.TrimSpace(key) == "":
		return "", malformed("it is empty")
	case len(key) > maxKey:
		return "", malformed(fmt.Sprintf("it is longer than %d characters", maxKey))
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return "", malformed("it has a character outside of printable ASCII")
		}
	}
	return key, nil
}

func malformed(why string) error { return &NotTakenError{Problem: "key_malformed", Why: why} }

// quotedText reads a structured string and gives what follows it.
func quotedText(s string) (text, rest string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			i++
			if i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}
