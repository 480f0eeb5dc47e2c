// Package redact knows what a secret looks like: by the name it stands under, and
// by its own shape. Whatever is stored, logged or shown goes through it, so that
// there is one list to keep. It is a leaf and imports nothing of indoubt.
package redact

import (
	"encoding/json"
	"slices"
	"strings"

	"indoubt/ledger/lazyregexp"
)

// Mark stands for a secret in what is shown, and in a stored answer. In an input
// a digest stands there instead, because two inputs must stay different.
const Mark = "[redacted]"

// names are members, headers, flags and variables whose values are never
// stored. They are compared without case, dashes and underscores.
var names = map[string]bool{
	"authorization": true, "proxyauthorization": true, "cookie": true, "setcookie": true,
	"password": true, "passwd": true, "pwd": true, "pass": true, "passphrase": true, "proxypassword": true,
	"secret": true, "clientsecret": true, "secretkey": true, "sharedsecret": true, "apisecret": true,
	"apikey": true, "xapikey": true, "accesskey": true, "secretaccesskey": true, "awssecretaccesskey": true,
	"accesstoken": true, "refreshtoken": true, "authtoken": true, "bearertoken": true, "idtoken": true,
	"sessiontoken": true, "xauthtoken": true, "bearer": true, "privatekey": true, "credential": true, "credentials": true,
	"sessionid": true, "pin": true, "otp": true, "totp": true, "cvc": true, "cvv": true,
}

// ends are what the names of secrets end in.
var ends = []string{"password", "passwd", "passphrase", "secret", "apikey", "secretkey", "accesskey", "privatekey", "accesstoken", "refreshtoken", "authtoken", "credentials"}

// holders are the names of objects in which a token is a credential.
var holders = map[string]bool{"auth": true, "authentication": true, "authorization": true, "credential": true, "credentials": true, "login": true, "oauth": true}

// flags are secret as a flag or variable, where as a JSON member they may mean
// anything (a page token, a payment token).
var flags = map[string]bool{"token": true, "oauth2bearer": true, "auth": true, "user": false}

var separators = strings.NewReplacer("-", "", "_", "", ".", "")

// PlainName is a name without case, dashes, underscores and dots.
func PlainName(name string) string { return strings.ToLower(separators.Replace(name)) }

// Name reports whether a member so named is secret; of user[password] the last
// name counts.
func Name(name string) bool {
	plain := PlainName(LastName(name))
	return names[plain] || slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(plain, end) })
}

// Parameter reports whether a parameter of an address so named is secret: there are
// more of them there than elsewhere.
func Parameter(name string) bool {
	plain := PlainName(LastName(name))
	return plain == "key" || plain == "sig" || strings.HasSuffix(plain, "signature") || strings.HasSuffix(plain, "credential") || Variable(LastName(name))
}

// LastName is password for user[password] and for user[password][].
func LastName(name string) string {
	name = strings.TrimSuffix(name, "[]")
	if i := strings.LastIndexByte(name, '['); i > 0 && strings.HasSuffix(name, "]") {
		return name[i+1 : len(name)-1]
	}
	return name
}

// numbers are the names whose value is secret also as a number.
var numbers = map[string]bool{"password": true, "passwd": true, "pwd": true, "passphrase": true, "pin": true, "otp": true, "totp": true, "cvc": true, "cvv": true}

// Member is the text of a member's value, or of one in its list, that is secret
// for the member's name, or for the name of the object that holds it.
func Member(holder, name string, v any) (text string, ok bool) {
	switch v := v.(type) {
	case string:
		return v, v != "" && (Name(name) || holders[PlainName(LastName(holder))] && Variable(name))
	case json.Number:
		return v.String(), numbers[PlainName(LastName(name))]
	}
	return "", false
}

// Variable reports whether NAME in NAME=value or --NAME names a secret.
func Variable(name string) bool {
	plain := PlainName(strings.TrimLeft(name, "-"))
	return names[plain] || flags[plain] || strings.HasSuffix(plain, "token") ||
		slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(plain, end) })
}

// shape is what a secret inside a text looks like. Group 1, where there is
// one, stays. A text with none of the words, in lower case, has no such secret:
// looking for words is a hundred times as fast.
type shape struct {
	*lazyregexp.Regexp
	words []string
	sign  string // nor has one without this
}

func looks(like string, words ...string) shape { return shape{lazyregexp.New(like), words, ""} }

func (s shape) with(sign string) shape {
	s.sign = sign
	return s
}

var shapes = []shape{
	looks(`(?i)(\b(?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token|digest|apikey|aws4-hmac-sha256)\s+)?)[^\s"',;&]+`, "authorization"),
	looks(`(?i)(\b(?:set-)?cookie["']?\s*:\s*["']?)[^\r\n"']+`, "cookie"),
	looks(`(?i)(\bbearer\s+)[a-z0-9._~+/=-]{6,}`, "bearer"),
	looks(`(?i)(\bbasic\s+)[a-z0-9+/]{8,}={0,2}`, "basic"),
	looks(`(?i)(\b(?:x-)?(?:password|passwd|passphrase|pwd|secret|(?:client|shared|api)[_-]?secret|secret[_-]?(?:access[_-]?)?key|api[_-]?key|access[_-]?key|(?:access|refresh|auth|session|bearer|id)[_-]?token|private[_-]?key)["']?\s*[:=]\s*["']?)[^\s"',;&]+`, "pass", "pwd", "secret", "apikey", "api_key", "api-key", "accesskey", "access_key", "access-key", "privatekey", "private_key", "private-key", "token"),
	looks(`(?i)(--?[a-z0-9-]*(?:password|passwd|secret|token|api-?key)(?:\s+|=))[^\s"']+`, "pass", "secret", "apikey", "api-key", "token").with("-"),
	looks(`(\b[A-Z][A-Z0-9_]*(?:PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|SECRET_KEY|ACCESS_KEY|PRIVATE_KEY)=)[^\s"']+`, "password=", "passwd=", "secret=", "token=", "key="),
	looks(`([a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@"']*:)[^\s/@"']+(?:@)`, "@"),
	looks(`(?i)([?&](?:key|sig|token|(?:[a-z0-9-]+-)?(?:signature|credential|security-token))=)[^&\s"'#]+`, "key=", "sig=", "token=", "signature=", "credential="),
	looks(`(?i)(<(?:[a-z0-9_.-]+:)?(?:[a-z0-9]+[_-]?)?(?:password|passwd|passphrase|pwd|secret|api[_-]?key|access[_-]?key|private[_-]?key|token|pin)(?:\s[^<>]*)?>)[^<\s][^<]*`, "pass", "pwd", "secret", "key", "token", "pin").with("<"),
	looks(`(?i)(\bcurl\b[^\n|;&]*?\s(?:-u\s*|--user[ =]|--proxy-user[ =])["']?[^\s:"']+:)[^\s"']+`, "curl"),
	looks(`(\b(?:mysql|mysqldump|mysqladmin|mysqlimport|mariadb|mariadb-dump)\b[^\n|;&]*?\s-p)[^\s"']+`, "mysql", "mariadb"),
	looks(`(\bsshpass\s+-p\s*["']?)[^\s"']+`, "sshpass"),
	looks(`()\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{8,}`, "_live_", "_test_"),
	looks(`()\bgh[pousr]_[A-Za-z0-9]{20,}`, "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
	looks(`()\bgithub_pat_[A-Za-z0-9_]{20,}`, "github_pat_"),
	looks(`()\bxox[abprs]-[A-Za-z0-9-]{10,}`, "xox"),
	looks(`()\bsk-(?:(?:ant|proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{16,}|[A-Za-z0-9]{32,})`, "sk-"),
	looks(`()\bglpat-[A-Za-z0-9_-]{16,}`, "glpat-"),
	looks(`()\bAIza[A-Za-z0-9_-]{35}`, "aiza"),
	looks(`()\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`, "sg."),
	looks(`()\b(?:npm|hf)_[A-Za-z0-9]{30,}`, "npm_", "hf_"),
	looks(`()\bpypi-[A-Za-z0-9_-]{40,}`, "pypi-"),
	looks(`()\bshp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}`, "shpat_", "shpca_", "shppa_", "shpss_"),
	looks(`()\bdop_v1_[a-f0-9]{40,}`, "dop_v1_"),
	looks(`(/bot[0-9]{6,}(?::|%3[Aa]))[A-Za-z0-9_-]{30,}`, "/bot"),
	looks(`(/services/T[A-Za-z0-9]+/B[A-Za-z0-9]+/)[A-Za-z0-9]{16,}`, "/services/t"),
	looks(`(/api/webhooks/[0-9]+/)[A-Za-z0-9_-]{40,}`, "/api/webhooks/"),
	looks(`()\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`, "akia", "asia"),
	looks(`()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`, "eyj"),
	looks(`()-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?`, "-----begin "),
}

// lowered is a text in lower case as the shapes read it: (?i) takes U+017F for an s.
func lowered(s string) string {
	return strings.ToLower(strings.ReplaceAll(s, "\u017f", "s"))
}

// in reports whether the shape may occur in a text, given in lower case.
func (s shape) in(lower string) bool {
	if s.sign != "" && !strings.Contains(lower, s.sign) {
		return false
	}
	return slices.ContainsFunc(s.words, func(w string) bool { return strings.Contains(lower, w) })
}

// signs are what a text without white space, ":" and "=" must hold for one of the
// shapes to be in it.
var signs = []string{"_live_", "_test_", "gh", "github_pat_", "xox", "AKIA", "ASIA", "eyJ", "-----BEGIN",
	"sk-", "glpat-", "AIza", "SG.", "npm_", "hf_", "pypi-", "shp", "dop_v1_", "/bot", "/services/T", "/api/webhooks/", "<"}

// plain tells at little cost that none of the shapes can be in a text, as in most
// ids and words.
func plain(s string) bool {
	if len(s) < 6 {
		return true
	}
	if strings.ContainsAny(s, ":= \t\n\f\r") {
		return false
	}
	return !slices.ContainsFunc(signs, func(sign string) bool { return strings.Contains(s, sign) })
}

// placeholder is a value that is no secret itself: it is filled in at each run. In
// a form others follow it, which have names of their own.
var placeholder = lazyregexp.New(`^["']?(?:\{\{(?:key|token)\}\}|\$\{[A-Za-z_][A-Za-z0-9_]*\})(?:["']?$|&)`)

// Harmless reports whether a value is a placeholder of a command, or stands for a
// secret that was taken out already.
func Harmless(value string) bool { return placeholder.MatchString(value) || named(value) }

// HeaderVariable begins the names of the variables that hold headers for an MCP server.
const HeaderVariable = "INDOUBT_HEADER_"

// named reports whether a value only names a secret, or stands for one.
func named(value string) bool {
	value = strings.TrimLeft(value, `"'`)
	begins := []string{"redacted", "[redacted", "${env.", "${file(", "{{token}}", "{{key}}", HeaderVariable}
	return slices.ContainsFunc(begins, func(b string) bool { return strings.HasPrefix(value, b) })
}

// Without takes well-known secrets and the given values out of a text.
func Without(s string, values []string) string {
	return Replace(without(s, values), Marked)
}

func without(s string, values []string) string {
	for _, v := range values {
		s = strings.ReplaceAll(s, v, Mark)
	}
	return s
}

// Marked stands for any secret.
func Marked(string) string { return Mark }

// Replace replaces every well-known secret in a text by what stand makes
// of it.
func Replace(s string, stand func(secret string) string) string {
	if plain(s) {
		return s
	}
	lower := lowered(s)
	for _, shape := range shapes {
		if !shape.in(lower) {
			continue
		}
		s = shape.ReplaceAllStringFunc(s, func(hit string) string {
			kept := shape.FindStringSubmatch(hit)[1]
			secret, tail := hit[len(kept):], ""
			if strings.HasSuffix(secret, "@") {
				secret, tail = secret[:len(secret)-1], "@"
			}
			if named(secret) {
				return hit
			}
			return kept + stand(secret) + tail
		})
	}
	return s
}
