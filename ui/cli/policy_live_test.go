package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
	"indoubt/ui/cli/base"
	"indoubt/ui/cli/rules"
)

// rules is the policy of a program that runs on, whose file can be edited.
func (b *bench) rules(said func(string)) *base.LivePolicy {
	b.Helper()
	a := base.NewApp(strings.NewReader(""), os.Stdout, os.Stderr)
	a.Env = func(name string) string {
		return map[string]string{"INDOUBT_LEDGER": b.ledger, "INDOUBT_POLICY": b.policy, "XDG_STATE_HOME": b.dir}[name]
	}
	a.LedgerPath, a.PolicyPath = b.ledger, b.policy
	need.Get(a.LedgerFor(b.Context(), base.ToCreate))(b)
	b.Cleanup(a.Close)
	l := a.Rules()
	l.Said = said
	return l
}

// A headless engine has no banner: it says on standard error what is wrong with
// the policy, and when it is mended, and goes on.
func TestItIsSaidThatThePolicyIsBroken(t *testing.T) {
	b := newBench(t)
	var said string
	l := b.rules(func(line string) { said = line })
	for _, step := range []struct{ text, want string }{
		{benchPolicy, ""},
		{benchPolicy + "    titel: x\n", "the last good policy stays: " + b.policy + ":"},
		{benchPolicy, "the policy is good again"},
		{strings.Replace(benchPolicy, "USD", "EUR", 1), "the policy has changed"},
	} {
		said = ""
		b.file("policy.yaml", step.text)
		l.Look(t.Context())
		need.That(t, strings.HasPrefix(said, step.want) && (said == "") == (step.want == ""), "%q, want %q", said, step.want)
	}
}

// I6: while none is in force a program works by its file. What was put in force is worked by
// everywhere, also where the file is another one by then; only a host that has that text as a
// file, or had it, asks anything by it.
func TestI6_ThePolicyInForceIsWorkedBy(t *testing.T) {
	b := newBench(t)
	in := func(currency string) string { return strings.Replace(benchPolicy, "USD", currency, 1) }
	l := b.rules(nil)
	works := func(what, currency string, lent bool, problem string) {
		t.Helper()
		l.Look(t.Context())
		p, said := l.InForce(), ""
		if err := l.Problem(); err != nil {
			said = err.Error()
		}
		need.That(t, p.Currency() == currency && p.Lent() == lent && (said == "") == (problem == "") && strings.Contains(said, problem),
			"%s: it works by %s, lent %t, problem %q", what, p.Currency(), p.Lent(), said)
	}
	works("none is in force", "USD", false, "")
	b.file("policy.yaml", in("EUR"))
	works("none is in force, and it was edited", "EUR", false, "")
	out := b.want(0, "policy", "apply", "--reason", "the first")
	need.Contains(t, out, "is in force as number 1")
	works("put in force", "EUR", false, "")
	b.file("policy.yaml", in("CHF"))
	works("edited, and not put in force", "EUR", false, "not the policy in force, which is number 1")
	l = b.rules(nil)
	works("started anew between", "EUR", false, "not the policy in force")
	b.file("policy.yaml", "version: 2\n")
	works("broken", "EUR", false, "version")
	need.Contains(t, b.want(0, "begin", "--kind", "stripe.charge", "--key", "k0", "--input", charge), "handle")
	list := b.want(0, "list")
	need.That(t, strings.Contains(list, "charge") && !strings.Contains(list, "warning"), "a broken file is not worked by: %s", list)
	need.Contains(t, b.want(0, "doctor"), "version", "indoubt policy check")
	b.file("policy.yaml", in("CHF"))
	need.Contains(t, b.want(0, "policy", "apply", "--reason", "the second"), "is in force as number 2", "-currency: EUR", "+currency: CHF")
	works("put in force, too", "CHF", false, "")
	need.Contains(t, b.want(0, "policy", "apply", "--reason", "again"), "in force already as number 2")

	// A recorder that has not heard of it yet begins nothing by what it knows: it looks again.
	r := need.Get(newRecorder(t.Context(), l.App, ledger.Source{}, false))(t)
	b.file("policy.yaml", strings.Replace(in("CHF"), "title: charge", "title: pay", 1))
	b.want(0, "policy", "apply", "--reason", "another title")
	res := need.Get(r.Begin(t.Context(), record.Request{Kind: "stripe.charge", Key: "k", Input: []byte(charge)}))(t)
	need.That(t, res.Answer == ledger.AnswerBegun && strings.HasPrefix(res.Operation.Title, "pay") && res.Attempt.Policy == 3, "%+v", res)

	// Another host has another file, and never had this one.
	b.policy = b.file("other.yaml", in("SEK"))
	b.want(0, "policy", "apply", "--reason", "of another host")
	b.policy = b.file("policy.yaml", in("NOK"))
	need.OK(t, os.RemoveAll(filepath.Join(b.dir, "indoubt", "policies")))
	l = b.rules(nil)
	need.Contains(t, b.json(5, "check").Error.Message, "does not have the policy that is in force")
	works("what this host never had", "SEK", true, "not the policy in force, which is number 4")
	need.OK(t, os.Remove(b.policy))
	l = b.rules(nil)
	works("no file at all", "SEK", true, "")
}

// What is put in force stands in the history for good: no secret does, nothing that does not
// work, and nothing twice.
func TestI4_WhatIsPutInForce(t *testing.T) {
	t.Run("what is left behind is said", applySaysWhatAnEditOfKeysLeavesBehind)
	b := newBench(t)
	b.open()
	b.failing(2, "usage", "policy", "apply")
	need.Contains(t, b.want(0, "policy", "apply", "--dry-run"), "would be in force as number 1")
	b.file("policy.yaml", benchPolicy+"    titel: x\n")
	b.failing(1, "bad_policy", "policy", "apply", "--reason", "r")
	b.file("policy.yaml", strings.Replace(benchPolicy, "${env.STRIPE_KEY}", "sk_live_4eC39HqLyjWDarjtT1zdp7dc", 1))
	e := b.json(1, "policy", "apply", "--reason", "r").Error
	need.That(t, e.Code == "bad_policy" && strings.Contains(e.Message, "secret"), "%+v", e)
	b.file("policy.yaml", fmt.Sprintf(agreePolicy, "http://127.0.0.1:9")+
		"    tests:\n      - { name: wrong, input: { case: 1, amount: 1 }, answer: { body: { data: [], more: false } }, want: landed }\n")
	e = b.json(1, "policy", "apply", "--reason", "r").Error
	need.That(t, e.Code == "bad_policy" && strings.Contains(e.Message, "a case of order fails"), "%+v", e)
	b.file("policy.yaml", benchPolicy)
	need.That(t, !strings.Contains(b.want(0, "log"), "policy"), "something was put in force")
	b.failing(5, "read_only", "--read-only", "policy", "apply", "--reason", "r")
	b.want(0, "policy", "apply", "--reason", "the first")
	need.Contains(t, b.want(0, "log"), "policy", "the first")

	// A ledger is made with the policy that is named, or not at all.
	b.ledger = filepath.Join(b.dir, "made.db")
	b.file("policy.yaml", benchPolicy+"    titel: x\n")
	b.failing(1, "bad_policy", "--policy", b.policy, "init")
	need.That(t, !base.Exists(b.ledger), "it was made")
	b.file("policy.yaml", benchPolicy)
	need.Contains(t, b.want(0, "--policy", b.policy, "init"), "policy.yaml is in force")
	need.Contains(t, b.want(0, "policy", "apply", "--dry-run"), "in force already as number 1")
}

// applySaysWhatAnEditOfKeysLeavesBehind (I4): it is not refused, and says before and after how
// many operations it concerns and what it means for them.
func applySaysWhatAnEditOfKeysLeavesBehind(t *testing.T) {
	b := newBench(t)
	b.doubt(1, "stripe.charge", charge)
	b.want(0, "policy", "apply", "--reason", "the first")
	b.begin(2, "stripe.charge", `{"customer":"cus_8"}`)
	b.doubt(3, "legacy.charge", charge)
	b.begin(4, "legacy.charge", charge)
	b.settle(4, ledger.SettleRequest{Outcome: ledger.OutcomeCommitted})
	for edit, want := range map[[2]string]string{
		{"  stripe.charge:\n", "  stripe.charge:\n    key: { from: [invoice] }\n"}:        "stripe.charge, 2 in flight or in doubt: key.from is another",
		{"  stripe.charge:\n", "  stripe.charge:\n    key: { ttl: 48h }\n"}:               "stripe.charge, 2 in flight or in doubt: key.ttl is another",
		{"  legacy.charge:\n", "  older.charge:\n"}:                                       "legacy.charge, 1 in flight or in doubt, 1 finished: the new text does not name the kind",
		{"    title: charge ${input.customer} ${input.amount / 100}\n", "    title: c\n"}: "",
	} {
		b.file("policy.yaml", strings.Replace(benchPolicy, edit[0], edit[1], 1))
		out := b.want(0, "policy", "apply", "--dry-run")
		need.That(t, want != "" && strings.Contains(out, "\n"+want) && strings.Count(out, "in flight or in doubt") == 1 || want == "" && !strings.Contains(out, "in flight"), "want %s:\n%s", want, out)
	}
	b.file("policy.yaml", strings.Replace(benchPolicy, "  legacy.charge:\n", "  older.charge:\n", 1))
	var said rules.AppliedJSON
	need.OK(t, json.Unmarshal(b.json(0, "policy", "apply", "--reason", "renamed").Data, &said))
	need.That(t, len(said.Left) == 1 && said.Left[0].Kind == "legacy.charge" && said.Left[0].Open == 1 && said.Left[0].Finished == 1, "%+v", said.Left)
}
