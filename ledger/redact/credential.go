package redact

import (
	"slices"
	"strings"
)

// credentials are headers that say who is asking, as PlainName writes them, with the ends of
// others. A credential is renewed.
var (
	credentials = map[string]bool{
		"authorization": true, "cookie": true, "token": true, "xtoken": true, "apikey": true, "xkey": true,
		"privatetoken": true, "jobtoken": true, "deploytoken": true, "circletoken": true, "xvaulttoken": true,
		"xfigmatoken": true, "xgitlabtoken": true,
	}
	credentialEnds = []string{"apikey", "authtoken", "accesstoken", "apitoken", "servertoken", "accounttoken", "sessiontoken", "authkey",
		"accesskey", "secretkey", "subscriptionkey", "applicationkey", "appkey", "password", "secret"}
)

// Credential reports whether a header says who is asking by a secret. Tokens that change with every request (against
// forgery, for tracing) do not: they would keep a caller from its own answer.
func Credential(name string) bool {
	plain := PlainName(name)
	return credentials[plain] || slices.ContainsFunc(credentialEnds, func(end string) bool { return strings.HasSuffix(plain, end) })
}
