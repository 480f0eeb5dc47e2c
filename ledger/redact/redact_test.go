package redact

import (
	"testing"

	"indoubt/ledger/need"
)

// TestI11_KeysAreKnownByTheirShape: of services that many write to.
func TestI11_KeysAreKnownByTheirShape(t *testing.T) {
	for _, c := range []struct{ before, secret, after string }{
		{"", "sk-ant-api03-Ab12_cdEFgh-56ijklmn", ""}, {"use ", "sk-proj-AbCdEf0123456789_-xyz", " now"}, {"", "sk-abcdefghijklmnopqrstuvwxyz0123456789", ""},
		{"", "glpat-AbCdEfGhIjKlMnOpQrSt", ""}, {"?key=", "AIzaSyDOCAbC123dEf456GhI789jKl01-MnOpQr", "&x=1"},
		{"", "SG.AbCdEfGhIjKlMnOpQr.AbCdEfGhIjKlMnOpQrStUv", ""}, {"", "npm_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789", ""},
		{"", "hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567", ""}, {"", "pypi-AgEIcHlwaS5vcmcCJGU0ZjU5ZjYyLTExMjItNDQ1NS1hMmQzAA", ""},
		{"", "shpat_0123456789abcdef0123456789abcdef", ""}, {"", "dop_v1_0123456789abcdef0123456789abcdef01234567", ""},
		{"/bot123456789:", "AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw", "/sendMessage"}, {"/bot123456789%3A", "AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw", "/sendMessage"},
		{"/services/T00000000/B00000000/", "XXXXXXXXXXXXXXXXXXXXXXXX", ""}, {"/api/webhooks/1234567890/", "abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJKLMNOPQRSTUVWXYZ_01", "?wait=true"},
	} {
		need.Equal(t, Without(c.before+c.secret+c.after, nil), c.before+Mark+c.after, c.before+c.secret+c.after)
	}
	for _, s := range []string{"sk-hynix-memory-chips-of-2026", "a task-force-of-many-people-here", "/services/team/blog/welcome-to-our-services", "SG.1", "AIza", "npm_config_registry", "/bot1:x", "/api/webhooks/12/deliveries"} {
		need.Equal(t, Without(s, nil), s)
	}
}

// TestHarmlessTextStays: what only looks like a secret is evidence.
func TestHarmlessTextStays(t *testing.T) {
	for _, said := range []string{
		`{"token":"indoubt-ABC123","next_page_token":"p2"}`, "the token is missing", "basic plan", "password must not be empty",
		"see https://user@host/path and http://host:8080/x", "Idempotency-Key: k1",
	} {
		need.Equal(t, Without(said, nil), said)
	}
}

// TestPlainTextsHoldNoSecret: the quick look never passes over a text that one of
// the shapes would change.
func TestPlainTextsHoldNoSecret(t *testing.T) {
	parts := []string{"sk", "_", "live", "test", "abcdefgh12345678", "ghp", "ghs_", "gho_aaaaaaaaaaaaaaaaaaaaaa", "github_pat_", "xoxb-", "AKIA", "ASIA",
		"ABCDEFGHIJKLMNOP", "sk-", "ant-", "glpat-", "AIza", "SG.", "npm_", "hf_", "pypi-", "shpat_", "dop_v1_", "/bot1234567", "/services/T1/B2/", "/api/webhooks/1/",
		"0123456789abcdef0123456789abcdef", "AbCdEfGhIjKlMnOpQrStUvWxYz012345678", "0123456789abcdef.0123456789abcdef", "eyJ", "eyJhbGciOi.eyJzdWIi.", "-----BEGIN ", "PRIVATE KEY-----", "Bearer ", "basic ", "password", ":", "=", " ", "\t", "\n", "--token", "cookie", "://u:p@", "API_KEY"}
	r := need.Rand(t)
	for range need.Steps(5_000, 20_000) {
		var s string
		for range 1 + r.IntN(5) {
			s += parts[r.IntN(len(parts))]
		}
		if !plain(s) {
			continue
		}
		for _, shape := range shapes {
			need.Must(t, len(s) < 6 || !shape.MatchString(s), "%q looks plain, and is matched by the shape of %q", s, shape.words)
		}
	}
}

// TestSecretShapesNeedTheirWords: a text that a shape matches has one of its words.
func TestSecretShapesNeedTheirWords(t *testing.T) {
	parts := []string{"Authorization", "Bearer ", "aUthorization: ", "BASIC dXNlcjpwYXNz", "Cookie: a", "set-cookie:b", "Passphrase", "PWD=x", "api_key", "API-KEY: 1", "access_token", "private-key=2", "client-secret",
		"--token x", "--my-password=y", "A_SECRET=z", "API_KEY=q", "A_TOKEN=1", "https://u:p@h", "sk_live_abcdefgh1", "pk_test_", "ghp_aaaaaaaaaaaaaaaaaaaaaa", "github_pat_aaaaaaaaaaaaaaaaaaaaaa",
		"sk-proj-0123456789abcdef", "glpat-0123456789abcdefgh", "AIza0123456789abcdef0123456789abcdefABC", "SG.0123456789abcdef.0123456789abcdef", "npm_0123456789abcdef0123456789abcdef",
		"hf_0123456789abcdef0123456789abcdef", "pypi-0123456789abcdef0123456789abcdef01234567", "shpca_0123456789abcdef0123456789abcdef", "dop_v1_0123456789abcdef0123456789abcdef01234567",
		"/bot1234567:0123456789abcdef0123456789abcdef", "/services/T1/B2/0123456789abcdef", "/api/webhooks/1/0123456789abcdef0123456789abcdef01234567", "xoxb-1234567890", "AKIAABCDEFGHIJKLMNOP", "eyJhbGciOi.eyJzdWIi.", "-----BEGIN RSA PRIVATE KEY-----", " ", "x", "\u017fecret: a", "to\u212aen: 1", "="}
	r := need.Rand(t)
	for range need.Steps(3_000, 20_000) {
		var s string
		for range 1 + r.IntN(4) {
			s += parts[r.IntN(len(parts))]
		}
		lower := lowered(s)
		for _, shape := range shapes {
			need.Must(t, shape.in(lower) || !shape.MatchString(s),
				"%q has none of %q, and is matched by their shape", s, shape.words)
		}
	}
}
