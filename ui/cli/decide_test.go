package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

func TestDecidingVerbs(t *testing.T) {
	t.Run("I2_abandoned", abandonedKeepsItsProof)
	b := newBench(t)
	for n := 1; n <= 5; n++ {
		b.doubt(n, "stripe.charge", strings.Replace(charge, "INV-1042", "INV-"+id(n)[34:], 1))
	}
	b.want(0, "confirm", b.at(1), "--receipt", "pi_1")
	if o := b.rec(1).Operation; o.State != ledger.Committed || o.Receipt() != "pi_1" || o.Actor != "maya" {
		t.Errorf("confirm: %+v", o)
	}
	b.want(0, "deny", b.at(2), "--reason", "their support says no")
	b.want(0, "abandon", b.at(3), "--reason", "too late")
	b.want(0, "confirm", b.at(4), "--receipt", "pi_4", "--receipt", "pi_5")
	if o := b.rec(4).Operation; o.Conflict != ledger.ConflictTwice || o.Effects != 2 {
		t.Errorf("two receipts: %+v", o)
	}
	b.want(2, "ack", b.at(4), "--reason", "refunded")
	b.want(0, "ack", b.at(4), "--truth", "taken_back", "--reference", "re_1")
	b.want(0, "park", b.at(5), "--until", "2h")
	if until := b.rec(5).Operation.ParkedUntil; !until.Equal(b.now.Add(2 * time.Hour)) {
		t.Errorf("parked until %s", until)
	}
	b.want(0, "note", id(5), "--reason", "ticket 4411")
	b.want(0, "undo", b.at(3), "--reason", "mine")
	for n, want := range map[int]ledger.State{1: ledger.Committed, 2: ledger.Failed, 3: ledger.Uncertain, 4: ledger.Committed, 5: ledger.Uncertain} {
		need.Equal(t, b.rec(n).Operation.State, want, n, "operation")
	}
}

// A run over operations of one outage stands on its page, and no other does.
func TestARunOfOneOutageIsOnItsPage(t *testing.T) {
	b := newBench(t)
	for n := 1; n <= 8; n++ {
		kind := "stripe.charge"
		if n > 6 {
			kind = "other"
		}
		b.doubt(n, kind, strings.Replace(charge, "INV-1042", "INV-"+id(n)[34:], 1))
	}
	in := b.rec(1).Outages[0]
	park := func(want string, of ...string) {
		t.Helper()
		b.now = b.now.Add(time.Second)
		b.want(0, append([]string{"park", "--until", "2h", "--reason", "after lunch"}, of...)...)
		var data struct{ Runs []bulkJSON }
		need.OK(t, json.Unmarshal(b.json(0, "runs", "--all").Data, &data))
		got := ""
		if data.Runs[0].Outage != nil {
			got = *data.Runs[0].Outage
		}
		need.Equal(t, got, want, of)
	}
	park(in, b.at(1), b.at(2))
	park("", b.at(3), b.at(7))
	park("", b.at(7), b.at(8))
	need.Contains(t, b.want(0, "outage", "show", in), "park of 2")
	park(in, b.at(5), b.at(6))
	b.want(0, "park", b.at(1), "--until", "2h", "--reason", "later")
	need.Equal(t, strings.Count(b.want(0, "outage", "show", in), "park of"), 4, "two runs begin and end")
}

func TestI7_SecondDecisionOnOneVersionIsRefusedAndNamesTheFirst(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	seen := b.at(1)
	b.want(0, "confirm", seen, "--as", "sam", "--reason", "found it")
	out := b.want(4, "deny", seen, "--reason", "not there")
	need.That(t, strings.Contains(out, "sam") && strings.Contains(out, "found it"), "it does not say who decided: %s", out)
	a := b.json(4, "deny", seen, "--reason", "not there")
	need.That(t, a.Error.Code == "moved" && strings.Contains(a.Error.Message, "sam") && a.operations(t)[0].State == "committed", "%+v %s", a.Error, a.Data)
	if a := b.json(4, "confirm", b.at(1), "--reason", "r"); a.Error.Code != "moved" {
		t.Errorf("confirming what is committed: %+v", a.Error)
	}
}

func TestWithoutATerminalDecidingNeedsTheVersion(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	before := b.lastEvent()
	for _, verb := range []string{"confirm", "deny", "abandon", "ack", "undo", "retry"} {
		args := []string{verb, id(1), "--reason", "r"}
		if verb == "ack" {
			args = append(args, "--truth", "not_landed")
		}
		if a := b.json(2, args...); !strings.Contains(a.Error.Message, "version") {
			t.Errorf("%s: %+v", verb, a.Error)
		}
	}
	b.json(2, "deny", b.at(1))       // no reason, and nobody to ask
	b.json(2, "confirm", id(1)+"@0") // no such version
	b.json(2, "confirm")
	b.json(2, "confirm", b.at(1), b.at(1))
	need.Equal(t, b.lastEvent(), before, "something was written")
}

func TestAPersonIsAskedForWhatIsMissing(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	b.terminal, b.typed = true, "their support says no\nn\n"
	out := b.want(5, "deny", "019808a1")
	need.That(t, strings.Contains(out, "charge cus_9 420 usd") && strings.Contains(out, "nothing was changed"), "it does not show what is decided: %s", out)
	b.typed = "their support says no\ny\n"
	b.want(0, "deny", "019808a1")
	if o := b.rec(1).Operation; o.State != ledger.Failed || o.Reason != "their support says no" {
		t.Errorf("%+v", o)
	}
	b.typed = "\n"
	b.want(2, "undo", b.at(1))
}

func TestDryRunWritesNothing(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	b.doubt(2, "stripe.charge", strings.Replace(charge, "1042", "1043", 1))
	b.want(0, "confirm", b.at(2), "--receipt", "a", "--receipt", "b")
	before := b.lastEvent()
	for _, args := range [][]string{
		{"confirm", b.at(1), "--reason", "r"}, {"deny", b.at(1), "--reason", "r"}, {"abandon", b.at(1), "--reason", "r"}, {"park", b.at(1), "--until", "1h"},
		{"note", id(1), "--reason", "r"}, {"ack", b.at(2), "--truth", "both_wanted", "--reason", "r"}, {"undo", b.at(2), "--reason", "r"},
		{"hold", "--all", "--reason", "r"}, {"hold", "stripe.charge", "--reason", "r"}, {"hold", "--downstream", "stripe", "--reason", "r"},
	} {
		a := b.json(0, append(args, "--dry-run", "--idempotency-key", "k")...)
		need.That(t, strings.HasPrefix(a.Effect, "would_"), "%v: effect %q", args, a.Effect)
	}
	if a := b.json(0, "confirm", b.at(1), "--dry-run", "--reason", "r"); a.operations(t)[0].State != "committed" {
		t.Errorf("a rehearsal shows what would be: %s", a.Data)
	}
	b.json(4, "confirm", id(1)+"@99", "--dry-run", "--reason", "r")
	b.json(0, "--read-only", "confirm", b.at(1), "--dry-run", "--reason", "r")
	need.That(t, b.lastEvent() == before && b.rec(1).Operation.State == ledger.Uncertain, "a rehearsal has written")
	if run, known, err := b.open().Run(context.Background(), ledger.DecisionRun{ID: ledger.NewID(), IdempotencyKey: "k", Digest: "d", Verb: "v", Actor: pipeline, CreatedAt: b.now}, nil); err != nil || known {
		t.Errorf("a rehearsal has taken the idempotency key: %v %v %v", run, known, err)
	}
	missing := filepath.Join(b.dir, "none.db")
	need.Equal(t, b.json(0, "--ledger", missing, "init", "--dry-run").Effect, "would_create")
	if _, err := os.Stat(missing); err == nil {
		t.Error("init --dry-run made a file")
	}
}

func TestAnIdempotencyKeyMakesACommandRepeatable(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	b.doubt(2, "stripe.charge", strings.Replace(charge, "1042", "1043", 1))
	args := []string{"confirm", b.at(1), b.at(2), "--reason", "seen", "--idempotency-key", "K1"}
	need.Equal(t, b.json(0, args...).Effect, "updated", "first")
	after := b.lastEvent()
	a := b.json(0, args...)
	if ops := a.operations(t); a.Effect != "noop" || len(ops) != 2 || ops[0].Effect != "noop" || ops[0].State != "committed" {
		t.Errorf("again: %s %s", a.Effect, a.Data)
	}
	need.Equal(t, b.lastEvent(), after, "the repeat has written")
	b.want(0, "undo", b.at(1), "--reason", "moved on since")
	if a := b.json(0, args...); a.Effect != "noop" || a.operations(t)[0].State != "uncertain" {
		t.Errorf("after an undo the repeat is still a repeat: %s %s", a.Effect, a.Data)
	}
	if a := b.json(8, "confirm", b.at(1), "--reason", "other", "--idempotency-key", "K1"); a.Error.Code != "key_reused" {
		t.Errorf("%+v", a.Error)
	}
	if a := b.json(8, "deny", b.at(1), "--reason", "seen", "--idempotency-key", "K1"); a.Error.Code != "key_reused" {
		t.Errorf("%+v", a.Error)
	}
}

// A run that was killed between its operations is finished by its repeat,
// with the versions it had seen.
func TestI10_ACommandKilledHalfWayIsFinishedByItsRepeat(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	b.doubt(2, "stripe.charge", strings.Replace(charge, "1042", "1043", 1))
	first, second := b.at(1), b.at(2)
	flags := &decideFlags{reason: "seen", idempotencyKey: "K2"}
	run := ledger.DecisionRun{IdempotencyKey: "K2", Digest: flags.digest("confirm", []string{first, second}), Verb: "confirm",
		Actor: ledger.Actor{Name: "maya"}, CreatedAt: b.now}
	items := []ledger.RunItem{{OperationID: id(1), Version: b.rec(1).Operation.Version}, {OperationID: id(2), Version: b.rec(2).Operation.Version}}
	ctx := context.Background()
	run, _, err := b.open().Run(ctx, run, items)
	need.OK(t, err)
	d := ledger.Decision{ChangeID: run.ChangeID(items[0]), ID: id(1), Version: b.rec(1).Operation.Version, Verb: ledger.VerbConfirm, Reason: "seen", Actor: run.Actor}
	need.Get(ledger.Decide(ctx, b.open(), d))(t)
	a := b.json(0, "confirm", first, second, "--reason", "seen", "--idempotency-key", "K2")
	ops := a.operations(t)
	need.That(t, a.Effect == "updated" && ops[0].Effect == "noop" && ops[1].Effect == "updated" && ops[1].State == "committed", "%s %s", a.Effect, a.Data)
	if v := b.rec(1).Operation.Version; ops[0].Version != v || v != d.Version+1 {
		t.Errorf("the first was decided twice: version %d after %d", v, d.Version)
	}
}

// An operation of a run that is not there any more is left out by the repeat, and nothing
// is done to another one in its place.
func TestARepeatLeavesOutWhatIsNotFound(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	flags := &decideFlags{reason: "seen", idempotencyKey: "K3"}
	run := ledger.DecisionRun{IdempotencyKey: "K3", Digest: flags.digest("note", []string{id(1), id(2)}), Verb: "note", Actor: ledger.Actor{Name: "maya"}, CreatedAt: b.now}
	run, _, err := b.open().Run(context.Background(), run, []ledger.RunItem{{OperationID: id(1)}, {OperationID: id(2)}})
	need.OK(t, err)
	b.json(3, "note", id(1), id(2), "--reason", "seen", "--idempotency-key", "K3")
	need.Equal(t, strings.Count(b.want(0, "log", id(1)), "seen"), 1, "notes")
	need.Contains(t, b.want(0, "runs", run.ID), "1 noted + 1 left out")
}

// A run that a person ended is over, whoever asks; one whose driver died
// goes on.
func TestARunThatAPersonEndedIsNotResumed(t *testing.T) {
	t.Run("a redaction is", resumedRedaction)
	for _, halt := range []string{"", "stop"} {
		b := newBench(t)
		run := ledger.DecisionRun{ID: ledger.NewID(), Verb: "note", Actor: ledger.Actor{Name: "maya"}, Terms: ledger.RunTerms{Reason: "seen"}, CreatedAt: b.now}
		var items []ledger.RunItem
		for n := range 2 {
			b.doubt(n+1, "stripe.charge", strings.Replace(charge, "1042", "104"+strconv.Itoa(n), 1))
			items = append(items, ledger.RunItem{N: n, OperationID: id(n + 1), Version: b.rec(n + 1).Operation.Version, Kind: "stripe.charge"})
		}
		_, _, err := b.open().Run(t.Context(), run, items)
		need.OK(t, err)
		if halt != "stop" {
			need.Contains(t, b.want(0, "runs", "resume", run.ID), "2 = 2 noted")
			continue
		}
		for _, want := range []string{"updated", "noop"} { // one that is over is ended once
			need.Equal(t, b.json(0, "runs", "stop", run.ID, "--reason", "their support says stop").Effect, want)
		}
		a := b.json(5, "runs", "resume", run.ID, "--as", "sam")
		need.Must(t, a.Error.Code == "over" && strings.Contains(a.Error.Message, "stopped by maya: their support says stop"), "%+v", a.Error)
		need.Contains(t, a.Error.Hint, "2 stay as they are", "decide anew: indoubt note")
		need.Equal(t, strings.Count(b.want(0, "log", id(1))+b.want(0, "log", id(2)), "seen"), 0, "notes")
	}
}

// Who goes on with the run of a redaction redacts what was decided: the key, too.
func resumedRedaction(t *testing.T) {
	b := newBench(t)
	for n := 1; n <= 2; n++ {
		b.doubt(n, "stripe.charge", strings.Replace(charge, "1042", "104"+strconv.Itoa(n), 1))
		b.want(0, "deny", b.at(n), "--reason", "r")
	}
	b.want(0, "redact", b.at(1), "--key", "--reason", "request 7", "--yes", "--idempotency-key", "R")
	run, _, err := b.open().Account(t.Context(), ledger.RunID("R"))
	need.OK(t, err)
	o := b.rec(2).Operation
	run, _, err = b.open().Run(t.Context(), ledger.DecisionRun{Verb: run.Verb, Actor: run.Actor, Terms: run.Terms},
		[]ledger.RunItem{{OperationID: o.ID, Version: o.Version, Kind: o.Kind}})
	need.OK(t, err)
	b.want(0, "runs", "resume", run.ID, "--as", "sam")
	need.Equal(t, b.rec(2).Operation.Key, ledger.Mask(need.Get(b.open().DigestKey(t.Context()))(t)).Text(o.Key))
}

func TestTheWorstExitCodeWins(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	b.doubt(2, "stripe.charge", strings.Replace(charge, "1042", "1043", 1))
	stale := b.at(2)
	b.want(0, "deny", stale, "--reason", "r")
	a := b.json(4, "confirm", b.at(1), id(9)+"@1", stale, "--reason", "r")
	ops := a.operations(t)
	need.That(t, len(ops) == 3 && a.Effect == "updated" && ops[0].OK && ops[1].Error.Code == "not_found" && ops[2].Error.Code == "moved", "%s", a.Data)
	out := b.want(4, "confirm", stale, id(9)+"@1", "--reason", "r")
	need.Contains(t, out, "2 of 2 were not done")
}

func TestHoldsAndTheirRelease(t *testing.T) {
	t.Run("begins", beginsAreHeld)
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	args := []string{"hold", "--downstream", "stripe", "--reason", "outage", "--until", "2h", "--idempotency-key", "H"}
	if a := b.json(0, args...); a.Effect != "created" || !strings.Contains(string(a.Data), "stripe.charge") {
		t.Errorf("%s %s", a.Effect, a.Data)
	}
	need.Equal(t, b.json(0, args...).Effect, "noop", "again")
	need.Equal(t, b.json(0, "hold", "--downstream", "stripe", "--reason", "longer").Effect, "updated", "replaced")
	need.Contains(t, b.want(0, "show", id(1)), "maya holds stripe since ", ": longer")
	need.Equal(t, b.json(0, "release", "--downstream", "stripe", "--reason", "over").Effect, "updated")
	need.Equal(t, b.json(0, "release", "--downstream", "stripe", "--reason", "over").Effect, "noop")
	b.want(0, "hold", "--all", "--reason", "wrong amounts")
	exit, _, stderr := b.run("release", "stripe.charge", "--reason", "over")
	need.That(t, exit == 3 && strings.Contains(stderr, "kind:stripe.charge is not held") && strings.Contains(stderr, "held is all, by maya: wrong amounts") && strings.Contains(stderr, "indoubt release --all"), "exit %d: %s", exit, stderr)
	b.want(0, "hold", "stripe.charge", "--reason", "refunds")
	need.Contains(t, b.want(0, "release", "stripe.charge", "--reason", "over"), "released kind:stripe.charge", "held is all")
	b.want(0, "release", "--all", "--reason", "over")
	b.json(2, "hold", "--reason", "r")
	b.json(2, "hold", "stripe.charge", "--all", "--reason", "r")
	b.json(2, "hold", "--all")
	b.json(2, "hold", "--downstream", "nobody", "--reason", "r")
	b.json(2, "hold", "--all", "--reason", "r", "--until", "yesterday")
}

// beginsAreHeld: every recorder says that nothing was sent, and to come again; begins stay held under the next hold.
func beginsAreHeld(t *testing.T) {
	b := newBench(t)
	var flying begunJSON
	need.OK(t, json.Unmarshal(b.json(0, "begin", "--kind", "post", "--key", "first").Data, &flying))
	ctx, cancel := context.WithCancel(t.Context())
	s := b.open()
	go func() {
		defer cancel()
		for holds, err := s.Holds(t.Context(), b.clock()); err == nil && len(holds) == 0; holds, err = s.Holds(t.Context(), b.clock()) {
			time.Sleep(time.Millisecond)
		}
	}()
	exit, _, stderr := b.runUntil(ctx, "hold", "--all", "--begins", "--reason", "restore")
	need.That(t, exit == 7 && strings.Contains(stderr, "all is held, and 1 are still in flight"), "exit %d: %s", exit, stderr)
	b.want(0, "settle", *flying.Handle, "--outcome", "committed")
	a := b.json(0, "hold", "--all", "--reason", "longer")
	need.That(t, a.Effect == "updated" && strings.Contains(string(a.Data), `"begins":true`) && strings.Contains(string(a.Data), `"newest":{`), "%s", a.Data)
	const said = "begins are held by maya (longer); nothing was sent, come again"
	need.Contains(t, b.want(7, "begin", "--kind", "post", "--key", "k"), said)
	need.Equal(t, b.json(7, "begin", "--kind", "post", "--key", "k").Error.Code, "held")
	need.Contains(t, b.want(0, "doctor"), "maya holds all, begins too: longer")
	need.Contains(t, b.want(0, "release", "--all", "--reason", "over"), "released all")
	b.want(0, "begin", "--kind", "post", "--key", "k")
}

func TestReadOnlyRefusesEveryChange(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	before := b.lastEvent()
	for _, args := range [][]string{
		{"confirm", b.at(1), "--reason", "r"}, {"deny", b.at(1), "--reason", "r"}, {"abandon", b.at(1), "--reason", "r"}, {"ack", b.at(1), "--truth", "not_landed", "--reason", "r"},
		{"park", b.at(1), "--until", "1h"}, {"undo", b.at(1), "--reason", "r"}, {"note", id(1), "--reason", "r"}, {"retry", b.at(1)},
		{"hold", "--all", "--reason", "r"}, {"release", "--all", "--reason", "r"}, {"check"}, {"check", id(1)}, {"engine"},
		{"init"}, {"adopt"}, {"policy", "init", filepath.Join(b.dir, "new.yaml")},
	} {
		if a := b.json(5, append([]string{"--read-only"}, args...)...); a.Error.Code != "read_only" {
			t.Errorf("%v: %+v", args, a.Error)
		}
	}
	for _, args := range [][]string{{"list"}, {"show", id(1)}, {"log"}, {"policy", "check"}, {"doctor"}} {
		b.json(0, append([]string{"--read-only"}, args...)...)
	}
	need.Equal(t, b.lastEvent(), before, "read-only has written")
}

func TestUntil(t *testing.T) {
	now := time.Date(2026, 7, 14, 3, 6, 0, 0, time.Local)
	for in, want := range map[string]time.Time{
		"2h": now.Add(2 * time.Hour), "1d": now.Add(24 * time.Hour),
		"06:00": time.Date(2026, 7, 14, 6, 0, 0, 0, time.Local), "03:00": time.Date(2026, 7, 15, 3, 0, 0, 0, time.Local),
		"2026-07-15T00:00:00Z": time.Date(2026, 7, 15, 0, 0, 0, 0, time.UTC),
		"2026-07-15 07:00":     time.Date(2026, 7, 15, 7, 0, 0, 0, time.Local),
	} {
		if got, err := until(in, now); err != nil || !got.Equal(want) {
			t.Errorf("until(%q) = %s, %v; want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"-1h", "2020-01-01T00:00:00Z", "soon", "25:00", ""} {
		if got, err := until(in, now); err == nil {
			t.Errorf("until(%q) = %s", in, got)
		}
	}
}
