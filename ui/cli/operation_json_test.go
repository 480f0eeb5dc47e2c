package cli

import (
	"context"
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ui/cli/base"
)

// scene is a ledger with one operation in each situation worth a look.
func scene(t *testing.T) *bench {
	b := newBench(t)
	b.now = time.Date(2026, 7, 14, 2, 13, 0, 0, time.UTC)
	b.doubt(1, "stripe.charge", charge)
	b.doubt(2, "legacy.charge", `{"customer":"cus_1QX","amount":1200000}`)
	b.doubt(3, "stripe.charge", `{"customer":"cus_4Tz","amount":290000,"currency":"usd","invoice":"INV-2207"}`)
	b.want(0, "deny", b.at(3), "--reason", "not in the dashboard")
	b.begin(4, "stripe.charge", `{"customer":"cus_9f2","amount":50,"currency":"usd","invoice":"INV-2208"}`)
	b.settle(4, ledger.SettleRequest{Outcome: ledger.OutcomeCommitted, Status: 200, Receipt: "pi_4", Result: json.RawMessage(`{"id":"pi_4"}`)})
	b.doubt(5, "bank.payout", `{"to":"acct_7Kd","amount":420}`)
	b.want(0, "confirm", b.at(5), "--receipt", "po_81", "--receipt", "po_97")
	b.begin(6, "stripe.charge", `{"customer":"cus_6","amount":100,"currency":"usd","invoice":"INV-2209"}`)
	b.read(1, ledger.Read{Verdict: ledger.CannotTell, Reason: "none found yet; it may still take effect"})
	b.now = b.now.Add(10 * time.Second)
	return b
}

// read records a check of the n-th operation.
func (b *bench) read(n int, r ledger.Read) {
	b.Helper()
	r.ID, r.OperationID = ledger.NewID(), id(n)
	r.BeganAt, r.EndedAt, r.Actor = b.now.Add(-time.Second), b.now, "indoubt"
	o := ledger.Observation{ChangeID: ledger.NewID(), Read: r, Version: b.rec(n).Operation.Version, Settles: true, Actor: ledger.Actor{Name: "indoubt", Machine: true}}
	ctx := context.Background()
	need.Get(ledger.Observe(ctx, b.open(), o))(b)
	b.price(n)
	b.fold(n)
}

// What differs from run to run: ids made inside, and the machine's names. The
// words of a reason are not the command line's.
var unsteady = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`"(id|seq|grant_id|attempt)": ?"(?:[0-9a-f]{8}-[0-9a-f]{4}-5|(?:[1-9a-f][0-9a-f]{7}|0199[0-9a-f]{4}|019[a-f][0-9a-f]{4}|01[a-f][0-9a-f]{5})-[0-9a-f]{4}-7)[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"`), `"$1": "ID"`},
	{regexp.MustCompile(`"reason": "[^"]+"`), `"reason": "…"`},
	{regexp.MustCompile(`("os_user|"host)": ?"[^"]*"`), `$1": "X"`},
}

func steady(data []byte) []byte {
	for _, u := range unsteady {
		data = u.pattern.ReplaceAll(data, []byte(u.with))
	}
	return data
}

func TestOperationJSON(t *testing.T) {
	b := scene(t)
	for n, name := range map[int]string{1: "in_doubt", 2: "no_check", 3: "not_landed", 4: "committed", 5: "duplicate", 6: "pending"} {
		t.Run(name, func(t *testing.T) {
			a := b.json(0, "show", id(n))
			var whole map[string]json.RawMessage
			need.OK(t, json.Unmarshal(a.Data, &whole))
			for _, history := range []string{"attempts", "reads", "events"} {
				var list []any
				if err := json.Unmarshal(whole[history], &list); err != nil || list == nil {
					t.Errorf("%s is %s", history, whole[history])
				}
			}
			for _, field := range contractFields {
				if _, ok := whole[field]; !ok {
					t.Errorf("the field %s is missing", field)
				}
			}
			golden(t, "show_"+name+".json", steady(indented(t, a.Data)))
		})
	}
}

// contractFields are the fields of an operation as JSON shows it.
var contractFields = []string{"id", "kind", "title", "target", "state", "fact", "lane", "version", "key", "token", "input", "source", "session",
	"actor", "receipt", "result", "effects", "error_class", "conflict", "parked_until", "created_at", "updated_at", "deadline_at", "cost", "odds", "advice",
	"safe_until", "proof_at", "link"}

func TestListJSON(t *testing.T) {
	b := scene(t)
	type page struct {
		Operations []map[string]json.RawMessage
		More       bool
	}
	list := func(args ...string) page {
		t.Helper()
		var p page
		need.OK(t, json.Unmarshal(b.json(0, append([]string{"list"}, args...)...).Data, &p))
		return p
	}
	all := list()
	need.Must(t, len(all.Operations) == 6 && !all.More, "%d operations, more %v", len(all.Operations), all.More)
	for _, o := range all.Operations {
		need.That(t, len(o) == len(contractFields), "an operation has %d fields, the contract %d", len(o), len(contractFields))
	}
	need.Equal(t, len(list("state:committed").Operations), 2, "state:committed gives")
	need.Equal(t, len(list("lane:resolved").Operations), 1, "lane:resolved gives")
	need.Equal(t, len(list("kind:stripe.* -state:pending", "cus_4Tz").Operations), 1, "several terms give")
	// What is open stays however old it is; only what is settled is left out.
	need.Equal(t, len(list("since:1s").Operations), 5, "since:1s gives")
	if p := list(" -since:1s"); len(p.Operations) != 1 || string(p.Operations[0]["lane"]) != `"resolved"` {
		t.Errorf("-since:1s gives %+v", p.Operations)
	}
}

func TestJSONEscapesWhatATerminalWouldActOn(t *testing.T) {
	b, err := base.Encode(map[string]string{"a": "x\u009b31m\u202ey\U000e0001<&>é"})
	need.That(t, err == nil && string(b) == `{"a":"x\u009b31m\u202ey\udb40\udc01<&>é"}`, "%s, %v", b, err)
	var back map[string]string
	if err := json.Unmarshal(b, &back); err != nil || back["a"] != "x\u009b31m\u202ey\U000e0001<&>é" {
		t.Errorf("it does not read back: %q %v", back["a"], err)
	}
}
