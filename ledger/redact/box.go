package redact

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"indoubt/ledger/lazyregexp"
)

// minSecret is the length below which a value is too common to be looked for.
const minSecret = 6

// Box collects the secrets that were put into a request, so that they are
// known again where the other side repeats them.
type Box struct{ Values []string }

func (b *Box) Add(v string) {
	if v = strings.TrimSpace(v); len(v) < minSecret || slices.Contains(b.Values, v) {
		return
	}
	b.Values = append(b.Values, v)
}

// Parts adds the secrets inside an address or a DSN: an error repeats them alone.
func (b *Box) Parts(text string) {
	Replace(text, func(v string) string { b.Add(v); return v })
	for _, v := range Passwords(text) {
		b.Add(v)
	}
}

// Forms are the secrets as they are, and as the other side may repeat them in JSON or in an
// address.
func (b *Box) Forms() (all []string) {
	for _, v := range b.Values {
		quoted, _ := json.Marshal(v)
		all = append(all, v, string(quoted[1:len(quoted)-1]), url.QueryEscape(v), url.PathEscape(v))
	}
	return longestFirst(all)
}

// longestFirst sorts secrets, each once: one may begin with another.
func longestFirst(secrets []string) []string {
	secrets = slices.Compact(slices.Sorted(slices.Values(secrets)))
	slices.SortStableFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	return secrets
}

var userinfo = lazyregexp.New(`(?i)^https?://([^/?#\s@]+)@`)

// Passwords are the passwords in an address that only its form shows.
func Passwords(text string) []string {
	m := userinfo.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	if user, password, ok := strings.Cut(m[1], ":"); ok && user != "" {
		return []string{password, m[1]}
	}
	return m[1:]
}

// Withhold is a text without secrets that are known.
func Withhold(text string, secrets []string) string {
	for _, v := range longestFirst(secrets) {
		text = strings.ReplaceAll(text, v, Mark)
	}
	return text
}

// Hide is a text without what looks like a secret, but for the given words, which are none. A secret's name stays.
func Hide(text string, none ...string) string {
	return Replace(text, func(v string) string {
		if strings.HasPrefix(v, "${") || slices.Contains(none, v) {
			return v
		}
		return Mark
	})
}
