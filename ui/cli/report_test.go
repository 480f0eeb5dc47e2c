package cli

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
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
	need.OK(t, json.Unmarshal(b.json(0, "log", "--incident", in[:6]).Data, &data))
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
	if out := b.want(0, "log", "--verb", "incident_noted"); !strings.Contains(out, "maya: their page says 03:01 · ") {
		t.Errorf("the incident of an event has no title: %s", out)
	}
	page := string(need.Get(os.ReadFile("../../ledger/README.md"))(t))
	for _, verb := range strings.Split(b.completes("log", "--verb", ""), "\n") {
		if verb != "" && verb[0] != ':' && !strings.Contains(page, "`"+verb+"`") && !strings.HasPrefix(verb, "Completion ended") {
			t.Errorf("ledger/README.md does not name the verb %q", verb)
		}
	}
	if got := b.completes("log", "--verb", ""); !strings.Contains(got, "\n"+ledger.IncidentJoined+"\n") {
		t.Errorf("it offers %q", got)
	}
}

// The report of a night and that of one incident: their account, who decided on what
// evidence, and which decision was found wrong.
func TestReport(t *testing.T) {
	b, in := outage(t)
	b.now = b.now.Add(11 * time.Minute)
	for n := 1; n <= 3; n++ {
		b.want(0, "deny", b.at(n), "--reason", "not in the | dashboard")
		b.price(n)
	}
	b.read(2, ledger.Read{Verdict: ledger.Landed, Reason: "found", Found: 1, Receipts: []string{"pi_2"}})
	b.read(4, ledger.Read{Verdict: ledger.Landed, Reason: "found", Found: 1, Receipts: []string{"pi_4"}})
	b.want(0, "confirm", b.at(9), "--receipt", "ch_9", "--reason", "seen in the bank")
	b.want(0, "incident", "note", in, "--reason", "their page says 03:01")
	for name, args := range map[string][]string{"report_since.md": {"report", "--since", "1h"}, "report_incident.md": {"report", in[:6]}} {
		golden(t, name, []byte(b.want(0, args...)))
	}
	b.now = b.now.Add(time.Minute)
	if out := b.want(0, "report", "--since", "1s"); strings.Contains(out, "cus_1QX") || !strings.Contains(out, "## Still open") {
		t.Error(out)
	}
	var data struct {
		Incidents []incidentJSON
		Acts      []actJSON
		Wrong     []wrongJSON
		Open      struct {
			Unsent float64
		}
	}
	if err := json.Unmarshal(b.json(0, "report", in).Data, &data); err != nil || len(data.Incidents) != 1 || len(data.Acts) != 6 || len(data.Wrong) != 1 || *data.Wrong[0].By != "maya" || data.Open.Unsent == 0 {
		t.Errorf("%v %+v", err, data)
	}
	b.json(2, "report", in, "--since", "1h")
	b.json(3, "report", "ffffff")
	b.json(2, "report", "--since", "yesterday")
}
