package policy

import (
	"strings"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ledger/redact"
	"indoubt/policy/transport"
)

// leaky is a policy with a secret in one place.
func leaky(place string) string {
	text := `version: 1
downstreams:
  pay: { base: "https://pay.example" }
  tools: { mcp: { command: [npx, server] } }
  books: { sql: { postgres: "${env.BOOKS_DSN}" } }
kinds:
  k:
    downstream: pay
    read:
      http: { get: /x }
      read_only: true
      list: body.data
`
	old, fresh, _ := strings.Cut(place, " => ")
	return strings.Replace(text, old, fresh, 1)
}

// TestI11_ASecretInThePolicyIsRefusedAndNeverShown: wherever it stands, and
// whatever else is wrong with the file.
func TestI11_ASecretInThePolicyIsRefusedAndNeverShown(t *testing.T) {
	t.Setenv("BOOKS_DSN", "postgres://app@db/books")
	t.Setenv("PAY_KEY", "from-the-environment")
	for name, c := range map[string]struct{ place, hidden string }{
		"a header":               {`base: "https://pay.example" => base: "https://pay.example", headers: { Authorization: "Bearer sk_live_abcdefghijklmnop4242" }`, "sk_live_abcdefghijklmnop4242"},
		"a header by its name":   {`base: "https://pay.example" => base: "https://pay.example", headers: { Private-Token: "correct-horse-battery" }`, "correct-horse-battery"},
		"basic":                  {`base: "https://pay.example" => base: "https://pay.example", headers: { authorization: Basic dXNlcjpzZWNyZXQ= }`, "dXNlcjpzZWNyZXQ="},
		"a cookie":               {`base: "https://pay.example" => base: "https://pay.example", headers: { Cookie: "sid=s3cr3t-sid; a=b" }`, "s3cr3t-sid"},
		"a header of the read":   {`get: /x } => get: /x, headers: { X-Api-Key: correct-horse-battery } }`, "correct-horse-battery"},
		"the query":              {`get: /x } => get: /x, query: { api_key: correct-horse-battery } }`, "correct-horse-battery"},
		"the query by its shape": {`get: /x } => get: /x, query: { q: ghp_abcdefghijklmnopqrstuvwxyz0123456789 } }`, "ghp_abcdefghijklmnopqrstuvwxyz0123456789"},
		"the path":               {`get: /x } => get: "/x?api_key=correct-horse-battery" }`, "correct-horse-battery"},
		"a form":                 {`get: /x } => post: /find, form: { client_secret: correct-horse-battery } }`, "correct-horse-battery"},
		"json":                   {`get: /x } => post: /find, json: { login: { password: correct-horse-battery } } }`, "correct-horse-battery"},
		"a list in json":         {`get: /x } => post: /find, json: { keys: [{ password: [correct-horse-battery] }] } }`, "correct-horse-battery"},
		"a whole address":        {`get: /x } => get: "https://hooks.example/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX" }`, "XXXXXXXXXXXXXXXXXXXXXXXX"},
		"the base":               {`base: "https://pay.example" => base: "https://pay.example/bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"`, "AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"},
		"an environment":         {`http: { get: /x } => command: { argv: [tool], env: { TOOL_TOKEN: correct-horse-battery } }`, "correct-horse-battery"},
		"an argument":            {`http: { get: /x } => command: [tool, "--api-key=correct-horse-battery"]`, "correct-horse-battery"},
		"the argument after":     {`http: { get: /x } => command: [tool, --token, correct-horse-battery]`, "correct-horse-battery"},
		"a header argument":      {`http: { get: /x } => command: [curl, -H, "Authorization: Bearer correct-horse-battery", "https://h"]`, "correct-horse-battery"},
		"standard input":         {`http: { get: /x } => command: { argv: [tool], stdin: { password: correct-horse-battery } }`, "correct-horse-battery"},
		"a server's environment": {`command: [npx, server] => command: [npx, server], env: { API_TOKEN: correct-horse-battery }`, "correct-horse-battery"},
		"a server's argument":    {`command: [npx, server] => command: [npx, server, "--key", "sk-ant-api03-Ab12_cdEFgh-56ijklmn"]`, "sk-ant-api03-Ab12_cdEFgh-56ijklmn"},
		"a server's header":      {`command: [npx, server] => url: "https://mcp.example/mcp", headers: { X-Auth-Token: correct-horse-battery }`, "correct-horse-battery"},
		"a server's address":     {`command: [npx, server] => url: "https://mcp.example/mcp?access_token=correct-horse-battery"`, "correct-horse-battery"},
		"a tool's arguments":     {`http: { get: /x } => mcp: { server: tools, tool: find, arguments: { password: correct-horse-battery } }`, "correct-horse-battery"},
		"a DSN":                  {`postgres: "${env.BOOKS_DSN}" => postgres: "postgres://app:correct-horse-battery@db/books"`, "correct-horse-battery"},
		"a DSN of names":         {`postgres: "${env.BOOKS_DSN}" => postgres: "host=db user=app password=correct-horse-battery"`, "correct-horse-battery"},
		"a statement":            {`http: { get: /x } => sql: { database: books, query: "SELECT * FROM t WHERE k = 'ghp_abcdefghijklmnopqrstuvwxyz0123456789'" }`, "ghp_abcdefghijklmnopqrstuvwxyz0123456789"},
		"an expression":          {`list: body.data => list: 'body.data.filter(x, x.k != "sk_live_abcdefghijklmnop4242")'`, "sk_live_abcdefghijklmnop4242"},
		"a computed value":       {`get: /x } => get: /x, query: { k: "${input.n + \"sk_live_abcdefghijklmnop4242\"}" } }`, "sk_live_abcdefghijklmnop4242"},
		"a title":                {`downstream: pay => { title: "pay with ghp_abcdefghijklmnopqrstuvwxyz0123456789", downstream: pay`, "ghp_abcdefghijklmnopqrstuvwxyz0123456789"},
		"a link":                 {`downstream: pay => { link: "https://pay.example/?api_key=correct-horse-battery", downstream: pay`, "correct-horse-battery"},
		"a case":                 {`list: body.data => list: body.data` + "\n    tests: [{ answer: { body: { password: x, t: ghp_abcdefghijklmnopqrstuvwxyz0123456789 } }, want: none }]", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"},
	} {
		t.Run(name, func(t *testing.T) {
			text := leaky(strings.Replace(c.place, "downstream: pay => { ", "downstream: pay => ", 1))
			if name == "a title" || name == "a link" {
				text = strings.Replace(text, `", downstream: pay`, "\"\n    downstream: pay", 1)
			}
			_, err := Parse("policy.yaml", []byte(text))
			need.That(t, err != nil && strings.Contains(err.Error(), "holds a secret that is written out") && strings.Contains(err.Error(), "${env.") &&
				!strings.Contains(err.Error(), c.hidden), "refused: %v", err)

			// The same beside a mistake in the same line and one in the file.
			broken := strings.Replace(text, "version: 1", "version: 2", 1)
			broken = strings.Replace(broken, "list: body.data", "list: body.dat[", 1)
			_, err = Parse("policy.yaml", []byte(broken))
			need.That(t, err != nil && !strings.Contains(err.Error(), c.hidden), "a broken file shows it: %v", err)
		})
	}
}

// TestI11_RefusedAddressesShowNoPassword: a name and a password in an address are
// refused, and not repeated.
func TestI11_RefusedAddressesShowNoPassword(t *testing.T) {
	for _, place := range []string{
		`base: "https://pay.example" => base: "https://app:correct-horse@pay.example"`,
		`base: "https://pay.example" => base: "https://correct-horse@pay.example"`,
		`get: /x } => get: "https://app:correct-horse@pay.example/x" }`,
		`command: [npx, server] => url: "https://correct-horse@mcp.example/mcp"`,
		`downstream: pay => link: "https://correct-horse@mcp.example/mcp"`,
		`get: /x } => get: /x, headers: { Host: "Bearer sk_live_correct-horse" } }`,
		`get: /x } => get: /x, headers: { "Bad Name": "Bearer sk_live_correcthorse" }, Authorization: "Bearer correct-horse" }`,
		`base: "https://pay.example" => rate: password=correct-horse`,
	} {
		_, err := Parse("policy.yaml", []byte(leaky(place)))
		need.That(t, err != nil && !strings.Contains(err.Error(), "horse"), "%s: %v", place, err)
	}
}

// TestSecretsByNameAreNotRefused: what is no secret, or stands there by its name.
func TestSecretsByNameAreNotRefused(t *testing.T) {
	for _, place := range []string{
		`base: "https://pay.example" => base: "https://pay.example", headers: { Authorization: "Bearer ${env.PAY_KEY}", X-Api-Key: '${file("/run/key")}' }`,
		`base: "https://pay.example" => base: "https://pay.example", headers: { Authorization: '${"Basic " + base64.encode(bytes("u:" + env.PAY_KEY))}' }`,
		`base: "https://pay.example" => base: "https://pay.example", headers: { X-Atlassian-Token: no-check, X-CSRF-Token: Fetch, X-Api-Key: "", Accept: application/json, Idempotency-Key: "${key}" }`,
		`base: "https://pay.example" => base: "${env.PAY_BASE}"`,
		`get: /x } => get: /x, query: { page_token: "${input.page}", token: "${key}", filter: "$filter" } }`,
		`get: /x } => post: /graphql, json: { query: "query($id: ID!) { charge(id: $id) { id } }", variables: { id: "${key}" } } }`,
		`http: { get: /x } => command: { argv: [tool, --token, "${key}", --user, app], env: { GOOGLE_APPLICATION_CREDENTIALS: /etc/key.json, GIT_SSH_COMMAND: "ssh -i $HOME/.ssh/id", KEY: "${env.PAY_KEY}" } }`,
		`http: { get: /x } => command: [sh, -c, 'echo "$HOME $(date)"']`,
		`http: { get: /x } => command: [awk, "{ print $NF }"]`,
		`http: { get: /x } => sql: { database: books, query: "SELECT $BODY$ x $BODY$, id FROM t WHERE t = $1", args: ["${key}"] }`,
		`postgres: "${env.BOOKS_DSN}" => postgres: "postgres://app@db/books?sslmode=require"`,
		`postgres: "${env.BOOKS_DSN}" => postgres: "host=db user=app password=${env.BOOKS_PASSWORD}"`,
		`postgres: "${env.BOOKS_DSN}" => sqlite: /var/lib/books.db`,
		`downstream: pay => token: { into: token }`,
		`downstream: pay => title: "charge US$5, $$20 and $1"`,
		`downstream: pay => redact: [password]`,
	} {
		p, err := Parse("policy.yaml", []byte(leaky(place)))
		if err != nil {
			if strings.HasPrefix(place, "downstream: pay") && strings.Contains(err.Error(), "needs a downstream") {
				continue
			}
			t.Fatalf("%s: %v", place, err)
		}
		for _, w := range p.Warnings() {
			need.That(t, !strings.Contains(w.Message, "secret") && !strings.Contains(w.Message, "shell"), "%s: %v", place, w)
		}
	}
}

// TestI11_SecretsOfAnAddressAreWithheld: of what comes from the environment as a
// whole, the password is a secret of its own: errors repeat it alone.
func TestI11_SecretsOfAnAddressAreWithheld(t *testing.T) {
	t.Setenv("PAY_BASE", "https://app:correct-horse@pay.example")
	t.Setenv("BOOKS_DSN", "host=db user=app password=battery-staple")
	text := leaky(`base: "https://pay.example" => base: "${env.PAY_BASE}"`) +
		"  book:\n    read: { sql: { database: books, query: \"SELECT id FROM t WHERE t = $1\", args: [\"${key}\"] }, list: rows }\n"
	p := must(t, text)
	for kind, hidden := range map[string]string{"k": "correct-horse", "book": "battery-staple"} {
		req := need.Get(p.Kind(kind).Read.Request(operation(kind, `{}`), nil))(t)
		need.Equal(t, req.Withhold("no route for "+hidden+" at pay.example"), "no route for "+redact.Mark+" at pay.example")
	}
	// One secret that begins with another is taken out whole.
	need.Equal(t, (transport.Request{Secrets: []string{"correct", "correct-horse"}}).Withhold("a correct-horse"), "a "+redact.Mark)
}
