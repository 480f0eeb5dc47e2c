package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// One outage on the command line: its account, what people do with it, and again
// under the same key.
func TestOutage(t *testing.T) {
	b := newBench(t)
	for n := 1; n <= 6; n++ {
		b.doubt(n, "stripe.charge", strings.Replace(charge, "INV-1042", "INV-"+id(n)[24:], 1))
	}
	b.now = b.now.Add(10 * time.Second)
	outages := func() (all []outageJSON) {
		t.Helper()
		var data struct{ Outages []outageJSON }
		need.OK(t, json.Unmarshal(b.json(0, "outage", "list").Data, &data))
		return data.Outages
	}
	all := outages()
	if len(all) != 1 || all[0].Errors != 6 || all[0].Fates[ledger.FateChecking].N != 6 || all[0].Phase != ledger.PhaseGrowing || all[0].Scope != "kind:stripe.charge" {
		t.Fatalf("%+v", all)
	}
	in := all[0].ID[:6]
	take := []string{"outage", "take", in, "--until", "1h", "--idempotency-key", "T"}
	for _, c := range []struct {
		exit   int
		effect string
		args   []string
	}{
		{0, "would_update", append(slices.Clone(take), "--dry-run")},
		{0, "updated", take},
		{0, "noop", take},
		{8, "", append(slices.Clone(take), "--reason", "x")},
		{3, "", []string{"outage", "show", "ffffff"}},
		{5, "", []string{"--read-only", "outage", "take", in}},
		{2, "", []string{"outage", "tkae", in}},
	} {
		need.Equal(t, b.json(c.exit, c.args...).Effect, c.effect, c.args, "effect")
	}
	b.now = b.now.Add(11 * time.Minute)
	if got := outages()[0]; got.Errors != 6 || *got.TakenBy != "maya" || got.Phase != ledger.PhaseQuiet {
		t.Fatalf("%+v", got)
	}
	b.read(2, ledger.Read{Verdict: ledger.Landed, Reason: "found", Found: 1, Receipts: []string{"pi_2"}})
	golden(t, "outage_show.txt", steady([]byte(b.want(0, "outage", "show", in))))
}
