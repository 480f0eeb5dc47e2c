package transmit

import (
	"net/url"
	"strings"

	"indoubt/ledger/lazyregexp"
)

// Spelled is an address in the one spelling by which it is compared with others (RFC 3986,
// section 6.2): what asks the same is equal, and %2F stays another thing than a slash. The order
// of different names in a query says nothing. What is sent stays as it was written.
func Spelled(u *url.URL) *url.URL {
	s := *u
	s.Scheme, s.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if port := (map[string]string{"http": ":80", "https": ":443"})[s.Scheme]; port != "" {
		s.Host = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(s.Host, port), ":"), ".")
	}
	s.RawPath = unreserved(u.EscapedPath())
	if s.Path, _ = url.PathUnescape(s.RawPath); s.Path == "" {
		s.Path, s.RawPath = "/", ""
	}
	s.ForceQuery, s.Fragment, s.RawFragment = false, "", ""
	if values, err := url.ParseQuery(s.RawQuery); err == nil {
		s.RawQuery = values.Encode()
	}
	return s.ResolveReference(&s) // without dot segments
}

// SameOrigin reports whether two addresses have the same scheme, host and port.
func SameOrigin(a, b string) bool {
	at, err := url.Parse(a)
	other, bad := url.Parse(b)
	if err != nil || bad != nil {
		return false
	}
	at, other = Spelled(at), Spelled(other)
	return at.Scheme == other.Scheme && at.Host == other.Host
}

var encoding = lazyregexp.New(`%[0-9A-Fa-f]{2}`)

// unreserved is a text with the encodings decoded of what needs none, and the others in capitals.
func unreserved(text string) string {
	return encoding.ReplaceAllStringFunc(text, func(e string) string {
		if plain, _ := url.PathUnescape(e); url.QueryEscape(plain) == plain {
			return plain
		}
		return strings.ToUpper(e)
	})
}
