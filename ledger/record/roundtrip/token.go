package roundtrip

import (
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"indoubt/ledger/record"
	"indoubt/ledger/wire/transmit"
)

// sent is what of a request the correlation token may go into.
type sent struct {
	query string // as it is written
	body  []byte
}

// withToken puts the correlation token where the kind's policy says: into the
// body, by what that really is, or into the query. ok is false, and the request as
// it was, when there is no place for it. The policy's path is one in the input
// (body.metadata.token, query.ref), or in the body.
func withToken(req *http.Request, body []byte, rule record.KindRule, token string) (out sent, ok bool) {
	out = sent{req.URL.RawQuery, body}
	at, named := rule.TokenPlace(rule.Input)
	if !named || sealed(req) {
		return out, false
	}
	if below, is := at.Below("query"); is {
		out.query, ok = below.Form(out.query, token)
		return out, ok
	}
	if below, is := at.Below("body"); is {
		at = below
	}
	if transmit.Encoded(req.Header) || len(body) == 0 || len(body) > maxInputBody {
		return out, false
	}
	mediaType, params, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	switch s, _ := shapeOf(mediaType, params["boundary"], body); s {
	case asJSON:
		out.body, ok = at.JSON(body, token)
	case asForm:
		var form string
		if form, ok = at.Form(string(body), token); ok {
			out.body = []byte(form)
		}
	}
	return out, ok
}

// seals are headers that hold a digest or a signature of what is sent.
var seals = []string{"Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "Signature", "X-Amz-Content-Sha256", "X-Goog-Hash", "X-Hub-Signature", "X-Hub-Signature-256"}

// signedBy are the ways to sign in that cover the request itself.
var signedBy = []string{"aws4-", "oauth ", "signature ", "hawk ", "sharedkey "}

// sealed reports whether a request says what it holds: with a token in it, it would
// be refused as changed on the way.
func sealed(req *http.Request) bool {
	if slices.ContainsFunc(seals, func(name string) bool { return len(req.Header.Values(name)) > 0 }) {
		return true
	}
	scheme := strings.ToLower(strings.TrimSpace(req.Header.Get("Authorization")))
	return slices.ContainsFunc(signedBy, func(begins string) bool { return strings.HasPrefix(scheme, begins) }) ||
		strings.Contains(strings.ToLower(req.URL.RawQuery), "signature=")
}

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
