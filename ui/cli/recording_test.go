//go:build unix

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ui/cli/base"
)

// begunRead is what the tests look at of begin, settle and run.
type begunRead struct {
	ID, Key, Token, State, Title, Answer string
	Attempt, Handle                      *string
	Exit                                 *int
	ExitCode                             int    `json:"exit_code"`
	Class                                string `json:"error_class"`
	TokenSent                            bool   `json:"token_sent"`
	Ran, Recorded                        bool
	Version                              int64
}

func (a answer) begun(t testing.TB) begunRead {
	t.Helper()
	var d begunRead
	if err := json.Unmarshal(a.Data, &d); err != nil {
		t.Fatalf("%v in %s", err, a.Data)
	}
	return d
}

func TestBeginAndSettle(t *testing.T) {
	t.Run("I13_TheSameKeyHasTheSameTokenInALedgerThatLostTheRow", sameTokenWhereTheRowWasLost)
	b := newBench(t)
	a := b.json(0, "begin", "--kind", "stripe.charge", "--key", "k1", "--input", charge, "--source", "billing@7", "--token-sent")
	first := a.begun(t)
	if a.Effect != base.EffectCreated || first.Attempt == nil || first.Key != "k1" || !strings.HasPrefix(first.Token, "indoubt-") || first.Title != "charge cus_9 420 usd" {
		t.Fatalf("%s %+v", a.Effect, first)
	}
	rec := need.Get(b.open().Read(t.Context(), ledger.Locator{ID: first.ID}))(t)
	if o := rec.Operation; o.Source.Pipeline != "billing" || o.Source.Run != "7" || !o.TokenSent || rec.Pricing.Miss.Value != 420 || !rec.Attempts[0].KeyWorks {
		t.Errorf("%+v, priced %+v, %+v", o.Source, rec.Pricing, rec.Attempts[0])
	}
	if a := b.json(7, "begin", "--kind", "stripe.charge", "--key", "k1", "--input", charge); a.Error.Code != "in_progress" || a.begun(t).Attempt != nil {
		t.Errorf("%+v", a.Error)
	}
	if a := b.json(8, "begin", "--kind", "stripe.charge", "--key", "k1", "--input", `{"customer":"cus_9","amount":1,"currency":"usd","invoice":"x"}`); a.Error.Code != "key_reused" {
		t.Errorf("%+v", a.Error)
	}
	b.now = b.now.Add(time.Hour)
	if a := b.json(6, "begin", "--kind", "stripe.charge", "--key", "k1", "--input", charge); a.Error.Code != "in_doubt" || a.begun(t).State != "uncertain" ||
		a.Error.SafeNewKey || a.Error.Operation == "" || a.Error.Reconcile != "indoubt check "+a.Error.Operation {
		t.Errorf("%+v", a.Error)
	}
	need.Contains(t, b.want(6, "begin", "--kind", "stripe.charge", "--key", "k1", "--input", charge), "check before you redo: indoubt check")
	if a := b.json(0, "settle", *first.Handle, "--outcome", "committed", "--receipt", "ch_1", "--result", `{"id":"ch_1"}`); a.Effect != base.EffectUpdated || a.begun(t).State != "committed" {
		t.Errorf("a late answer: %s %s", a.Effect, a.Data)
	}
	a = b.json(9, "begin", "--kind", "stripe.charge", "--key", "k1", "--input", charge)
	need.That(t, a.Effect == base.EffectNoop && a.Error.Code == "finished", "%s %+v", a.Effect, a.Error)
	if exit, out, _ := b.run("begin", "--kind", "stripe.charge", "--key", "k1", "--input", charge); exit != 9 || out != "{\"id\":\"ch_1\"}\n" {
		t.Errorf("exit %d, %q", exit, out)
	}
}

// I13: whoever begins under a key in a ledger that lost what was begun gets the token that went out.
func sameTokenWhereTheRowWasLost(t *testing.T) {
	lost, b := newBench(t), newBench(t)
	begin := func(b *bench, args ...string) begunRead {
		return b.json(0, append([]string{"begin", "--source", "billing"}, args...)...).begun(t)
	}
	webhook := []string{"--kind", "webhook", "--key", "evt_1"}
	was := begin(lost, webhook...)
	need.OK(t, os.WriteFile(b.ledger+".key", need.Get(os.ReadFile(lost.ledger+".key"))(t), 0o600))
	need.Equal(t, begin(b, webhook...).Token, was.Token, "begin")
	shell := []string{"run", "--kind", "job", "--key", "j-1", "--", "sh", "-c", `echo "$0 $INDOUBT_TOKEN"`, "{{token}}"}
	said := lost.want(0, shell...)
	need.That(t, strings.Count(said, "indoubt-") == 2, "%q", said)
	need.Equal(t, b.want(0, shell...), said, "run")
	nameless := []string{"--kind", "job", "--input", `{"a":1}`}
	need.That(t, begin(lost, nameless...).Token != begin(b, nameless...).Token, "no one gave it a name")
}

func TestSettleIsRepeatable(t *testing.T) {
	t.Run("I3_TheHandleIsShownToNoOneElse", handleIsShownToNoOneElse)
	b := newBench(t)
	attempt := b.begin(1, "legacy.charge", charge)
	b.json(2, "settle", attempt)
	b.json(2, "settle", attempt, "--outcome", "maybe")
	b.json(2, "settle", attempt, "--outcome", "failed", "--error", "HTTP 402 card declined")
	b.json(2, "settle", attempt, "--outcome", "failed", "--error-class", "exit")
	b.json(2, "settle", attempt, "--outcome", "failed", "--proof", "not_there")
	if a := b.json(2, "settle", attempt, "--outcome", "failed"); !strings.Contains(a.Error.Hint, "--proof never_sent") {
		t.Errorf("%+v", a.Error)
	}
	b.json(2, "settle", attempt, "--outcome", "failed", "--proof", "hope")
	b.json(2, "settle", attempt, "--outcome", "committed", "--effect", "vanished")
	b.json(3, "settle", ledger.Handle{Operation: ledger.NewID(), N: 1, Change: ledger.NewID()}.String(), "--outcome", "committed")
	b.json(5, "settle", attempt, "--outcome", "committed", "--read-only")
	before := b.lastEvent()
	if a := b.json(0, "settle", attempt, "--outcome", "failed", "--proof", "refused", "--dry-run"); a.Effect != base.EffectWouldUpdate || a.begun(t).State != "failed" || b.lastEvent() != before {
		t.Errorf("%s %s", a.Effect, a.Data)
	}
	args := []string{"settle", attempt, "--outcome", "committed", "--receipt", "r1"}
	need.Equal(t, b.json(0, args...).Effect, base.EffectUpdated)
	before = b.lastEvent()
	if a := b.json(0, args...); a.Effect != base.EffectNoop || b.lastEvent() != before {
		t.Errorf("the same again: %s", a.Effect)
	}
	b.json(0, "settle", attempt, "--outcome", "committed", "--receipt", "r2")
	need.Equal(t, b.rec(1).Operation.Conflict, ledger.ConflictTwice, "two receipts from one attempt")
}

func TestBeginReadsItsInput(t *testing.T) {
	b := newBench(t)
	file := filepath.Join(b.dir, "input.json")
	need.OK(t, os.WriteFile(file, []byte(" {\"a\":1}\n"), 0o600))
	from := b.json(0, "begin", "--kind", "post", "--input", "@"+file).begun(t)
	b.typed = `{"a": 1}`
	need.Equal(t, b.json(7, "begin", "--kind", "post", "--input", "-").begun(t).ID, from.ID, "the same input by another way is another request")
	b.json(2, "begin", "--kind", "post")
	b.json(2, "begin", "--input", "{}")
	b.json(2, "begin", "--kind", "post", "--input", "{")
	b.json(2, "begin", "--kind", "post", "--input", "@/nonexistent")
	b.json(2, "begin", "--kind", "post", "--input", "{}", "--deadline", "soon")
	before := b.lastEvent()
	if a := b.json(0, "begin", "--kind", "post", "--input", "2", "--dry-run"); a.Effect != base.EffectWouldCreate || b.lastEvent() != before || a.begun(t).Handle != nil {
		t.Errorf("%s", a.Effect)
	}
	b.ledger = filepath.Join(b.dir, "none.db")
	need.Equal(t, b.json(0, "begin", "--kind", "post", "--input", "2", "--dry-run").Effect, base.EffectWouldCreate)
	need.That(t, !base.Exists(b.ledger), "a rehearsal made a ledger")
}

// TestBeginDeduplicatesEvents: a webhook's event id is enough.
func TestBeginDeduplicatesEvents(t *testing.T) {
	b := newBench(t)
	event := func(exit int, key string, more ...string) answer {
		t.Helper()
		return b.json(exit, append([]string{"begin", "--kind", "webhook", "--key", key}, more...)...)
	}
	first := event(0, "evt_1").begun(t)
	event(7, "evt_1") // delivered again while the first is at it
	b.json(0, "settle", *first.Handle, "--outcome", "committed")
	for range 2 {
		if a := event(9, "evt_1"); a.Error.Code != "finished" || a.Effect != base.EffectNoop {
			t.Errorf("%s %+v", a.Effect, a.Error)
		}
	}
	event(0, "evt_2")
	b.now = b.now.Add(time.Hour) // its handler has died
	event(6, "evt_2")
	hint := b.want(6, "begin", "--kind", "webhook", "--key", "evt_2", "--input", `{"id":"evt_2"}`)
	need.That(t, !strings.Contains(hint, "indoubt check") && strings.Contains(hint, "look before you redo: indoubt show"), "a kind without a check: %s", hint)
	for _, kind := range []string{"deploy", "notify"} { // its other handlers are of other kinds
		b.json(0, "begin", "--kind", kind, "--key", "evt_2", "--input", `{"id":"evt_2"}`)
	}
	before := b.lastEvent()
	if a := event(0, "evt_4", "--dry-run"); a.Effect != base.EffectWouldCreate || b.lastEvent() != before {
		t.Errorf("%s", a.Effect)
	}
	// Events without an input have nothing in common.
	if rec, err := b.open().Read(t.Context(), ledger.Locator{Kind: "webhook", Key: "evt_2"}); err != nil || len(rec.Related) != 0 {
		t.Errorf("%v, related to %d others", err, len(rec.Related))
	}
}

// TestI11_ABrokenPolicyRecordsNothing: it may name what must not be stored.
func TestI11_ABrokenPolicyRecordsNothing(t *testing.T) {
	b := newBench(t)
	need.OK(t, os.WriteFile(b.policy, []byte("kinds: ["), 0o600))
	b.want(1, "begin", "--kind", "post", "--input", "{}")
	b.want(101, "run", "--kind", "post", "--", "true")
	need.That(t, !base.Exists(b.ledger), "a ledger was made")
}

func TestRunSpeaksForTheCommandAndForItself(t *testing.T) {
	t.Run("what an exit code hides", runSaysWhatAnExitCodeHides)
	b := newBenchAlone(t)
	b.typed = "stdin"
	run := func(want int, args ...string) (stdout, stderr string) {
		t.Helper()
		exit, stdout, stderr := b.run(append([]string{"run", "--kind", "post"}, args...)...)
		need.Equal(t, exit, want, args, stderr, "exit")
		return stdout, stderr
	}
	if out, errOut := run(0, "--key", "a", "--", "sh", "-c", `set -e; cat; echo; echo "$INDOUBT_KEY" >&2`); out != "stdin\n" || errOut != "a\n" {
		t.Errorf("%q %q", out, errOut)
	}
	if out, errOut := run(0, "--key", "a", "--", "sh", "-c", `set -e; cat; echo; echo "$INDOUBT_KEY" >&2`); out != "stdin\n" || !strings.HasPrefix(errOut, "indoubt: nothing was run: it was committed at 20") || strings.Count(errOut, "\n") != 1 {
		t.Errorf("again: %q %q", out, errOut)
	}
	long := []string{"--key", "long", "--", "sh", "-c", "head -c 70000 /dev/zero | tr '\\0' x"}
	if out, _ := run(0, long...); len(out) != 70000 {
		t.Errorf("%d bytes", len(out))
	}
	if out, errOut := run(109, long...); out != "" || !strings.Contains(errOut, "not kept whole") {
		t.Errorf("a part of it again: %d bytes, %q", len(out), errOut)
	}
	if out := b.want(9, "begin", "--kind", "post", "--key", "long"); !strings.Contains(out, "not kept whole") || strings.Contains(out, "xxx") {
		t.Errorf("%.200q", out)
	}
	if _, errOut := run(108, "--key", "a", "--", "true"); !strings.Contains(errOut, "another input") {
		t.Errorf("%q", errOut)
	}
	if _, errOut := run(106, "--key", "b", "--", "sh", "-c", "echo oh dear >&2; exit 3"); !strings.Contains(errOut, "oh dear\nindoubt: in doubt") {
		t.Errorf("%q", errOut)
	}
	run(106, "--key", "b", "--", "sh", "-c", "echo oh dear >&2; exit 3")
	for _, code := range []int{0, 3} { // known, and new
		for _, key := range []string{"b", fmt.Sprint("doubt", code)} {
			args := []string{"--key", key, "--doubt-exit", fmt.Sprint(code), "--", "sh", "-c", "echo oh dear >&2; exit 3"}
			if _, errOut := run(code, args...); !strings.Contains(errOut, "in doubt") {
				t.Errorf("%q", errOut)
			}
			if exit, out, errOut := b.run(append([]string{"--json", "run", "--kind", "post"}, args...)...); exit != code || !strings.Contains(out+errOut, `"code":"in_doubt"`) {
				t.Errorf("exit %d, %q %q", exit, out, errOut)
			}
		}
	}
	run(127, "--key", "c", "--doubt-exit", "0", "--", "no-such-command-anywhere")
	run(108, "--key", "a", "--doubt-exit", "0", "--", "true")
	run(102, "--doubt-exit", "256", "--", "true")
	if _, errOut := run(106, "--key", "secret", "--", "sh", "-c", "exit 3", "--password", "hush-hush-77"); !strings.Contains(errOut, "--expand NAME") {
		t.Errorf("%q", errOut)
	}
	run(127, "--key", "c", "--", "no-such-command-anywhere")
	run(102)
	run(102, "--no-such-flag")
	run(101, "--expand", "NOT_SET_ANYWHERE", "--", "true")
	run(105, "--read-only", "--", "true")
	if _, err := exec.LookPath("curl"); err == nil {
		// It never connected, so it has failed, with its own exit code.
		if _, errOut := run(7, "--key", "d", "--", "curl", "--noproxy", "*", "http://127.0.0.1:1/"); !strings.Contains(errOut, "add --fail-with-body") {
			t.Errorf("no warning: %q", errOut)
		}
	} else {
		t.Log("the warning about curl is not tried: curl is not installed")
	}
	if out := b.want(0, "run", "--kind", "post", "--key", "e", "--dry-run", "--", "touch", b.dir+"/made"); !strings.Contains(out, "would run attempt 1") || base.Exists(b.dir+"/made") {
		t.Errorf("%q", out)
	}
	if exit, out, _ := b.run("--json", "run", "--kind", "post", "--key", "b", "--", "sh", "-c", "echo oh dear >&2; exit 3"); exit != 106 || !strings.Contains(out, `"code":"in_doubt"`) {
		t.Errorf("exit %d, %q", exit, out)
	}
	if exit, out, errOut := b.run("--json", "run", "--kind", "post", "--key", "a", "--", "sh", "-c", `set -e; cat; echo; echo "$INDOUBT_KEY" >&2`); exit != 0 || out != "stdin\n" || !json.Valid([]byte(errOut)) {
		t.Errorf("a replay: exit %d, %q %q", exit, out, errOut)
	}
	if out, errOut := run(0, "--key", "f", "--", "echo", "--json"); out != "--json\n" || errOut != "" {
		t.Errorf("what is behind the dashes is the command's: %q %q", out, errOut)
	}
}

func TestRunGivesItsResultAsJSON(t *testing.T) {
	b := newBenchAlone(t)
	status := func(want int, args ...string) answer {
		t.Helper()
		exit, out, said := b.run(append([]string{"run", "--json", "--kind", "post"}, args...)...)
		need.Equal(t, exit, want, said, "exit")
		if said == "" { // no command ran, so that standard output is free
			said = out
		}
		var a answer
		need.OK(t, json.Unmarshal([]byte(said), &a), args)
		return a
	}
	ok := status(0, "--key", "a", "--", "echo", "{{token}}")
	if d := ok.begun(t); !ok.OK || ok.Effect != base.EffectCreated || d.State != "committed" || d.Exit == nil || *d.Exit != 0 || !d.Ran || !d.Recorded || !d.TokenSent {
		t.Errorf("%s %+v", ok.Effect, d)
	}
	again := status(0, "--key", "a", "--", "echo", "{{token}}")
	if d := again.begun(t); !again.OK || again.Effect != base.EffectNoop || d.Ran || d.Answer != "finished" {
		t.Errorf("%s %+v", again.Effect, d)
	}
	doubt := status(106, "--key", "b", "--", "false")
	if d := doubt.begun(t); doubt.OK || doubt.Error.Code != "in_doubt" || d.Class != "exit" || *d.Exit != 1 || d.ExitCode != 106 {
		t.Errorf("%+v %+v", doubt.Error, d)
	}
	told := status(106, "--key", "b", "--", "false")
	if d := told.begun(t); told.Error.Code != "in_doubt" || d.Ran || d.Class != "exit" {
		t.Errorf("%+v %+v", told.Error, d)
	}
	b.want(0, "hold", "--all", "--begins", "--reason", "restore")
	held := status(107, "--key", "d", "--", "false")
	if d := held.begun(t); held.Error.Code != "held" || d.Ran || d.Answer != "held" {
		t.Errorf("%+v %+v", held.Error, d)
	}
	b.want(0, "release", "--all", "--reason", "over")
	missing := status(127, "--key", "c", "--", "no-such-command-anywhere")
	if d := missing.begun(t); missing.Error.Code != "never_sent" || d.State != "failed" || d.Exit != nil {
		t.Errorf("%+v %+v", missing.Error, d)
	}
	if failed := status(101, "--expand", "NOT_SET_ANYWHERE", "--", "true"); failed.Error == nil {
		t.Errorf("%+v", failed)
	}
}

// runSaysWhatAnExitCodeHides, before a command runs for the first time.
func runSaysWhatAnExitCodeHides(t *testing.T) {
	b := newBenchAlone(t)
	b.program("curl", "exit 0")
	for i, c := range []struct {
		argv []string
		hint string
	}{
		{[]string{"curl", "-d", "a=1", "https://api.example/posts"}, "curl exits 0 at an error, a redirect or a 202, which would count as committed; add --fail-with-body -w '%{stderr}%{http_code}'"},
		{[]string{"sh", "-c", "set -e; curl https://api.example/posts"}, ""},
	} {
		argv := append([]string{"run", "--kind", "post", "--key", strconv.Itoa(i), "--"}, c.argv...)
		exit, _, first := b.run(argv...)
		_, _, again := b.run(argv...)
		need.Equal(t, exit, 0, first, "exit")
		need.That(t, c.hint == "" && first == "" || c.hint != "" && strings.HasPrefix(first, "indoubt: "+c.hint) && strings.Count(first, "\n") == 1, "%q", first)
		need.That(t, !strings.Contains(again, "committed; add") && strings.Contains(again, "nothing was run"), "again: %q", again)
	}
}
