package policy

import (
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// A downstream says when its errors are an outage.
func TestBursts(t *testing.T) {
	p := need.Get(Parse("policy.yaml", []byte(`
version: 1
downstreams:
  stripe: { outage: { errors: 3, within: 1m } }
kinds:
  theirs: { downstream: stripe }
  "mail.*": { }
`)))(t)
	for kind, want := range map[string]ledger.Burst{
		"theirs":    {Scope: "downstream:stripe", Errors: 3, Within: time.Minute, Gap: 10 * time.Minute},
		"mail.send": {Scope: "kind:mail.send", Errors: 5, Within: 5 * time.Minute, Gap: 10 * time.Minute},
		"other":     {Scope: "kind:other", Errors: 5, Within: 5 * time.Minute, Gap: 10 * time.Minute},
	} {
		need.Equal(t, p.Kind(kind).Burst(), want, kind)
	}
	for _, wrong := range []string{"errors: 0", "errors: 101", "gap: 0s", "within: 10ms", "more: 1"} {
		_, err := Parse("policy.yaml", []byte("version: 1\ndownstreams: { d: { outage: { "+wrong+" } } }\n"))
		need.That(t, err != nil && strings.Contains(err.Error(), "policy.yaml:2"), "%s: %v", wrong, err)
	}
}
