package policy

import (
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// What a kind says goes before its downstream, and that before the defaults.
func TestBursts(t *testing.T) {
	p := need.Get(Parse("policy.yaml", []byte(`
version: 1
defaults: { outage: { errors: 7, gap: 20m } }
downstreams:
  stripe: { outage: { errors: 3, within: 1m } }
kinds:
  own: { downstream: stripe, outage: { errors: 2 } }
  theirs: { downstream: stripe }
  "mail.*": { }
`)))(t)
	for kind, want := range map[string]ledger.Burst{
		"own":       {Scope: "downstream:stripe", Errors: 2, Within: time.Minute, Gap: 20 * time.Minute},
		"theirs":    {Scope: "downstream:stripe", Errors: 3, Within: time.Minute, Gap: 20 * time.Minute},
		"mail.send": {Scope: "kind:mail.send", Errors: 7, Within: 5 * time.Minute, Gap: 20 * time.Minute},
		"other":     {Scope: "kind:other", Errors: 7, Within: 5 * time.Minute, Gap: 20 * time.Minute},
	} {
		need.Equal(t, p.Kind(kind).Burst(), want, kind)
	}
	for _, wrong := range []string{"errors: 0", "errors: 101", "gap: 0s", "within: 10ms", "more: 1"} {
		_, err := Parse("policy.yaml", []byte("version: 1\ndefaults: { outage: { "+wrong+" } }\n"))
		need.That(t, err != nil && strings.Contains(err.Error(), "policy.yaml:2"), "%s: %v", wrong, err)
	}
}
