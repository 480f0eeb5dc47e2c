package transport

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/redact"
	"indoubt/policy/expr"
)

// Digest makes what a recorder keeps of a header instead of its value. It errs where
// this process lacks the ledger's key.
type Digest func(value string) (string, error)

// SameCaller reports whether two operations are known to be of one caller. Where no HTTP
// request is recorded, only scope and pipeline say who that is.
func (ds *Downstream) SameCaller(a, b ledger.Operation) bool {
	if a.Request == nil || b.Request == nil {
		return a.Request == b.Request && a.Scope == b.Scope && a.Source.Pipeline == b.Source.Pipeline
	}
	return a.Request.Origin == b.Request.Origin && len(a.Request.OtherCaller(b.Request, ds.saysWhoAsks)) == 0
}

// saysWhoAsks reports whether a header tells callers apart whose effects differ.
func (ds *Downstream) saysWhoAsks(header string) bool {
	return redact.Credential(header) && (ds == nil || !ds.SameAccount) || ds != nil && slices.Contains(ds.Callers, header)
}

// sameHeader errs unless a write is known to have had a header with this value: another
// credential could be another account's.
func sameHeader(was *ledger.Request, name, value string, digest Digest) error {
	if values, kept := was.Header[name]; kept {
		if !slices.Equal(values, []string{value}) {
			return fmt.Errorf("it was sent with another %s than the downstream's `headers` say", name)
		}
		return nil
	}
	return sameValue(was.Callers[name], value, name, "the downstream's `headers` say", digest)
}

// sameValue errs unless known is the digest of a value, which is to be sent as name now.
func sameValue(known, value, name, whose string, digest Digest) error {
	if known == "" {
		return fmt.Errorf("the record does not show which %s it was sent with", name)
	}
	now, err := digest(value)
	switch {
	case err != nil:
		return fmt.Errorf("whether it was sent with the %s that %s cannot be told here: %w", name, whose, err)
	case now != known:
		return fmt.Errorf("it was sent with another %s than %s", name, whose)
	}
	return nil
}

// Stranger says why a check may be another caller's than the write was, "" where nothing shows
// that: it is asked with another credential, with one that the write is not known to have had,
// or with another one of the headers that say who asks.
func (ds *Downstream) Stranger(was *ledger.Request, asked *HTTPRequest, digest Digest) string {
	if was == nil || asked == nil {
		return ""
	}
	for _, name := range ds.tellingHeaders(was, asked) {
		now := strings.Join(asked.Header[name], "\n")
		if kept, whole := was.Header[name]; whole && strings.Join(kept, "\n") == now {
			continue
		}
		if known := was.Callers[name]; known != "" || now != "" {
			made, err := digest(now)
			if err != nil {
				return "whether it asks with the " + name + " of the write cannot be told here: " + err.Error()
			}
			if made != known {
				why := "it does not ask with the " + name + " that the write had, so that it may see another account"
				if redact.Credential(name) {
					why += "; where both lead to one, say same_account: true"
				}
				return why
			}
		}
	}
	return ""
}

// tellingHeaders are the headers of a write or of its check that say who asks.
func (ds *Downstream) tellingHeaders(was *ledger.Request, asked *HTTPRequest) (names []string) {
	for _, name := range slices.Concat(slices.Sorted(maps.Keys(was.Callers)), slices.Sorted(maps.Keys(asked.Header))) {
		if ds.saysWhoAsks(name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// sameOrigin makes sure that the headers of a downstream, and the secrets in them, go
// nowhere but to where it is.
func (r *Rendering) sameOrigin(base *expr.Template, origin string) {
	text := r.base(base)
	at, err := url.Parse(text)
	was, bad := url.Parse(origin)
	if err != nil || bad != nil || !strings.EqualFold(at.Scheme, was.Scheme) ||
		!strings.EqualFold(at.Hostname(), was.Hostname()) || portOf(at) != portOf(was) {
		r.At("").Fail(fmt.Errorf("it was sent to %s, which is not where its downstream is", origin))
	}
}

func portOf(u *url.URL) string {
	return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)])
}
