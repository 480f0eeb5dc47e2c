package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// outage is a ledger with an incident of six, an operation that is not in it, and what
// people and checks made of them.
func outage(t *testing.T) (b *bench, incident string) {
	b = newBench(t)
	b.doubt(9, "legacy.charge", `{"customer":"cus_1QX","amount":1200000}`)
	for n := 1; n <= 6; n++ {
		b.doubt(n, "stripe.charge", strings.Replace(charge, "INV-1042", "INV-"+id(n)[9:13], 1))
	}
	all, err := b.open().Incidents(t.Context(), b.now, 9)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return b, all[0].ID
}

// The history of an incident is its own and that of what counts in it, from the begin
// of the first on.
func TestLogOfAnIncident(t *testing.T) {
	b, in := outage(t)
	b.now = b.now.Add(20 * time.Minute)
	b.want(0, "incident", "note", in, "--reason", "their page says 03:01")
	b.want(0, "note", id(2), "--reason", "asked them")
	b.want(0, "note", id(9), "--reason", "another matter")
	var data struct{ Events []eventJSON }
	if err := json.Unmarshal(b.json(0, "log", "--incident", in[:6]).Data, &data); err != nil {
		t.Fatal(err)
	}
	verbs := map[string]int{}
	for _, e := range data.Events {
		if e.Operation != nil && *e.Operation == id(9) {
			t.Errorf("%+v is of no incident", e)
		}
		verbs[e.Verb]++
	}
	if verbs["begin"] != 6 || verbs["settle"] != 6 || verbs["incident_opened"] != 1 || verbs["incident_noted"] != 1 || verbs["note"] != 1 {
		t.Errorf("%v", verbs)
	}
	if out := b.want(0, "log", "--incident", in, "--verb", "note", "--by", "maya", "--after", "0"); strings.Count(out, "\n") != 1 || !strings.Contains(out, "asked them · charge cus_9") {
		t.Error(out)
	}
	b.json(3, "log", "--incident", "ffffff")
	if got := b.completes("log", "--incident", ""); !strings.Contains(got, in) {
		t.Errorf("it offers %q", got)
	}
}
