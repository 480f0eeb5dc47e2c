package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// A person wrote the text into the history of an outage: it is taken out there, too.
func TestARedactionTakesTheTextOutOfTheOutage(t *testing.T) {
	b := newBench(t)
	for n := 1; n <= 6; n++ {
		b.doubt(n, "stripe.charge", strings.Replace(charge, "INV-1042", "INV-jane-"+id(n)[24:], 1))
	}
	b.now = b.now.Add(10 * time.Second)
	var data struct{ Outages []outageJSON }
	need.OK(t, json.Unmarshal(b.json(0, "outage", "list").Data, &data))
	in := data.Outages[0].ID
	text := "inv-jane-" + id(1)[24:]
	b.want(0, "outage", "take", in, "--reason", "the outage of "+text)
	need.Contains(t, b.want(0, "outage", "show", in), text)
	b.want(0, "confirm", b.at(1), "--reason", "their log")
	b.want(0, "redact", b.at(1), "--reason", "request 7", "--yes")
	need.That(t, !strings.Contains(b.want(0, "outage", "show", in), text), "the outage still tells it")
}
