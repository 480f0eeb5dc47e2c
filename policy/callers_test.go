package policy

import (
	"slices"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

func TestCallersAreStated(t *testing.T) {
	p := need.Get(Parse("p", []byte(`version: 1
downstreams:
  shop: { base: "https://api.shop.example:8443/v1", callers: [x-team, X-Org, X-Team], same_account: true }
  none: { base: "https://b.example", callers: [] }
  env: { base: "${env.SHOP}" }
  one: { base: "https://two.example/a" }
  two: { base: "https://two.example/b" }
kinds: { pay: { downstream: shop } }
`)))(t)
	shop := p.Kind("pay").Downstream
	need.That(t, slices.Equal(shop.Callers, []string{"X-Org", "X-Team"}) && shop.SameAccount, "%+v", shop)
	need.That(t, p.Downstream("none").Callers != nil && p.Downstream("env").Callers == nil, "stated or not")
	need.That(t, p.DownstreamAt("API.shop.example") == shop && p.DownstreamAt("two.example") == nil && p.DownstreamAt("") == nil, "by host")
	need.Contains(t, p.Explain("pay"), "callers: [x-team, X-Org, X-Team]")
	for downstream, want := range map[string]string{
		`{ base: "https://a.example", callers: ["X Team"] }`: `"X Team" is not a header name`,
		`{ base: "https://a.example", callers: [Host] }`:     "written by the sender itself",
		`{ base: "https://a.example", caller: [X-Team] }`:    "did you mean `callers`?",
		`{ base: "https://a.example", same_acount: true }`:   "did you mean `same_account`?",
		`{ base: "https://a.example", same_account: yess }`:  "true",
		`{ mcp: { command: [x] }, callers: [X-Team] }`:       "no `base`",
		`{ sql: { sqlite: x }, same_account: true }`:         "no `base`",
		`{ callers: [X-Team] }`:                              "no `base`",
	} {
		_, err := Parse("p", []byte("version: 1\ndownstreams: { d: "+downstream+" }\n"))
		need.That(t, err != nil && strings.Contains(err.Error(), want), "%s: %v", downstream, err)
	}
}
