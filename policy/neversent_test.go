package policy

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// asking is a kind whose check says what it is asked with: REST is the rest of it.
func asking(t testing.TB, request, rest string) *Kind {
	t.Helper()
	return must(t, "version: 1\nkinds:\n  k:\n    effect: safe\n    target: x\n    token: { into: t }\n    read:\n      read_only: true\n      "+request+"\n"+rest).Kind("k")
}

const (
	byToken = "      list: body\n      mark: it.m\n"
	byKey   = "      list: body\n      name: it.m\n"
)

func byField(text string) string {
	return "      list: body\n      name: { it.m: " + quoteJSON(text) + " }\n      unique: true\n"
}

// A check is controlled where its question holds what a mark is compared with, or
// where nothing in the answer shows which operation it belongs to.
func TestWhichChecksNeedANegativeControl(t *testing.T) {
	for _, c := range []struct {
		request, rest string
		want          bool
	}{
		{"http: { get: https://h.example/x }", byToken, false},
		{"http: { get: 'https://h.example/${token}' }", byToken, true},
		{"http: { get: https://h.example/x, query: { q: 'x ${token} y' } }", byToken, true},
		{"http: { get: https://h.example/x, headers: { A: '${token}' } }", byToken, true},
		{"http: { post: https://h.example/x, json: { a: [{ b: '${token}' }] } }", byToken, true},
		{"http: { post: https://h.example/x, form: { a: '${token}' } }", byToken, true},
		{"http: { get: 'https://h.example/${input.n}/${key}' }", byToken, false},
		{"http: { get: https://h.example/x }", byKey, false},
		{"http: { get: 'https://h.example/${key}' }", byKey, true},
		{"http: { get: 'https://h.example/${token}' }", byKey, false},
		{"http: { get: https://h.example/x }", byField("${input.a}"), false},
		{"http: { get: 'https://h.example/${input.a}' }", byField("${input.a}"), true},
		{"http: { get: 'https://h.example/${input.b}' }", byField("${input.a}"), false},
		{"http: { get: 'https://h.example/${input.b}' }", byField("${input.a}/${input.b}"), true},
		{"http: { post: https://h.example/x, json: '${input}' }", byField("${input.a}"), true},
		{"http: { get: 'https://h.example/${input.a.b}' }", byField("${input.a.b}"), true},
		{"http: { get: 'https://h.example/${input.a.c}' }", byField("${input.a.b}"), false},
		{"http: { get: 'https://h.example/${input.l[0]}' }", byField("${input.l[1]}"), true},
		{"http: { get: 'https://h.example/${input[\"a\"]}' }", byField("${input.a}"), true},
		{"http: { get: 'https://h.example/${[input][0].a}' }", byField("${input.a}"), true},
		{"command: [find, '${token}']", "      list: json\n      mark: it.m\n", true},
		{"command: [find]", "      list: json\n      mark: it.m\n", true}, // it is given the operation
		{"command: { argv: [find], stdin: {} }", "      list: json\n      mark: it.m\n", false},
		{"command: { argv: [find], stdin: { t: '${token}' } }", "      list: json\n      mark: it.m\n", true},
		{"command: { argv: [find], env: { T: '${token}' }, stdin: {} }", "      list: json\n      mark: it.m\n", true},
		{"http: { get: 'https://h.example/${token}' }", "      list: body\n      mark: asked\n", true},
		{"http: { get: 'https://h.example/x' }", "      state: body.v == input.v\n", true},
		{"http: { get: 'https://h.example/${token}' }", "      list: body\n", false},
	} {
		input := `{"a":"x","b":"y","n":1,"v":2,"l":["p","q"]}`
		if strings.Contains(c.request, "input.a.") {
			input = `{"a":{"b":"x","c":"y"}}`
		}
		need.Equal(t, asking(t, requoted(c.request), c.rest).Read.NeedsNegativeControl(operation("k", input)), c.want, c.request, c.rest)
	}
}

func requoted(text string) string { return requote(strings.ReplaceAll(text, "'", "\x00")) }

// What was never sent is new each time, of the same type, and nothing else of the
// operation is changed.
func TestI2_WhatWasNeverSent(t *testing.T) {
	const input = `{"a":"INV-1042","n":42,"b":true,"big":9007199254740993,"huge":123456789012345678901234567890,"none":null,"l":["INV-1043","INV-1044"],"m":{"p":"INV-1045","r":[{"s":1},{"s":2}]},"rest":"kept"}`
	token, key := regexp.MustCompile(`^indoubt-[0-9A-Za-z]+$`), regexp.MustCompile(`^[a-z]-[0-9]$`)
	text, number := regexp.MustCompile(`^"[A-Z]{3}-[0-9]{4}"$`), regexp.MustCompile(`^[12]\d{9}$`)
	for _, c := range []struct {
		name, request, rest string
		want                []map[string]*regexp.Regexp // for each control what is changed, by path
	}{
		{"the token", "http: { get: 'https://h.example/${token}' }", byToken, []map[string]*regexp.Regexp{{"token": token}}},
		{"the token in a form", "http: { get: 'https://h.example/${token}' }", "      list: body\n      mark: { it.m: \"<${token}>\" }\n", []map[string]*regexp.Regexp{{"token": token}}},
		{"asked", "http: { get: 'https://h.example/${token}' }", "      list: body\n      mark: asked\n", []map[string]*regexp.Regexp{{"token": token}}},
		{"the key", "http: { get: 'https://h.example/${key}' }", byKey, []map[string]*regexp.Regexp{{"key": key}}},
		{"text", "http: { get: 'https://h.example/${input.a}' }", byField("${input.a}"), []map[string]*regexp.Regexp{{"a": text}}},
		{"a number", "http: { get: 'https://h.example/${input.n}' }", byField("${input.n}"), []map[string]*regexp.Regexp{{"n": number}}},
		{"a large number", "http: { get: 'https://h.example/${input.big}' }", byField("${input.big}"), []map[string]*regexp.Regexp{{"big": number}}},
		{"a huge number", "http: { get: 'https://h.example/${input.huge}' }", byField("${input.huge}"), []map[string]*regexp.Regexp{{"huge": number}}},
		{"the key beside a field", "http: { get: 'https://h.example/${key}/${input.a}' }", byField("${key}/${input.a}"), []map[string]*regexp.Regexp{{"key": key}, {"a": text}}},
		{"each of two fields alone", "http: { get: 'https://h.example/${input.n}/${input.a}' }", byField("${input.a}-${input.n}"), []map[string]*regexp.Regexp{{"a": text}, {"n": number}}},
		{"only what is asked for", "http: { get: 'https://h.example/${input.a}' }", byField("${input.a}-${input.n}"), []map[string]*regexp.Regexp{{"a": text}}},
		{"a state", "http: { get: 'https://h.example/x' }", "      state: body.a == input.a\n", []map[string]*regexp.Regexp{{"a": text}}},
		{"a state that is true or false", "http: { get: 'https://h.example/x' }", "      state: body.b == input.b\n", []map[string]*regexp.Regexp{{"b": regexp.MustCompile("^false$")}}},
		{"a state of all members", "http: { get: 'https://h.example/x' }", "      state: input.l.all(x, x in body.l)\n", []map[string]*regexp.Regexp{{"l.0": text, "l.1": text}}},
		{"a state of a mapping", "http: { get: 'https://h.example/x' }", "      state: body.m == input.m\n", []map[string]*regexp.Regexp{{"m.p": text, "m.r.0.s": number, "m.r.1.s": number}}},
		{"a state that the request names", "http: { get: 'https://h.example/${input.a}/${input.n}' }", "      state: body.ok\n", []map[string]*regexp.Regexp{{"a": text}, {"n": number}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := asking(t, requoted(c.request), c.rest).Read
			rec := operation("k", input)
			rec.Operation.Receipts = []string{"r-1"}
			controls, err := r.NeverSent(rec)
			again, err2 := r.NeverSent(rec)
			need.Must(t, err == nil && err2 == nil && len(controls) == len(c.want), "%+v, %v", controls, err)
			if string(rec.Operation.Input) != input || rec.Operation.Token != "indoubt-7E3A" || rec.Operation.Key != "k-1" || len(rec.Operation.Receipts) != 1 {
				t.Errorf("the operation itself is changed: %+v", rec.Operation)
			}
			was := leavesOf(t, rec.Operation)
			for i, control := range controls {
				one, err := control.Record()
				two, err2 := again[i].Record()
				need.Must(t, err == nil && err2 == nil, "%v %v", err, err2)
				now, next := leavesOf(t, one.Operation), leavesOf(t, two.Operation)
				for path, v := range now {
					switch want := c.want[i][path]; {
					case want == nil && v != was[path]:
						t.Errorf("%s was %s and is %s", path, was[path], v)
					case want != nil && (v == was[path] || !want.MatchString(v)):
						t.Errorf("%s is %s, want %s", path, v, want)
					case want != nil && v == next[path] && path != "key" && v != "false":
						t.Errorf("%s is %s again", path, v)
					}
				}
				need.That(t, len(now) == len(was) && len(one.Operation.Receipts) == 0, "%v", now)
				need.Equal(t, control.Key, again[i].Key, "the same question has two names")
			}
		})
	}
}

// leavesOf are the plain values of an operation by path.
func leavesOf(t *testing.T, o ledger.Operation) map[string]string {
	t.Helper()
	out := map[string]string{"token": o.Token, "key": o.Key}
	in := need.Get(decodeInput(o))(t)
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch x := v.(type) {
		case map[string]any:
			for name, e := range x {
				walk(strings.TrimPrefix(path+"."+name, "."), e)
			}
		case []any:
			for i, e := range x {
				walk(path+"."+plain(i), e)
			}
		default:
			text := need.Get(json.Marshal(v))(t)
			out[path] = string(text)
		}
	}
	walk("", in)
	return out
}

// Where no such question can be put, it cannot be told whether the check echoes.
func TestI2_NoControlIsAnErrorAndNoProof(t *testing.T) {
	t.Setenv("TEST_KEY", "sk_live_1")
	for _, c := range []struct{ request, rest, input string }{
		{"http: { get: 'https://h.example/${has(input.a) ? input.a : \"x\"}' }", byField("x${has(input.a) ? input.a : \"x\"}"), `{}`},
		{"http: { get: 'https://h.example/${input.m}' }", "      state: body.m == input.m\n", `{"m":{}}`},
		{"http: { get: 'https://h.example/${input.l}' }", "      state: body.l == input.l\n", `{"l":[]}`},
		{"http: { get: 'https://h.example/x/${receipt}' }", "      state: body.a == input.a\n", `{"a":1}`},
		{"http: { get: 'https://h.example/${input.a}', headers: { A: '${env.TEST_MISSING}' } }", "      state: body.a == input.a\n", `{"a":1}`},
		{"http: { get: 'https://h.example/${input.a}' }", "      state: body.a == input.a\n", `{"a":`},
		{"http: { get: 'https://h.example/x' }", "      list: body\n", `{}`},
	} {
		got, err := asking(t, requoted(c.request), c.rest).Read.NeverSent(operation("k", c.input))
		need.That(t, err != nil, "%s, %s: %+v", c.request, c.input, got)
	}
}

// A control is believed for operations that ask the same apart from what is
// replaced, and for no others.
func TestWhichOperationsShareAControl(t *testing.T) {
	t.Setenv("TEST_KEY", "sk_live_1")
	change := func(f func(o *ledger.Operation)) ledger.Record {
		rec := operation("k", `{"a":"INV-1","n":1,"c":"cus_1"}`)
		f(&rec.Operation)
		return rec
	}
	input := func(text string) func(o *ledger.Operation) {
		return func(o *ledger.Operation) { o.Input = []byte(text) }
	}
	const secret = ", headers: { A: '${env.TEST_KEY}' }"
	for _, c := range []struct {
		request, rest string
		change        func(o *ledger.Operation)
		same          bool
	}{
		{"http: { get: 'https://h.example/${token}'" + secret + " }", byToken, func(o *ledger.Operation) { o.Token = "indoubt-2" }, true},
		{"http: { get: 'https://h.example/${token}'" + secret + " }", byToken, input(`{"a":"other"}`), true}, // the request does not hold it
		{"http: { get: 'https://h.example/${token}/${input.c}' }", byToken, func(o *ledger.Operation) { o.Token = "indoubt-2" }, true},
		{"http: { get: 'https://h.example/${token}/${input.c}' }", byToken, input(`{"c":"cus_2"}`), false},
		{"http: { get: 'https://h.example/${token}', headers: { B: '${input.c}' } }", byToken, input(`{"c":"cus_2"}`), false},
		{"http: { get: 'https://h.example/${token}/${key}' }", byToken, func(o *ledger.Operation) { o.Key = "k-2" }, false},
		{"http: { get: 'https://h.example/${token}/${op.id}' }", byToken, func(o *ledger.Operation) { o.ID = "02" }, false},
		{"http: { get: 'https://h.example/${key}' }", byKey, func(o *ledger.Operation) { o.Key = "k-2" }, true},
		{"http: { get: 'https://h.example/${input.c}/${input.a}' }", byField("${input.a}"), input(`{"a":"INV-2","n":1,"c":"cus_1"}`), true},
		{"http: { get: 'https://h.example/${input.c}/${input.a}' }", byField("${input.a}"), input(`{"a":"INV-1","n":1,"c":"cus_2"}`), false},
		{"http: { get: 'https://h.example/${input.c}/${input.n}' }", byField("${input.n}"), input(`{"a":"INV-1","n":2,"c":"cus_1"}`), true},
		{"command: [find, '${token}']", "      list: json\n      mark: it.m\n", func(o *ledger.Operation) { o.ID = "02" }, false}, // it is given the operation
	} {
		r := asking(t, requoted(c.request), c.rest).Read
		one, err := r.NeverSent(change(func(*ledger.Operation) {}))
		two, err2 := r.NeverSent(change(c.change))
		if err != nil || err2 != nil || len(one) != 1 || len(two) != 1 || (one[0].Key == two[0].Key) != c.same {
			t.Errorf("%s: %v %v, %v, %v; want the same %v", c.request, one, two, err, err2, c.same)
			continue
		}
		need.That(t, !strings.Contains(one[0].Key, "sk_live") && regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(one[0].Key), "the name shows what is asked: %s", one[0].Key)
	}
	// Another secret asks with other rights.
	r := asking(t, requoted("http: { get: 'https://h.example/${token}'"+secret+" }"), byToken).Read
	one, _ := r.NeverSent(operation("k", `{}`))
	t.Setenv("TEST_KEY", "sk_live_2")
	if two, err := r.NeverSent(operation("k", `{}`)); err != nil || one[0].Key == two[0].Key {
		t.Error("a control made with another secret is believed", err)
	}
}

// What a mark is compared with may be in the question under another name: the
// token that a pipeline wrote into its input, a key that is the invoice's number.
func TestI2_TheSameValueUnderAnotherName(t *testing.T) {
	for _, c := range []struct {
		request, rest, key, input string
		want                      string // of the input, after what was never sent is replaced; "" for no control
	}{
		{"http: { get: 'https://h.example/${input.memo}' }", byToken, "k", `{"memo":"for indoubt-7E3A","n":1}`, `{"memo":"for NEW","n":1}`},
		{"http: { post: https://h.example/x, json: '${input}' }", byToken, "k", `{"a":[{"memo":"indoubt-7E3A"}],"n":1}`, `{"a":[{"memo":"NEW"}],"n":1}`},
		{"http: { get: 'https://h.example/${key}' }", byToken, "indoubt-7E3A", `{}`, `{}`},
		{"http: { get: 'https://h.example/${input.memo}' }", byToken, "k", `{"memo":"none of it"}`, ""},
		{"http: { get: 'https://h.example/x' }", byToken, "k", `{"memo":"indoubt-7E3A"}`, ""}, // the question does not hold it
		{"http: { get: 'https://h.example/${input.invoice}' }", byKey, "INV-1", `{"invoice":"INV-1","n":1}`, `{"invoice":"NEW","n":1}`},
		{"http: { get: 'https://h.example/${input.invoice}' }", byKey, "7", `{"invoice":7,"n":"one"}`, `{"invoice":"NEW","n":"one"}`},
		{"http: { get: 'https://h.example/${input.invoice}' }", byKey, "INV-1", `{"invoice":"INV-10"}`, ""},
		{"http: { get: 'https://h.example/${input.b}' }", byField("${input.a}"), "k", `{"a":"INV-1","b":"INV-1"}`, `{"a":"NEW","b":"NEW"}`},
		{"http: { get: 'https://h.example/${key}' }", byField("${input.a}"), "INV-1", `{"a":"INV-1"}`, `{"a":"NEW"}`},
		{"http: { get: 'https://h.example/${input.b}' }", byField("${input.a}"), "k", `{"a":"INV-1","b":"INV-2"}`, ""},
	} {
		r := asking(t, requoted(c.request), c.rest).Read
		rec := operation("k", c.input)
		rec.Operation.Key = c.key
		need.Equal(t, r.NeedsNegativeControl(rec), c.want != "", c.request, c.input, "needs a control")
		if c.want == "" {
			continue
		}
		controls, err := r.NeverSent(rec)
		if err != nil || len(controls) != 1 {
			t.Errorf("%s of %s: %v %v", c.request, c.input, controls, err)
			continue
		}
		other, err := controls[0].Record()
		if err != nil {
			t.Errorf("%s of %s: %v", c.request, c.input, err)
			continue
		}
		o := other.Operation
		fresh, err := r.expected(other)
		if got := strings.ReplaceAll(string(o.Input), fresh, "NEW"); err != nil || got != c.want || c.key != "k" && o.Key == c.key {
			t.Errorf("%s of %s with %s: %s with %s, want %s", c.request, c.input, c.key, got, o.Key, c.want)
		}
	}
}
