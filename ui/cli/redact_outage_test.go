package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// A person gave the text to the name of an outage, where a redaction does not look for it to
// take it out: the answer says so.
func TestARedactionNamesTheOutagesThatKeepTheText(t *testing.T) {
	b := newBench(t)
	for n := 1; n <= 6; n++ {
		b.doubt(n, "stripe.charge", strings.Replace(charge, "INV-1042", "INV-jane-"+id(n)[24:], 1))
	}
	b.now = b.now.Add(10 * time.Second)
	var data struct{ Incidents []incidentJSON }
	need.OK(t, json.Unmarshal(b.json(0, "incident", "list").Data, &data))
	in := data.Incidents[0].ID
	b.want(0, "incident", "name", in, "the outage of inv-jane-"+id(1)[24:])
	for n, named := range map[int]bool{1: true, 2: false} {
		b.want(0, "confirm", b.at(n), "--reason", "their log")
		exit, _, said := b.run("redact", b.at(n), "--reason", "request 7", "--yes")
		need.That(t, exit == 0 && named == strings.Contains(said, "name or the notes of "+in), "operation %d: exit %d: %s", n, exit, said)
	}
}
