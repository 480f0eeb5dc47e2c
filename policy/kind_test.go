package policy

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy/advice"
)

// undecided is the general rule of tests that have none.
func undecided(context.Context, *Kind, ledger.Record, ledger.Answer) ledger.Outcome {
	return "undecided"
}

func TestExampleLoadsCleanly(t *testing.T) {
	p, err := Parse("example.yaml", Example())
	need.Must(t, err == nil, "the example is refused:\n%v", err)
	for _, name := range p.Kinds() {
		for _, r := range p.Kind(name).RunTests(context.Background(), undecided) {
			need.That(t, r.OK, "%s, %q: got %s (%s), want %s", name, r.Test.Name, r.Got, r.Why, r.Test.Want)
		}
	}
	for _, w := range p.Warnings() {
		t.Errorf("a warning about the example:\n%s", w.Error())
	}
}

func TestMadeTitlesTellOperationsApart(t *testing.T) {
	for _, c := range []struct{ kind, input, want string }{
		{"invoice.post", `{"lines":[{"sku":"A1"}],"customer":"cus_9","amount":4200}`, "invoice.post amount=4200 customer=cus_9 sku=A1"},
		{"http.api.example.com.post", `{"method":"POST","path":"/v1/charges","content_type":"application/json","body":{"amount":4200,"to":{"name":"Ana"}}}`, "POST /v1/charges amount=4200 name=Ana"},
		{"http.api.example.com.delete", `{"method":"DELETE","path":"/v1/charges/ch_1"}`, "DELETE /v1/charges/ch_1"},
		{"mcp.memory.create_entities", `{"entities":[{"entityType":"person","name":"Ana","observations":["a","b"]}]}`, "memory create_entities entityType=person name=Ana observations=a"},
		{"webhook", ``, "webhook"},
		{"webhook", `["a",1]`, "webhook"},
		{"http.odd", `{"method":1,"path":"/x"}`, "http.odd method=1 path=/x"},
	} {
		need.Equal(t, Default().Kind(c.kind).Title(ledger.Operation{Kind: c.kind, Input: json.RawMessage(c.input)}), c.want, c.kind, c.input)
	}
}

// Operations with nothing plain in their input are told apart by the key that they were given.
func TestAGivenKeyEndsATitleThatHasNothingElse(t *testing.T) {
	title := func(key, input string) string {
		return Default().Kind("pay").Title(ledger.Operation{Kind: "pay", Key: key, Input: json.RawMessage(input)})
	}
	need.Equal(t, title("order-42", `{}`), "pay order-42")
	need.Equal(t, title("order-42", `{"n":1}`), "pay n=1")
	need.Equal(t, title("k-01a208fa-a30c-729e-8e92-76a2f40b8b82", `null`), "pay")
}

// Commands look alike from their left; a key that a person gave tells them apart.
func TestAGivenKeyLeadsTheTitleOfACommand(t *testing.T) {
	for key, want := range map[string]string{
		"order-42": "order-42 curl -sS https://pay", "order-1d4f0a6c0b3f7e2d9a5c8b7e6f1a2b3c": "order-1d4f0a6c0b3f7e2d9a5c8b7e6f1a2b3c curl -sS https://pay", "": "curl -sS https://pay",
		"input-1d4f0a6c0b3f7e2d9a5c8b7e6f1a2b3c": "curl -sS https://pay", "k-01a208fa-a30c-729e-8e92-76a2f40b8b82": "curl -sS https://pay",
	} {
		need.Equal(t, Default().Kind("pay").Title(ledger.Operation{Kind: "pay", Key: key, Command: &ledger.Command{Argv: []string{"curl", "-sS", "https://pay"}}}), want)
	}
}

const askable = `version: 1
downstreams:
  d: { base: "https://d.example" }
  m: { mcp: { command: [ASKABLE_PROGRAM] } }
defaults: { cost: { duplicate: 800, miss: 400 } }
kinds:
  good: { downstream: d, BOUNDS, read: { http: { get: /x, query: { t: "${token}" } }, SHOWS, complete: "true" } }
  input: { downstream: d, BOUNDS, read: { http: { get: /x, query: { t: "${token}", c: "${input.customer}" } }, SHOWS, complete: "true" } }
  secret: { downstream: d, BOUNDS, read: { http: { get: /x, query: { t: "${token}" }, headers: { A: "${env.ASKABLE_SECRET}" } }, SHOWS, complete: "true" } }
  program: { BOUNDS, read: { command: [ASKABLE_PROGRAM, "${token}"], SHOWS2, complete: "true" } }
  server: { downstream: m, BOUNDS, read: { mcp: { tool: find, arguments: { t: "${token}" } }, read_only: true, SHOWS3, complete: "true" } }
`

// askablePolicy has a read of every way a check can lack something.
func askablePolicy(t *testing.T, program string) *Policy {
	t.Helper()
	shows := func(where string) string { return "list: " + where + ", mark: it.t" }
	if strings.Contains(priced, "found:") {
		shows = func(where string) string { return `found: "` + where + `.filter(x, x.t == token)"` }
	}
	return must(t, strings.NewReplacer("ASKABLE_PROGRAM", program, "BOUNDS", "token: { into: t }, lands_within: 10m, visible_within: 0s", "SHOWS2", shows("json"), "SHOWS3", shows("json"), "SHOWS", shows("body")).Replace(askable))
}

// A check that cannot be asked promises no proof and no wait: it is for a person
// at once, with the reason, until it can be asked.
func TestACheckThatCannotBeAskedPromisesNothing(t *testing.T) {
	at := noon.Add(time.Minute)
	program := filepath.Join(t.TempDir(), "look")
	p := askablePolicy(t, program)
	waits := func(rec ledger.Record) (bool, string) {
		k := p.Kind(rec.Operation.Kind)
		a, price := k.Advise(rec, at), k.Price(rec)
		promised := a.Verb == advice.Wait
		need.That(t, promised == a.ProofAt.After(at) && promised == price.DecideAt.After(at), "%s: %s, proof at %v, a person from %v", k.Name, a.Verb, a.ProofAt, price.DecideAt)
		return promised, a.Reason
	}
	for kind, lacks := range map[string]string{"input": "customer", "secret": "ASKABLE_SECRET is not set", "program": "there is no program " + program, "server": "there is no program " + program} {
		promised, why := waits(doubt(kind))
		need.That(t, !promised && strings.Contains(why, "no check is possible") && strings.Contains(why, lacks), "%s: waits %t, because %s", kind, promised, why)
	}
	promised, why := waits(doubt("good"))
	need.That(t, promised, "good: %s", why)
	// What comes back heals by itself.
	t.Setenv("ASKABLE_SECRET", "s")
	need.OK(t, os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700))
	whole := doubt("input")
	whole.Operation.Input = []byte(`{"customer":"c"}`)
	for _, rec := range []ledger.Record{whole, doubt("secret"), doubt("program"), doubt("server")} {
		promised, why := waits(rec)
		need.That(t, promised, "%s is there, and still: %s", rec.Operation.Kind, why)
	}
}

// What only this process lacks says nothing of an engine elsewhere, which has
// written into the ledger that it goes on checking; what the input lacks does.
func TestWhatOnlyThisProcessLacksStopsNoOtherEngine(t *testing.T) {
	p := askablePolicy(t, "/nowhere/look")
	for kind, want := range map[string]string{"secret": advice.Wait, "program": advice.Wait, "input": advice.Look} {
		rec := doubt(kind)
		rec.Now = noon.Add(time.Minute)
		rec.Pricing = ledger.Pricing{Digest: "d", DecideAt: rec.Now.Add(time.Hour)}
		a := p.Kind(kind).Advise(rec, rec.Now)
		need.That(t, a.Verb == want, "%s: %s (%s), want %s", kind, a.Verb, a.Reason, want)
	}
}
