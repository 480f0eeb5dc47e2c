package roundtrip

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/textproto"
	"sort"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/record"
	"indoubt/ledger/redact"
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

// credentials are headers that say who is asking, and accounts those that say for
// whom, as plainName writes them; with the ends of others. A credential is renewed, an
// account is not.
var (
	credentials = map[string]bool{
		"authorization": true, "cookie": true, "token": true, "xtoken": true, "apikey": true, "xkey": true,
		"privatetoken": true, "jobtoken": true, "deploytoken": true, "circletoken": true, "xvaulttoken": true, "xfigmatoken": true, "xgitlabtoken": true,
	}
	credentialEnds = []string{"apikey", "authtoken", "accesstoken", "apitoken", "servertoken", "accounttoken", "sessiontoken", "authkey", "accesskey", "secretkey",
		"subscriptionkey", "applicationkey", "appkey", "password", "secret"}
	accounts    = map[string]bool{"stripeaccount": true, "stripecontext": true, "openaiorganization": true, "openaiproject": true, "xgooguserproject": true}
	accountEnds = []string{"tenantid", "organizationid", "accountid"}
)

func named(name string, names map[string]bool, ends []string) bool {
	plain := redact.PlainName(name)
	return names[plain] || hasAny(plain, ends, strings.HasSuffix)
}

// saysWho reports whether a header says who is asking. Tokens that change with every
// request (against forgery, for tracing) do not: they would keep a caller from its
// own answer.
func (t *Transport) saysWho(name string) bool {
	return named(name, credentials, credentialEnds) || t.parts(name)
}

// parts reports whether callers with another value of a header are known to be others,
// not one whose credential was renewed.
func (t *Transport) parts(name string) bool {
	return isAccount(name) || hasAny(name, t.ScopeHeaders, strings.EqualFold)
}

func isAccount(name string) bool { return named(name, accounts, accountEnds) }

// mayTell are headers of travel and of form in which a tenant, or a dry run, may stand.
var mayTell = []string{"X-Forwarded-Host", "X-Forwarded-Prefix", "Baggage", "Prefer"}

// perTry are headers that are new at every try of one caller, beside noise.
var (
	perTry     = []string{"X-Csrf-Token", "X-Xsrf-Token", "X-Csrftoken", "X-Recaptcha-Token", "X-Amz-Date", "X-Amz-Content-Sha256", "Accept-Charset", "Upgrade", "Http2-Settings"}
	perTryEnds = []string{"-Request-Id", "-Correlation-Id", "-Trace-Id", "-Span-Id"}
)

// mayTellWho reports whether another value of a header may be another caller's. Only
// what is known to say something else may not.
func (t *Transport) mayTellWho(name string, rule record.KindRule) bool {
	switch {
	case hasAny("-"+name, t.ScopeHeaders, strings.EqualFold):
		return false
	case t.saysWho(name), hasAny(name, mayTell, strings.EqualFold):
		return true
	}
	return !isNoise(name) && !saysWhat(name) && !hasAny(name, perTry, strings.EqualFold) && !hasAny(name, perTryEnds, strings.HasSuffix) && !strings.EqualFold(name, rule.KeyHeader)
}

// callersOf has a digest of each header that says who is asking, or may; none where
// one scope was given to all callers.
func (t *Transport) callersOf(req *http.Request, rule record.KindRule) (map[string]string, error) {
	if t.Scope != "" {
		return nil, nil
	}
	said := map[string]string{}
	for name, values := range req.Header {
		if name = textproto.CanonicalMIMEHeaderKey(name); t.mayTellWho(name, rule) {
			said[name] = strings.Join(values, "\n")
		}
	}
	if u := req.URL.User; u != nil {
		said["Authorization"] += u.String()
	}
	for name, value := range said {
		digest, err := t.Recorder.Digest(value)
		if err != nil {
			return nil, fmt.Errorf("whose key it is: %w", err)
		}
		said[name] = digest[:ledger.CallerLength]
	}
	return said, nil
}

// askedBy is what a request asks and where: its host, the headers that say for whom, and
// its input. A credential is not in it, since it is renewed.
func (t *Transport) askedBy(req *http.Request, input json.RawMessage, parts func(string) bool) (string, error) {
	print, err := ledger.Fingerprint(input)
	asked := []string{"http", strings.ToLower(req.URL.Host), print}
	for name, values := range req.Header {
		if name = textproto.CanonicalMIMEHeaderKey(name); parts(name) {
			asked = append(asked, name+": "+strings.Join(values, "\n"))
		}
	}
	sort.Strings(asked[3:])
	return strings.Join(asked, "\n"), err
}

// scopeOf keeps the keys of different origins apart, and those that callers gave by their
// credentials, of which only a digest is kept, under a key outside the ledger. One scope for
// all callers stands for their credentials; another host or account is another all the same.
func (t *Transport) scopeOf(req *http.Request, given bool) (string, error) {
	scope := strings.ToLower(req.URL.Scheme + "://" + req.URL.Host)
	if t.Scope != "" {
		scope += " " + t.Scope
	}
	if !given {
		return scope, nil
	}
	var said []string
	for name, values := range req.Header {
		if name = textproto.CanonicalMIMEHeaderKey(name); t.parts(name) || t.Scope == "" && t.saysWho(name) {
			for _, v := range values {
				said = append(said, name+": "+v)
			}
		}
	}
	sort.Strings(said)
	if u := req.URL.User; u != nil && t.Scope == "" {
		said = append(said, u.String())
	}
	if len(said) == 0 {
		return scope, nil
	}
	digest, err := t.Recorder.Digest(strings.Join(said, "\n"))
	if err != nil {
		return "", fmt.Errorf("the scope of its key: %w", err)
	}
	return scope + " " + digest, nil
}
