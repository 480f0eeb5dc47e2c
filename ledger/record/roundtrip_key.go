package record

import (
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"sort"
	"strings"

	"indoubt/ledger/record/secret"
)

const maxKey = 255 // bytes of a key that a caller may give

// givenKey reads the Idempotency-Key header: an sf-string (RFC 9651, as the IETF
// draft has it) or bare text. It is "" when there is none.
func givenKey(h http.Header) (string, error) {
	values := h.Values(HeaderKey)
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 {
		return "", &KeyError{Why: "it is given more than once"}
	}
	v := strings.Trim(values[0], " \t")
	key := v
	if strings.HasPrefix(v, `"`) {
		text, rest, ok := quotedText(v)
		if rest = strings.TrimLeft(rest, " "); !ok || rest != "" && rest[0] != ';' {
			return "", &KeyError{Why: "it begins with a quote and is no structured string"}
		}
		key = text
	} else if strings.ContainsAny(v, " \t") {
		return "", &KeyError{Why: "a key with spaces must be quoted"}
	}
	switch {
	case strings.TrimSpace(key) == "":
		return "", &KeyError{Why: "it is empty"}
	case len(key) > maxKey:
		return "", &KeyError{Why: fmt.Sprintf("it is longer than %d characters", maxKey)}
	}
	for i := range len(key) {
		if key[i] < ' ' || key[i] > '~' {
			return "", &KeyError{Why: "it has a character outside of printable ASCII"}
		}
	}
	return key, nil
}

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

// callers are headers that say who is asking, or for whom, as plainName writes
// them; callerEnds are the ends of others.
var (
	callers = map[string]bool{
		"authorization": true, "cookie": true, "token": true, "xtoken": true, "apikey": true, "xkey": true,
		"privatetoken": true, "jobtoken": true, "deploytoken": true, "circletoken": true, "xvaulttoken": true, "xfigmatoken": true, "xgitlabtoken": true,
		"stripeaccount": true, "stripecontext": true, "openaiorganization": true, "openaiproject": true, "xgooguserproject": true,
	}
	callerEnds = []string{"apikey", "authtoken", "accesstoken", "apitoken", "servertoken", "accounttoken", "sessiontoken", "authkey", "accesskey", "secretkey",
		"subscriptionkey", "applicationkey", "appkey", "password", "secret", "tenantid", "organizationid", "accountid"}
)

// saysWho reports whether a header says who is asking. Tokens that change with every
// request (against forgery, for tracing) do not: they would keep a caller from its
// own answer.
func (t *Transport) saysWho(name string) bool {
	plain := secret.PlainName(name)
	if callers[plain] || slices.ContainsFunc(callerEnds, func(end string) bool { return strings.HasSuffix(plain, end) }) {
		return true
	}
	return slices.ContainsFunc(t.ScopeHeaders, func(h string) bool { return textproto.CanonicalMIMEHeaderKey(h) == name })
}

// scopeOf keeps the keys of different origins and callers apart. Of the
// credential only a digest is kept, under a key outside the ledger.
func (t *Transport) scopeOf(req *http.Request) (string, error) {
	if t.Scope != "" {
		return t.Scope, nil
	}
	origin := strings.ToLower(req.URL.Scheme + "://" + req.URL.Host)
	var said []string
	for name, values := range req.Header {
		if t.saysWho(textproto.CanonicalMIMEHeaderKey(name)) {
			for _, v := range values {
				said = append(said, textproto.CanonicalMIMEHeaderKey(name)+": "+v)
			}
		}
	}
	sort.Strings(said)
	if u := req.URL.User; u != nil {
		said = append(said, u.String())
	}
	if len(said) == 0 {
		return origin, nil
	}
	digest, err := t.Recorder.redact.digest(strings.Join(said, "\n"))
	if err != nil {
		return "", fmt.Errorf("the scope of its key: %w", err)
	}
	return origin + " " + strings.TrimPrefix(digest, digestPrefix), nil
}
