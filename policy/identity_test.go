package policy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/policy/transport"
)

// reading is a kind whose check is over http and lists body.data.
func reading(t testing.TB, kind, read string) *Kind {
	t.Helper()
	return must(t, "version: 1\nkinds:\n  k:\n    token: { into: t }\n"+kind+"    read:\n      http: { get: https://h.example/x }\n"+read).Kind("k")
}

// owner is which operation a check takes one candidate for.
func owner(k *Kind, rec ledger.Record, candidate string) string {
	return ownerIn(k, rec, `{"data":[`+candidate+`]}`)
}

func ownerIn(k *Kind, rec ledger.Record, body string) string {
	f, err := k.Read.JudgePage(context.Background(), rec, nil, ledger.Answer{Via: "http", Status: 200, Body: []byte(body)})
	switch {
	case err != nil && (len(f.Effects) > 0 || f.Others > 0 || f.Unmarked > 0):
		return "an error with a finding"
	case err != nil:
		return "cannot tell"
	case len(f.Effects) > 1:
		return "several"
	case len(f.Effects) == 1 && f.Effects[0].Doubt != "":
		return "in doubt: " + string(f.Effects[0].Cause)
	case len(f.Effects) == 1:
		return "own"
	case f.Others == 1 && f.Unmarked == 0:
		return "other"
	case f.Unmarked == 1 && f.Others == 0:
		return "unmarked"
	}
	return fmt.Sprintf("%+v", f)
}

// A mark is compared by the engine, in the way that the policy declares.
func TestWhichOperationAnEffectBelongsTo(t *testing.T) {
	const token = "indoubt-7E3A" // of operation()
	type row struct{ candidate, want string }
	// What no identity can compare, and what none takes for its own.
	always := []row{
		{`{"m":null}`, "unmarked"}, {`{}`, "unmarked"}, {`{"m":""}`, "unmarked"}, {`{"m":[]}`, "unmarked"}, {`{"m":[null,""]}`, "unmarked"}, {`null`, "unmarked"},
		{`{"m":{}}`, "cannot tell"}, {`{"m":{"token":"indoubt-7E3A"}}`, "cannot tell"}, {`{"m":true}`, "cannot tell"}, {`{"m":[["indoubt-7E3A"]]}`, "cannot tell"},
		{`{"m":["indoubt-7E3A",{}]}`, "cannot tell"}, {`"indoubt-7E3A"`, "cannot tell"}, {`["indoubt-7E3A"]`, "cannot tell"},
		{`{"m":"x"}`, "other"}, {`{"m":["x","y"]}`, "other"}, {`{"m":0}`, "other"},
	}
	for _, c := range []struct {
		name, read string
		rows       []row
	}{
		{"the token", "      list: body.data\n      mark: it.m\n", []row{
			{`{"m":"indoubt-7E3A"}`, "own"}, {`{"m":["x","indoubt-7E3A"]}`, "own"}, {`{"m":[null,"indoubt-7E3A"]}`, "own"},
			{`{"m":"paid (indoubt-7E3A)."}`, "own"}, {`{"m":"a\nindoubt-7E3A\n"}`, "own"}, {`{"m":"#indoubt-7E3A:"}`, "own"}, {`{"m":"xindoubt-7E3A indoubt-7E3A"}`, "own"},
			{`{"m":"indoubt-7E3A1"}`, "other"}, {`{"m":"xindoubt-7E3A"}`, "other"}, {`{"m":"indoubt-7E3A-2"}`, "other"}, {`{"m":"indoubt-7E3A_2"}`, "other"},
			{`{"m":"my-indoubt-7E3A"}`, "other"}, {`{"m":"éindoubt-7E3A"}`, "other"}, {`{"m":"indoubt-7E3Aé"}`, "other"}, {`{"m":"indoubt-7E3Ae\u0301"}`, "other"},
			{`{"m":"indoubt-7E3A\u0301"}`, "other"}, {`{"m":"indoubt-7E3A٣"}`, "other"},
			{`{"m":"indoubt-7e3a"}`, "other"}, {`{"m":"INDOUBT-7E3A"}`, "other"}, {`{"m":"indoubt-7E3"}`, "other"}, {`{"m":"indoubt -7E3A"}`, "other"},
		}},
		{"a form of the token", "      list: body.data\n      mark: { it.m: \"<!-- ${token} -->\" }\n", []row{
			{`{"m":"<!-- indoubt-7E3A -->"}`, "own"}, {`{"m":"It does.\n\n<!-- indoubt-7E3A -->\n"}`, "own"}, {`{"m":["x","<!-- indoubt-7E3A -->"]}`, "own"},
			{`{"m":"indoubt-7E3A"}`, "other"}, {`{"m":"Reverts indoubt-7E3A"}`, "other"}, {`{"m":"<!-- indoubt-7E3A"}`, "other"}, {`{"m":"&lt;!-- indoubt-7E3A --&gt;"}`, "other"},
			{`{"m":"<!--indoubt-7E3A-->"}`, "other"}, {`{"m":"<!-- indoubt-7e3a -->"}`, "other"}, {`{"m":["<!-- ","indoubt-7E3A"," -->"]}`, "other"},
		}},
		{"the key", "      list: body.data\n      name: it.m\n", []row{
			{`{"m":"k-1"}`, "own"}, {`{"m":["x","k-1"]}`, "own"},
			{`{"m":"k-10"}`, "other"}, {`{"m":"order k-1"}`, "other"}, {`{"m":"K-1"}`, "other"}, {`{"m":" k-1"}`, "other"}, {`{"m":"` + token + `"}`, "other"},
		}},
		{"a field", "      list: body.data\n      name:\n        it.m: ${input.invoice}\n      unique: true\n", []row{
			{`{"m":"INV-1"}`, "own"}, {`{"m":["INV-0","INV-1"]}`, "own"},
			{`{"m":"INV-10"}`, "other"}, {`{"m":"for INV-1"}`, "other"}, {`{"m":"inv-1"}`, "other"}, {`{"m":"` + token + `"}`, "other"},
		}},
		{"a number", "      list: body.data\n      name:\n        it.m: ${input.big}\n      unique: true\n", []row{
			{`{"m":9007199254740993}`, "own"}, {`{"m":"9007199254740993"}`, "own"}, {`{"m":9007199254740992}`, "other"}, {`{"m":9007199254740993.5}`, "other"},
		}},
		{"text made of fields", "      list: body.data\n      name:\n        it.m + \"@\" + it.v: ${input.invoice}@${input.n}\n      unique: true\n", []row{
			{`{"m":"INV-1","v":"7"}`, "own"}, {`{"m":"INV-1","v":"70"}`, "other"}, {`{"m":"INV-1"}`, "unmarked"}, {`{"m":"INV-1","v":7}`, "cannot tell"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k, rows := reading(t, "", c.read), c.rows
			if !strings.Contains(c.read, `"@"`) {
				rows = append(rows, always...)
			}
			rec := operation("k", `{"invoice":"INV-1","n":7,"big":9007199254740993}`)
			for _, r := range rows {
				need.Equal(t, owner(k, rec, r.candidate), r.want, r.candidate)
			}
		})
	}
}

// What is missing or null on the way to a mark is no mark; anything else that is in
// the way cannot be told from one.
func TestTheWayToAMark(t *testing.T) {
	rec := operation("k", `{}`)
	for _, c := range []struct{ mark, candidate, want string }{
		{"it.a.m", `{"a":null}`, "unmarked"}, {"it.a.m", `{}`, "unmarked"}, {"it.a.m", `{"a":{}}`, "unmarked"}, {"it.a.m", `{"a":{"m":"indoubt-7E3A"}}`, "own"},
		{"it.a.m", `{"a":"text"}`, "cannot tell"}, {"it.a.m", `{"a":7}`, "cannot tell"}, {"it.a.m", `{"a":["indoubt-7E3A"]}`, "cannot tell"},
		{`it["a b"].m`, `{"a b":{"m":"indoubt-7E3A"}}`, "own"}, {`it["a b"].m`, `{"a b":null}`, "unmarked"},
		{"it.l[0]", `{"l":["indoubt-7E3A"]}`, "own"}, {"it.l[0]", `{"l":[]}`, "unmarked"}, {"it.l[1]", `{"l":["indoubt-7E3A"]}`, "unmarked"}, {"it.l[0]", `{"l":{"0":"x"}}`, "cannot tell"},
		{"it", `"indoubt-7E3A"`, "own"}, {"it", `["x","indoubt-7E3A"]`, "own"}, {"it", `{}`, "cannot tell"},
		// What is computed is known only as a whole: of two labels one is the mark.
		{"it.l.map(x, x.name)", `{"l":[{"name":"indoubt-7E3A"}]}`, "own"},
		{"it.l.map(x, x.name)", `{"l":[{"id":1},{"name":"indoubt-7E3A"}]}`, "cannot tell"},
		{"it.l.filter(x, x.kind == 'a').map(x, x.name)", `{"l":[{"name":"indoubt-7E3A"}]}`, "cannot tell"},
		{"it.l.map(x, x.name)", `{"l":null}`, "cannot tell"},
		{"[it.m, body.who]", `{"m":"indoubt-7E3A"}`, "cannot tell"}, // of the answer, not of the candidate
		{"string(it.m)", `{"m":{}}`, "cannot tell"},
		{"it.m.lowerAscii()", `{"m":"INDOUBT-7e3A"}`, "other"},
	} {
		k := reading(t, "", "      list: body.data\n      mark: "+quoteJSON(c.mark)+"\n")
		need.Equal(t, owner(k, rec, c.candidate), c.want, c.mark, c.candidate)
	}
}

func TestAnOperationWithoutWhatAMarkShowsOwnsNothing(t *testing.T) {
	for _, c := range []struct {
		read string
		rec  ledger.Record
	}{
		{"      list: body.data\n      mark: it.m\n", ledger.Record{}},
		{"      list: body.data\n      mark:\n        it.m: ${token}\n", ledger.Record{}},
		{"      list: body.data\n      name: it.m\n", ledger.Record{}},
		{"      list: body.data\n      name:\n        it.m: ${input.invoice}\n      unique: true\n", operation("k", `{"invoice":""}`)},
		{"      list: body.data\n      name:\n        it.m: ${input.invoice}\n      unique: true\n", operation("k", `{"invoice":" "}`)},
		{"      list: body.data\n      name:\n        it.m: ${input.invoice}\n      unique: true\n", operation("k", `{}`)},
		{"      list: body.data\n      name:\n        it.m: ${input.invoice}\n      unique: true\n", operation("k", `{"invoice":null}`)},
	} {
		for _, mark := range []string{`"anything"`, `""`, `" "`, `null`, `[""]`} {
			got := owner(reading(t, "", c.read), c.rec, `{"m":`+mark+`}`)
			need.That(t, got != "own", "%s is taken for the own one of %s", mark, c.read)
		}
	}
}

// A candidate is not called another's by a clock: one that looks older than the
// first attempt is in doubt.
func TestWhenAnEffectWasCreated(t *testing.T) {
	k := reading(t, "", "      list: body.data\n      mark: it.m\n      created: it.at\n")
	second := time.Date(2026, 7, 14, 3, 6, 10, 0, time.UTC)
	older, garbage := "in doubt: older", "cannot tell"
	for _, c := range []struct{ sent, at, want string }{ // sent: milliseconds after the second
		{"0", `1783998370`, "own"}, {"500", `1783998370`, "own"}, {"999", `1783998370`, "own"}, {"0", `1783998369`, older}, {"500", `1783998369`, older}, {"0", `1783998371`, "own"},
		{"500", `1783998370500`, "own"}, {"500", `1783998370499`, older}, {"500", `1783998370000`, older}, {"500", `1783998371000`, "own"}, {"0", `1783998370000`, "own"},
		{"500", `1783998370.6`, "own"}, {"500", `1783998370.4`, older}, {"500", `"1783998370"`, "own"}, {"500", `"1783998369"`, older}, {"500", `"1783998370499"`, older},
		{"500", `"2026-07-14T03:06:10Z"`, "own"}, {"500", `"2026-07-14T03:06:09Z"`, older}, {"500", `"2026-07-14T05:06:10+02:00"`, "own"}, {"500", `"2026-07-14T03:06:10+02:00"`, older},
		{"500", `"2026-07-14T03:06:10.500Z"`, "own"}, {"500", `"2026-07-14T03:06:10.499Z"`, older}, {"500", `"2026-07-14T03:06:10.000Z"`, older}, {"500", `"2026-07-14T03:06:10.5001234Z"`, "own"},
		{"500", `"2026-07-14T03:06:10.4999999Z"`, "own"}, // the ledger keeps milliseconds, in which it was sent
		{"500", `null`, garbage}, {"500", `""`, garbage}, {"500", `0`, garbage}, {"500", `-1`, garbage}, {"500", `"soon"`, garbage}, {"500", `"2026-07-14"`, garbage}, {"500", `"2026-07-14 03:06:11"`, garbage},
		{"500", `true`, garbage}, {"500", `{}`, garbage}, {"500", `["2026-07-14T03:06:11Z"]`, garbage}, {"500", `1783998370600000`, garbage}, {"500", `1e400`, garbage},
		{"500", `"NaN"`, garbage}, {"500", `"Inf"`, garbage}, {"500", `"0x7fffffff"`, garbage},
	} {
		var ms int
		need.Get(fmt.Sscan(c.sent, &ms))(t)
		rec := operation("k", `{}`)
		rec.Operation.StartedAt = second.Add(time.Duration(ms) * time.Millisecond)
		rec.Attempts = []ledger.Attempt{{StartedAt: rec.Operation.StartedAt}, {StartedAt: second.Add(time.Hour)}}
		need.Equal(t, owner(k, rec, `{"m":"indoubt-7E3A","at":`+c.at+`}`), c.want, "sent at .", c.sent, c.at)
	}
	need.Equal(t, owner(k, operation("k", `{}`), `{"m":"indoubt-7E3A","at":1783998370}`), older, "it is not known when it was sent")
	rec := operation("k", `{}`)
	rec.Attempts = []ledger.Attempt{{StartedAt: second}}
	need.Equal(t, owner(k, rec, `{"m":"indoubt-7E3A"}`), garbage, "without a moment")
	need.Equal(t, owner(k, rec, `{"m":"x","at":"soon"}`), "other", "another's clock does not matter")
}

func TestAnEffectIsFinishedOrInDoubt(t *testing.T) {
	k := reading(t, "", "      list: body.data\n      mark: it.m\n      final: it.status == \"done\"\n")
	for _, c := range []struct{ candidate, want string }{
		{`{"m":"indoubt-7E3A","status":"done"}`, "own"}, {`{"m":"indoubt-7E3A","status":"open"}`, "in doubt: unfinished"}, {`{"m":"indoubt-7E3A"}`, "cannot tell"},
		{`{"m":"indoubt-7E3A","status":null}`, "in doubt: unfinished"}, {`{"m":"x"}`, "other"}, {`{"status":"done"}`, "unmarked"},
	} {
		need.Equal(t, owner(k, operation("k", `{}`), c.candidate), c.want, c.candidate)
	}
	if got := owner(reading(t, "", "      list: body.data\n      mark: it.m\n      final: it.done\n"), operation("k", `{}`), `{"m":"indoubt-7E3A","done":"yes"}`); got != "cannot tell" {
		t.Error("text is taken for true:", got)
	}
}

// The other side searched, something is so, or nothing says which operation it belongs to.
func TestOtherIdentities(t *testing.T) {
	rec := operation("k", `{"version":"4.18"}`)
	asked := must(t, "version: 1\nkinds: { k: { token: { into: t }, read: { http: { get: \"https://h.example/${token}\" }, list: body.data, mark: asked, complete: \"true\" } } }\n").Kind("k")
	state := reading(t, "    effect: safe\n    target: x\n", "      state: body.version == input.version\n")
	none := reading(t, "", "      list: body.data\n      same: it.n == 1\n      complete: \"true\"\n")
	for _, c := range []struct {
		name string
		k    *Kind
		body string
		want ledger.Verdict
		why  ledger.Cause
	}{
		{"asked", asked, `{"data":[{}]}`, ledger.Landed, ""},
		{"asked, two", asked, `{"data":[{},{}]}`, ledger.Twice, ""},
		{"asked, none", asked, `{"data":[]}`, ledger.CannotTell, ledger.CauseNone},
		{"state", state, `{"version":"4.18"}`, ledger.Landed, ""},
		{"state, another", state, `{"version":"4.17"}`, ledger.CannotTell, ledger.CauseNotSo},
		{"state, of another type", state, `{"version":4.18}`, ledger.CannotTell, ledger.CauseNotSo},
		{"state, not shown", state, `{}`, ledger.CannotTell, ledger.CauseNoAnswer},
		{"nothing", none, `{"data":[{"n":1}]}`, ledger.CannotTell, ledger.CauseUnidentified},
		{"nothing, several", none, `{"data":[{"n":1},{"n":1}]}`, ledger.CannotTell, ledger.CauseUnidentified},
		{"nothing, that cannot be compared", none, `{"data":[{}]}`, ledger.CannotTell, ledger.CauseUnidentified},
		{"nothing, none alike", none, `{"data":[{"n":2}]}`, ledger.CannotTell, ledger.CauseNone},
		{"nothing, none", none, `{"data":[]}`, ledger.CannotTell, ledger.CauseNone},
	} {
		got := c.k.Try(context.Background(), rec, noon, 1, func(int, transport.Request, error) (ledger.Answer, error) {
			return ledger.Answer{Via: "http", Status: 200, Body: []byte(c.body)}, nil
		})
		need.That(t, got.Verdict == c.want && got.Cause == c.why && got.Reason != "", "%s: %s, %s (%s); want %s, %s", c.name, got.Verdict, got.Cause, got.Reason, c.want, c.why)
	}
	need.That(t, !state.Read.Proves() && !none.Read.Proves() && asked.Read.Proves(), "what proves absence")
}
