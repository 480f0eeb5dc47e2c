package policy

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"indoubt/ledger/record/secret"
)

// Withheld stands for a secret in what is shown or kept.
const Withheld = secret.Mark

// minSecret is the length below which a value is too common to be looked for.
const minSecret = 6

// secretBox collects the secrets that were put into a request, so that they are
// known again where the other side repeats them.
type secretBox struct{ values []string }

func (b *secretBox) add(v string) {
	if v = strings.TrimSpace(v); len(v) < minSecret || slices.Contains(b.values, v) {
		return
	}
	b.values = append(b.values, v)
}

// parts adds the secrets inside an address or a DSN: an error repeats them alone.
func (b *secretBox) parts(text string, in use) {
	secret.Replace(text, func(v string) string { b.add(v); return v })
	for _, v := range passwords(text, in) {
		b.add(v)
	}
}

// Withhold is a text without the secrets that were put into the request, also
// where the other side repeats them as JSON or in an address.
func (r Request) Withhold(text string) string { return withhold(text, r.Secrets) }

// longestFirst sorts secrets: one may begin with another.
func longestFirst(secrets []string) {
	slices.SortStableFunc(secrets, func(a, b string) int { return len(b) - len(a) })
}

func withhold(text string, secrets []string) string {
	secrets = slices.Clone(secrets)
	longestFirst(secrets)
	for _, v := range secrets {
		quoted, _ := json.Marshal(v)
		for _, form := range []string{v, string(quoted[1 : len(quoted)-1]), url.QueryEscape(v), url.PathEscape(v)} {
			text = strings.ReplaceAll(text, form, Withheld)
		}
	}
	return text
}

// Withhold is a text without the secrets that are written out in the file, and
// without what looks like one.
func (p *Policy) Withhold(text string) string { return hide(text, p.secrets) }

// hide is a text without the given secrets and without what looks like one. What
// stands there by its name stays, and so do the words that are known to be none.
func hide(text string, secrets []string, none ...string) string {
	return secret.Replace(withhold(text, secrets), func(v string) string {
		if strings.HasPrefix(v, "${") || slices.Contains(none, v) {
			return v
		}
		return Withheld
	})
}
