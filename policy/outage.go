package policy

import "indoubt/ledger"

// maxBurst bounds how many errors open an outage: they are kept until they do.
const maxBurst = 100

// outage reads what is said of outages.
func (d kindDecoder) outage(b *ledger.Burst) reader {
	return d.mapping(field{"errors", d.integer(&b.Errors, 1, maxBurst)}, field{"within", d.second(&b.Within)}, field{"gap", d.second(&b.Gap)})
}

// Burst is when errors of this kind are an outage: as the kind says, else its
// downstream, else the defaults.
func (k *Kind) Burst() ledger.Burst {
	b := k.outage
	if ds := k.Downstream; ds != nil {
		b.Scope = "downstream:" + ds.Name
		b = b.Or(ds.outage)
	}
	if k.policy != nil {
		b = b.Or(k.policy.defaults.outage)
	}
	return b.Of(k.Name)
}
