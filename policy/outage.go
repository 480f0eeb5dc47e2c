package policy

import "indoubt/ledger"

// maxBurst bounds how many errors open an outage: they are kept until they do.
const maxBurst = 100

// outage reads what is said of outages.
func (d kindDecoder) outage(b *ledger.Burst) reader {
	return d.mapping(field{"errors", d.integer(&b.Errors, 1, maxBurst)}, field{"within", d.second(&b.Within)}, field{"gap", d.second(&b.Gap)})
}

// Burst is when errors of this kind are an outage: as its downstream says.
func (k *Kind) Burst() (b ledger.Burst) {
	if ds := k.Downstream; ds != nil {
		b = ds.outage
		b.Scope = "downstream:" + ds.Name
	}
	return b.Of(k.Name)
}
