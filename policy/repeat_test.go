package policy

import "testing"

// What holds an identical call back where the policy does not say follows from what
// a repeat may cost.
func TestWhichDoubtsHoldBack(t *testing.T) {
	p, err := Parse("p.yaml", []byte(`version: 1
defaults: { cost: { duplicate: severe, miss: low } }
kinds:
  plain: { cost: { miss: low } }
  token: { token: { into: memo } }
  safe: { idempotent: true, target: a, token: { into: memo }, cost: { duplicate: high } }
  dear: { cost: { duplicate: low } }
  counted: { cost: { duplicate: input.amount } }
  free: { cost: { duplicate: none } }
  said: { token: { into: memo }, repeat_in_doubt: lost }
  strict: { repeat_in_doubt: doubt }
  exempt: { repeat_in_doubt: none }
`))
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{"unknown": "lost", "plain": "lost", "token": "doubt", "safe": "none", "dear": "doubt", "counted": "doubt",
		"free": "lost", "said": "lost", "strict": "doubt", "exempt": "none"} {
		if got := p.Kind(kind).HoldBack(); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
	if got := Default().Kind("any").HoldBack(); got != "lost" {
		t.Errorf("without a policy: %s", got)
	}
}
