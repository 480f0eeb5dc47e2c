package policy

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// Withheld stands for a secret in what is shown or kept.
const Withheld = "[redacted]"

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

// Withhold is a text without the secrets that were put into the request, also
// where the other side repeats them as JSON or in an address.
func (r Request) Withhold(text string) string {
	for _, v := range r.Secrets {
		quoted, _ := json.Marshal(v)
		for _, form := range []string{v, string(quoted[1 : len(quoted)-1]), url.QueryEscape(v), url.PathEscape(v)} {
			text = strings.ReplaceAll(text, form, Withheld)
		}
	}
	return text
}
