package policy

import "indoubt/ledger"

// maxBurst bounds how many errors open an incident: they are kept until they do.
const maxBurst = 100

// incident reads what is said of incidents.
func (d kindDecoder) incident(b *ledger.Burst) reader {
	return d.mapping(field{"errors", d.integer(&b.Errors, 1, maxBurst)}, field{"within", d.second(&b.Within)}, field{"gap", d.second(&b.Gap)})
}

// Burst is when errors of this kind are an incident: as the kind says, else its
// downstream, else the defaults.
func (k *Kind) Burst() ledger.Burst {
	b := k.incident
	if ds := k.Downstream; ds != nil {
		b.Scope = "downstream:" + ds.Name
		b = b.Or(ds.incident)
	}
	if k.policy != nil {
		b = b.Or(k.policy.defaults.incident)
	}
	return b.Of(k.Name)
}
