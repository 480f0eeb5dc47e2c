package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// proven records the n-th operation as in doubt, and a check as having proven that it did
// not land.
func (b *bench) proven(n int) {
	b.Helper()
	b.doubt(n, "stripe.charge", strings.Replace(charge, "INV-1042", "INV-"+id(n)[34:], 1))
	b.now = b.now.Add(time.Minute)
	o := b.rec(n).Operation
	need.Get(ledger.Observe(context.Background(), b.open(), ledger.Observation{ChangeID: ledger.NewID(), Version: o.Version, Settles: true, Actor: ledger.Actor{Name: ledger.ActorChecks, Machine: true},
		Read: ledger.Read{ID: ledger.NewID(), OperationID: o.ID, BeganAt: b.now, EndedAt: b.now, Verdict: ledger.NotThere, Reason: "searched 2 days, not there"}}))(b)
	b.price(n)
}

// stands is what scripts and people are told of the n-th operation, but for who changed it
// last, when and in which version.
func (b *bench) stands(n int) string {
	b.Helper()
	var shown map[string]any
	need.OK(b, json.Unmarshal(b.json(0, "show", id(n)).Data, &shown))
	for _, moves := range []string{"version", "actor", "updated_at", "events"} {
		delete(shown, moves)
	}
	text := b.want(0, "show", id(n))
	_, known, _ := strings.Cut(text, "KNOWN")
	known, _, _ = strings.Cut(known, "\n")
	return string(need.Get(json.MarshalIndent(shown, "", " "))(b)) + known
}

// abandonedKeepsItsProof: what is abandoned is told with what is known of it, and undo restores
// it: one by one, and as the run of several.
func abandonedKeepsItsProof(t *testing.T) {
	b := newBench(t)
	b.proven(1)
	b.proven(2)
	b.doubt(3, "stripe.charge", charge)
	b.now = b.now.Add(time.Minute)
	b.want(0, "deny", b.at(3), "--reason", "their support says no")
	b.doubt(4, "stripe.charge", strings.Replace(charge, "INV-1042", "INV-4", 1))
	was := map[int]string{}
	for n := 1; n <= 4; n++ {
		was[n] = b.stands(n)
	}
	need.Contains(t, was[1], `"state": "failed"`, `"lane": "not_landed"`, `"fact": null`, `"proof": "not_there"`)
	b.now = b.now.Add(time.Minute)
	b.want(0, "abandon", b.at(1), "--reason", "paid by the later charge")
	b.want(0, "abandon", b.at(2), b.at(3), b.at(4), "--reason", "paid by the later charge")
	for n, says := range map[int][]string{
		1: {`"fact": "failed"`, `"proof": "not_there"`, "it did not land (not there, "}, 2: {`"fact": "failed"`, "it did not land (not there, "},
		3: {`"fact": "failed"`, "it is said not to have landed, without proof ("}, 4: {`"fact": "uncertain"`, "whether it landed is not known. "},
	} {
		need.Contains(t, b.stands(n), append(says, `"state": "abandoned"`, `"lane": "resolved"`, "It will not be sent: abandoned by maya: paid by the later charge. U restores")...)
	}
	need.Equal(t, strings.Count(b.want(0, "list", "--all", "state:abandoned", "-o", "jsonl"), "\n"), 4)
	b.want(0, "undo", b.at(1), "--reason", "oops")
	b.want(0, "undo", b.at(2), b.at(3), b.at(4), "--reason", "oops")
	for n := 1; n <= 4; n++ {
		need.Equal(t, b.stands(n), was[n], n)
	}
	need.Contains(t, b.want(0, "show", id(1)), "undone, did not land again", "abandoned")
	need.Equal(t, b.want(0, "list", "--all", "state:abandoned", "-o", "jsonl"), "")
}
