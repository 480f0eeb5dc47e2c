package httpproxy

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
)

func TestKeys(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{})
	w.post("k-1", `{"n":1}`)
	if a := w.post(`"k-1"`, `{"n":1}`); a.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("quoted it is another key: %+v", a)
	}
	if a := w.post(`"k-1"; v=2`, `{"n":1}`); a.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("with a parameter it is another key: %+v", a)
	}
	for name, again := range map[string]told{
		"body":   w.post("k-1", `{"n":2}`),
		"path":   w.do("POST", "/refunds", "k-1", `{"n":1}`),
		"query":  w.do("POST", "/charges?x=1", "k-1", `{"n":1}`),
		"header": w.post("k-1", `{"n":1}`, "X-Http-Method-Override", "PUT"),
	} {
		if p := again.problem(t); again.status != 422 || p.Code != "key_reused" {
			t.Errorf("another %s: %d %+v", name, again.status, p)
		}
	}
	need.Equal(t, up.total(), 1, "effects")
	w = newWorld(t, up, setup{option: func(o *Options) { o.RequireKey = true }})
	if a := w.post("", `{}`); a.status != 400 || a.problem(t).Code != "key_missing" {
		t.Errorf("%+v", a)
	}
	w = newWorld(t, up, setup{rule: record.KindRule{KeyFrom: []string{"body.n"}}, option: func(o *Options) { o.RequireKey = true }})
	w.post("", `{"n":1}`)
	if a := w.post("", `{"n":1}`); a.header.Get("Idempotency-Replayed") != "true" || up.total() != 2 {
		t.Errorf("a key made of fields: %+v", a)
	}
}

// What a policy calls a kind now does not let a repeat through of what was recorded
// under another name: one that it had, or the built-in one.
func TestI3_AKeyOutlivesTheNameOfItsKind(t *testing.T) {
	for what, key := range map[string]string{"a key of the client's": "k-1", "the same request without one": ""} {
		for _, names := range [][2]string{{"", "charge"}, {"charge", "pay"}, {"charge", ""}} {
			up := newUpstream(t, func(u *upstream, c net.Conn) { u.take(c) })
			var name atomic.Value
			name.Store(names[0])
			w := newWorld(t, up, setup{kind: func(string, string, string) (string, bool) { return name.Load().(string), name.Load() != "" }})
			w.post(key, `{"n":1}`)
			name.Store(names[1])
			if a := w.post(key, `{"n":1}`); a.status != 409 || a.problem(t).Code != "in_doubt" || up.total() != 1 {
				t.Errorf("%s, %q then %q: %d effects, %+v", what, names[0], names[1], up.total(), a)
			}
		}
	}
}

// TestI3_APolicyThatComesLaterFindsTheKey: a kind that the policy names only now
// does not let a repeat through of what was recorded under the built-in name.
func TestI3_APolicyThatComesLaterFindsTheKey(t *testing.T) {
	up := newUpstream(t, func(u *upstream, c net.Conn) { u.take(c) })
	var named atomic.Bool
	w := newWorld(t, up, setup{kind: func(string, string, string) (string, bool) { return "charge", named.Load() }})
	w.post("k-1", `{"n":1}`)
	named.Store(true)
	if a := w.post("k-1", `{"n":1}`); a.status != 409 || a.problem(t).Code != "in_doubt" {
		t.Errorf("%+v", a)
	}
	up.does(created)
	if a := w.post("k-2", `{"n":1}`); a.status != 409 || a.problem(t).Code != "in_doubt" {
		t.Errorf("the same under another key: %+v", a)
	}
	if rec := w.about(w.post("k-2", `{"n":3}`)); rec.Operation.Kind != "charge" || rec.Operation.State != ledger.Committed {
		t.Errorf("%+v", rec.Operation)
	}
	need.Equal(t, up.total(), 2, "effects")
}

// A client whose answer was lost is answered with what the check found, once and for
// good; where nothing may be given, or something disagrees, it is told that it is done.
func TestAClientGetsWhatACheckFound(t *testing.T) {
	const found = `{"id":"ch_1","status":"paid"}`
	for name, tc := range map[string]struct {
		read ledger.Read
		give string
		late ledger.Outcome
		want int
	}{
		"found":                 {ledger.Read{Verdict: ledger.Landed, Found: 1, Receipts: []string{"ch_1"}}, found, "", 200},
		"nothing to give":       {ledger.Read{Verdict: ledger.Landed, Found: 1, Receipts: []string{"ch_1"}}, "", "", 409},
		"twice":                 {ledger.Read{Verdict: ledger.Twice, Found: 2, Receipts: []string{"ch_1", "ch_2"}}, found, "", 409},
		"an answer disagrees":   {ledger.Read{Verdict: ledger.Landed, Found: 1, Receipts: []string{"ch_1"}}, found, ledger.OutcomeFailed, 409},
		"a late answer came in": {ledger.Read{Verdict: ledger.Landed, Found: 1, Receipts: []string{"ch_1"}}, found, ledger.OutcomeCommitted, 409},
	} {
		up := newUpstream(t, func(u *upstream, c net.Conn) { u.take(c) })
		w := newWorld(t, up, setup{})
		w.post("k-1", `{"n":1}`)
		rec := w.operation("")
		tc.read.ID, tc.read.OperationID, tc.read.Reason, tc.read.BeganAt, tc.read.EndedAt = "r", rec.Operation.ID, "found", rec.Now, rec.Now
		need.Get(ledger.Observe(t.Context(), w.store, ledger.Observation{ChangeID: "c", Read: tc.read, Version: rec.Operation.Version, Settles: true,
			Result: json.RawMessage(tc.give), Actor: ledger.Actor{Name: "checks", Machine: true}}))(t)
		if tc.late != "" {
			late := ledger.SettleRequest{ChangeID: "l", AttemptID: rec.Attempts[0].ID, Outcome: tc.late, Status: 402, Actor: ledger.Actor{Name: "billing", Machine: true}}
			if tc.late == ledger.OutcomeFailed {
				late.Proof = ledger.Refused
			}
			need.Get(ledger.Settle(t.Context(), w.store, late))(t)
		}
		for range 2 {
			a := w.post("k-1", `{"n":1}`)
			switch {
			case a.status != tc.want || up.total() != 1:
				t.Errorf("%s: %+v", name, a)
			case a.status == 409 && (a.problem(t).Code != "finished" || a.problem(t).Receipt != "ch_1"):
				t.Errorf("%s: %+v", name, a)
			case a.status == 200 && (a.body != found || a.header.Get("Content-Type") != "application/json" || a.header.Get("Idempotency-Replayed") != "true"):
				t.Errorf("%s: %+v", name, a)
			}
		}
	}
}

// TestAKeyThatCannotBeMade is the request's fault, and no reason to come back later.
func TestAKeyThatCannotBeMade(t *testing.T) {
	up := newUpstream(t, created)
	for name, rule := range map[string]record.KindRule{
		"body.invoice": {KeyFrom: []string{"body.invoice"}},
	} {
		w := newWorld(t, up, setup{rule: rule})
		a := w.post("", `{"n":1}`)
		if p := a.problem(t); a.status != 400 || p.Code != "key_missing" || !strings.Contains(p.Detail, name) || a.header.Get("Retry-After") != "" {
			t.Errorf("%s: %d %+v", name, a.status, p)
		}
		need.That(t, len(w.all()) == 0 && up.total() == 0, "%s: it was recorded or sent", name)
	}
}

func TestCallersAreKeptApart(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{})
	replayed := func(a told) bool { return a.status == 201 && a.header.Get("Idempotency-Replayed") == "true" }
	w.post("k-1", `{}`)
	// The same request with another credential may be the same caller's, or not: it is
	// neither sent nor answered. Another request is its own.
	for _, header := range [][]string{{"Authorization", "Bearer alpha-secret"}, {"Authorization", "Bearer beta-secret"}, {"X-Api-Key", "gamma-secret"}, {"Cookie", "session=delta-secret"},
		{"X-Goog-Api-Key", "epsilon-secret"}, {"Private-Token", "zeta-secret"}, {"Apikey", "eta-secret"}, {"X-Shopify-Access-Token", "theta-secret"}, {"X-Vault-Token", "iota-secret"},
		{"X-Auth-Key", "kappa-secret"}, {"Ocp-Apim-Subscription-Key", "lambda-secret"}, {"Dd-Api-Key", "mu-secret"}, {"X-Postmark-Server-Token", "nu-secret"}, {"Token", "xi-secret"}} {
		n := up.total()
		if a := w.post("k-1", `{}`, header...); a.status != 409 || a.problem(t).Code != "other_caller" || !strings.Contains(a.problem(t).Title, header[0]) ||
			!strings.Contains(a.problem(t).Advice, "same_account: true") || a.problem(t).Receipt != "" || strings.Contains(a.body, "secret") || up.total() != n {
			t.Errorf("%v: %+v", header, a)
		}
		own := fmt.Sprintf(`{"by":%q}`, header)
		if a := w.post("k-1", own, header...); a.status != 201 || replayed(a) || !replayed(w.post("k-1", own, header...)) {
			t.Errorf("%v has no key of its own: %+v", header, a)
		}
	}
	// What the policy names is another caller's, whatever is asked, and nothing else is.
	named := newWorld(t, up, setup{rule: record.KindRule{Callers: []string{"Stripe-Account", "X-Mine"}}})
	for _, header := range [][]string{{"Stripe-Account", "acct_1"}, {"Stripe-Account", "acct_2"}, {"X-Mine", "one"}, {"X-Mine", "two"}} {
		if a := named.post("k-1", `{}`, header...); a.status != 201 || replayed(a) || !replayed(named.post("k-1", `{}`, append(header, "X-Attempt", "2")...)) {
			t.Errorf("%v got another caller's answer, or not its own: %+v", header, a)
		}
	}
	// Of a header that is not known, nothing is taken for granted.
	for _, name := range []string{"X-Consul-Token", "X-User", "X-Forwarded-User", "Remote-User", "X-Anything", "Stripe-Account", "Forwarded", "Referer", "X-Forwarded-Host", "X-Forwarded-Prefix", "Baggage", "Prefer"} {
		n := up.total()
		for key, body := range map[string]string{"k-1": `{}`, "by " + name: `{"by":"` + name + `"}`} {
			w.post(`"`+key+`"`, body, name, "alice")
			if a := w.post(`"`+key+`"`, body, name, "bob"); a.status != 409 || a.problem(t).Code != "other_caller" || !strings.Contains(a.problem(t).Title, name) {
				t.Errorf("another %s: %+v", name, a)
			}
		}
		if a := w.post(`"by `+name+`"`, `{"by":"`+name+`"}`, name, "alice"); !replayed(a) || up.total() != n+1 {
			t.Errorf("%s: %+v", name, a)
		}
	}
	// What changes from try to try does not keep a caller from its own answer.
	for _, name := range []string{"X-Csrf-Token", "X-Xsrf-Token", "X-Recaptcha-Token", "X-Request-Id", "Traceparent", "Sentry-Trace", "X-Amz-Date", "User-Agent", "X-Forwarded-For"} {
		if a := w.post("k-1", `{}`, name, name); a.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("another %s made it another caller", name)
		}
	}
	// A credential that was refused is replaced by another one.
	up.does(says(whole("401 Unauthorized", "", "")))
	w.post("k-2", `{}`, "Authorization", "Bearer ran-out-1")
	up.does(created)
	if a := w.post("k-2", `{}`, "Authorization", "Bearer renewed-1"); a.status != 201 || replayed(a) {
		t.Errorf("%+v", a)
	}
	one := newWorld(t, up, setup{option: func(o *Options) { o.Scope = "everybody" }})
	one.post("k-1", `{}`, "Authorization", "Bearer old-token-1")
	if a := one.post("k-1", `{}`, "Authorization", "Bearer new-token-2"); a.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%+v", a)
	}
}

func TestKeyAndTokenGoAlong(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{})
	for name, tc := range map[string]struct {
		rule              record.KindRule
		contentType, body string
		want              string // TOKEN stands for it
	}{
		"JSON":                    {record.KindRule{TokenInto: "body.metadata.indoubt"}, "application/json", `{"b":9007199254740993,"metadata":{"order":"7"}}`, `{"b":9007199254740993,"metadata":{"order":"7","indoubt":"TOKEN"}}`},
		"JSON, as it is written":  {record.KindRule{TokenInto: "body.ref"}, "application/json", " {\"b\": 1.0,\n \"a\": \"\\u003c\"} ", " {\"b\": 1.0,\n \"a\": \"\\u003c\",\"ref\":\"TOKEN\"} "},
		"JSON as curl -d sends":   {record.KindRule{TokenInto: "body.ref"}, "application/x-www-form-urlencoded", `{"order":"a=b&c=d"}`, `{"order":"a=b&c=d","ref":"TOKEN"}`},
		"JSON as fetch sends":     {record.KindRule{TokenInto: "body.ref"}, "text/plain;charset=UTF-8", `{"a":1}`, `{"a":1,"ref":"TOKEN"}`},
		"JSON, the place taken":   {record.KindRule{TokenInto: "body.ref"}, "application/json", `{"ref":"mine"}`, `{"ref":"mine"}`},
		"JSON, no such object":    {record.KindRule{TokenInto: "metadata.indoubt"}, "application/vnd.api+json; charset=utf-8", `{"a":1}`, `{"a":1,"metadata":{"indoubt":"TOKEN"}}`},
		"JSON, a list":            {record.KindRule{TokenAppend: "body.items[0].notes"}, "application/json", `{"items":[{"notes":["x"]}]}`, `{"items":[{"notes":["x","TOKEN"]}]}`},
		"form":                    {record.KindRule{TokenInto: "body.metadata.indoubt"}, "application/x-www-form-urlencoded", `amount=4200&metadata[order]=a%20b`, `amount=4200&metadata[order]=a%20b&metadata%5Bindoubt%5D=TOKEN`},
		"form that has it":        {record.KindRule{TokenInto: "note"}, "application/x-www-form-urlencoded", `note=x&amount=1`, `note=x&amount=1`},
		"form, flags in it":       {record.KindRule{TokenInto: "body.ref"}, "application/x-www-form-urlencoded", `a=1&dry&b=x y`, `a=1&dry&b=x y&ref=TOKEN`},
		"XML as curl -d sends":    {record.KindRule{TokenInto: "body.ref"}, "application/x-www-form-urlencoded", `<pay a="1">&amp;</pay>`, `<pay a="1">&amp;</pay>`},
		"a word as curl -d sends": {record.KindRule{TokenInto: "body.ref"}, "application/x-www-form-urlencoded", `start`, `start`},
		"multipart": {record.KindRule{TokenInto: "body.metadata.ref"}, "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\x00--b-\r\n--b--\r\n",
			"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\x00--b-\r\n--b--\r\n"},
		"form, a list":            {record.KindRule{TokenAppend: "tags"}, "application/x-www-form-urlencoded", `tags[]=a`, `tags[]=a&tags%5B%5D=TOKEN`},
		"no place in a text":      {record.KindRule{TokenInto: "body.x"}, "text/plain", `hello`, `hello`},
		"no place in a list":      {record.KindRule{TokenInto: "body.x"}, "application/json", `[1]`, `[1]`},
		"no place in broken JSON": {record.KindRule{TokenInto: "body.x"}, "application/json", `{"a":`, `{"a":`},
		"nothing asked for":       {record.KindRule{}, "application/json", ` {"a": 1}`, ` {"a": 1}`},
	} {
		t.Run(name, func(t *testing.T) {
			tc.rule.KeyHeader, tc.rule.Remembers = "X-Request-Id", time.Hour
			w.mu.Lock()
			w.rule = tc.rule
			w.mu.Unlock()
			rec := w.about(w.post("", tc.body, "Content-Type", tc.contentType))
			req, got := up.last()
			if want := strings.ReplaceAll(tc.want, "TOKEN", rec.Operation.Token); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if sent := strings.Contains(tc.want, "TOKEN"); rec.Attempts[0].TokenSent != sent || strings.Contains(string(rec.Operation.Input), rec.Operation.Token) {
				t.Errorf("sent %v, recorded %v, input %s", sent, rec.Attempts[0].TokenSent, rec.Operation.Input)
			}
			if req.Header.Get("X-Request-Id") != rec.Operation.KeyToSend() || !rec.Attempts[0].KeyWorks {
				t.Errorf("%v %+v", req.Header, rec.Attempts[0])
			}
		})
	}
	w.rule = record.KindRule{TokenInto: "query.ref"}
	rec := w.about(w.do("PUT", "/charges?b=%7e&a=1", "", `{}`))
	if req, _ := up.last(); req.URL.RawQuery != "b=%7e&a=1&ref="+rec.Operation.Token || !rec.Attempts[0].TokenSent {
		t.Errorf("%s %+v", req.URL.RawQuery, rec.Attempts[0])
	}
	w.rule = record.KindRule{TokenInto: "body.ref"}
	for _, seal := range [][2]string{{"Content-Md5", "Q2hlY2sgSW50ZWdyaXR5IQ=="}, {"Content-Digest", "sha-256=:x:"}, {"Signature", "sig1=:x:"}, {"Authorization", "AWS4-HMAC-SHA256 Credential=a"}} {
		rec := w.about(w.post("", `{"sealed":"`+seal[0]+`"}`, seal[0], seal[1]))
		if _, body := up.last(); body != `{"sealed":"`+seal[0]+`"}` || rec.Attempts[0].TokenSent {
			t.Errorf("%s: a body with a digest or a signature arrived as %s", seal[0], body)
		}
	}
	w.rule = record.KindRule{Remembers: time.Hour}
	need.That(t, !w.about(w.post("k", `{}`)).Attempts[0].KeyWorks, "a key that is not sent cannot work")
}

// TestHeadersThatSayWhatIsWritten are part of the request: under the same key, or
// without one, another of them makes another request.
func TestHeadersThatSayWhatIsWritten(t *testing.T) {
	up := newUpstream(t, func(u *upstream, c net.Conn) { u.take(c) }) // in doubt, whatever it is
	w := newWorld(t, up, setup{})
	for i, h := range [][3]string{{"If-Match", `"v1"`, `"v2"`}, {"Content-Range", "bytes 0-9/20", "bytes 10-19/20"}, {"Upload-Offset", "0", "10"}, {"Destination", "/b", "/c"},
		{"X-Amz-Target", "DynamoDB_20120810.PutItem", "DynamoDB_20120810.DeleteItem"}, {"X-Amz-Copy-Source", "/b/1", "/b/2"}} {
		path, key := fmt.Sprintf("/%d", i), fmt.Sprintf("k-%d", i)
		w.do("POST", path, "", "0000", h[0], h[1])
		if a := w.do("POST", path, "", "0000", h[0], h[1]); a.status != 409 || a.problem(t).Code != "in_doubt" {
			t.Errorf("%s: the same again: %+v", h[0], a)
		}
		if a := w.do("POST", path, "", "0000", h[0], h[2]); a.status != 502 || a.problem(t).Code != "outcome_unknown" {
			t.Errorf("%s: another: %+v", h[0], a)
		}
		path += "/keyed"
		w.do("POST", path, key, "0000", h[0], h[1])
		if a := w.do("POST", path, key, "0000", h[0], h[2]); a.status != 422 {
			t.Errorf("%s: another under the same key: %+v", h[0], a)
		}
		if o := w.about(w.do("POST", path, key, "0000", h[0], h[1])).Operation; !strings.Contains(string(o.Input), `"headers":{"`+strings.ToLower(h[0])+`":`) {
			t.Errorf("%s is not in the input: %s", h[0], o.Input)
		}
	}
}

func TestInputOfARequest(t *testing.T) {
	w := newWorld(t, newUpstream(t, created), setup{})
	for name, tc := range map[string]struct{ contentType, path, body, want string }{
		"JSON":      {"application/json", "/a%2Fb?x=1&y=2&y=3", ` {"n": 9007199254740993} `, `{"method":"POST","path":"/a%2Fb","query":{"x":"1","y":["2","3"]},"content_type":"application/json","body":{"n":9007199254740993}}`},
		"no JSON":   {"application/json", "/", `{"n":`, `{"method":"POST","path":"/","content_type":"application/json","body":"{\"n\":"}`},
		"form":      {"application/x-www-form-urlencoded; charset=utf-8", "/", `a=1&m[x]=2&m[y]=3&l[]=4&l[]=5`, `{"method":"POST","path":"/","content_type":"application/x-www-form-urlencoded; charset=utf-8","body":{"a":"1","m":{"x":"2","y":"3"},"l":["4","5"]}}`},
		"odd form":  {"application/x-www-form-urlencoded", "/", `a=1&a[b]=2`, `{"method":"POST","path":"/","content_type":"application/x-www-form-urlencoded","body":{"a":"1","a[b]":"2"}}`},
		"text":      {"text/plain", "/?%zz", `hello`, `{"method":"POST","path":"/","query":"%zz","content_type":"text/plain","body":"hello"}`},
		"bytes":     {"application/octet-stream", "/", "\xff\x00", `{"method":"POST","path":"/","content_type":"application/octet-stream","body":{"base64":"/wA="}}`},
		"nothing":   {"application/json", "/", "", `{"method":"POST","path":"/","content_type":"application/json"}`},
		"a file":    {"multipart/form-data; boundary=one", "/", "--one\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--one\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x.bin\"\r\nContent-Type: text/plain\r\n\r\nhello\r\n--one--\r\n", `{"method":"POST","path":"/","content_type":"multipart/form-data","body":[{"name":"a","value":"1"},{"bytes":5,"content_type":"text/plain","filename":"x.bin","name":"f","sha256":"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"}]}`},
		"very long": {"application/json", "/", `"` + strings.Repeat("a", 300<<10) + `"`, `{"method":"POST","path":"/","content_type":"application/json","body":{"content_sha256":""}}`},
	} {
		t.Run(name, func(t *testing.T) {
			a := w.do("POST", tc.path, `"`+name+`"`, tc.body, "Content-Type", tc.contentType)
			got := string(w.about(a).Operation.Input)
			if name == "very long" {
				got, tc.want = got[:strings.Index(got, `sha256":"`)], tc.want[:strings.Index(tc.want, `sha256":"`)]
			}
			same, err := ledger.Fingerprint([]byte(strings.TrimSuffix(tc.want, `"`)))
			theirs, err2 := ledger.Fingerprint([]byte(strings.TrimSuffix(got, `"`)))
			need.That(t, a.status == 201 && (got == tc.want || err == nil && err2 == nil && same == theirs), "got  %s\nwant %s", got, tc.want)
		})
	}
}

// I1: what is told by what it says is the same in another spelling, however long it is: clients
// make the boundary of parts, the order of members and the compression anew at each try.
func TestI1_TheSameBodyInAnotherSpelling(t *testing.T) {
	long := strings.Repeat("a", 300<<10)
	packed := func(text string, at time.Time) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		w.ModTime = at
		_, err := io.WriteString(w, text)
		need.OK(t, errors.Join(err, w.Close()))
		return b.String()
	}
	parts := func(boundary, content string) string {
		return "--" + boundary + "\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x\"\r\n\r\n" + content + "\r\n--" + boundary + "--\r\n"
	}
	for name, c := range map[string]struct{ kind, first, again, other string }{
		"members": {"application/json", `{"a":1,"b":"` + long + `"}`, `{ "b":"` + long + `","a":1.0}`, `{"a":2,"b":"` + long + `"}`},
		"form":    {"application/x-www-form-urlencoded", "a=1&b=" + long, "b=" + long + "&a=1", "a=2&b=" + long},
		"packed":  {"application/json", packed(`{"b":"`+long+`"}`, time.Unix(1, 0)), packed(`{"b":"`+long+`"}`, time.Unix(9, 0)), packed(`{"b":"`+long+`!"}`, time.Unix(1, 0))},
		"upload":  {"multipart/form-data; boundary=", parts("one", long), parts("two", long), parts("one", long+"!")},
		"related": {"multipart/related; boundary=", parts("one", "{}"), parts("two", "{}"), parts("one", "[]")},
	} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, created)
			w := newWorld(t, up, setup{})
			send := func(body, boundary string) told {
				headers := []string{"Content-Type", c.kind}
				if strings.HasSuffix(c.kind, "=") {
					headers[1] += boundary
				}
				if name == "packed" {
					headers = append(headers, "Content-Encoding", "gzip")
				}
				return w.do("POST", "/a", `"k-1"`, body, headers...)
			}
			need.Equal(t, send(c.first, "one").status, 201)
			need.Equal(t, send(c.again, "two").header.Get("Idempotency-Replayed"), "true", "in another spelling")
			need.That(t, send(c.other, "one").status == 422 && up.total() == 1, "another one under its key")
		})
	}
}

// I4: what a body is called says nothing of what is asked: another release of a client, or
// another client, names its JSON otherwise.
func TestI4_TheSameBodyUnderAnotherName(t *testing.T) {
	for name, keys := range map[string][2]string{"no key": {}, "two keys": {"k-1", "k-2"}, "one key": {"k-1", "k-1"}} {
		up := newUpstream(t, says("HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\ncut"))
		w := newWorld(t, up, setup{})
		for i, kind := range []string{"application/json", "application/json; charset=utf-8", ""} {
			a := w.do("POST", "/a", keys[min(i, 1)], `{"a":1}`, "Content-Type", kind)
			need.That(t, up.total() == 1 && (i == 0 || a.problem(t).Code == "in_doubt"), "%s, %q: %d %s", name, kind, a.status, a.body)
		}
	}
}

func TestI11_SecretsAreNotStored(t *testing.T) {
	up := newUpstream(t, says(whole("200 OK", "Content-Type: application/json\r\nSet-Cookie: sid=answer-cookie-secret\r\n", `{"id":"1","access_token":"answer-token-secret"}`)))
	w := newWorld(t, up, setup{file: true})
	send := func() told {
		return w.do("POST", "/charges?api_key=query-secret", "k-1", `{"password":"body-secret"}`, "Authorization", "Bearer header-secret", "Cookie", "sid=cookie-secret")
	}
	if a := send(); a.status != 200 || !strings.Contains(a.body, "answer-token-secret") {
		t.Errorf("%+v", a)
	}
	// What was taken out cannot be said again, so it is not.
	if a := send(); a.status != 409 || a.problem(t).Code != "finished" || up.total() != 1 {
		t.Errorf("%+v", a)
	}
	req, body := up.last()
	if req.Header.Get("Authorization") != "Bearer header-secret" || !strings.Contains(body, "body-secret") || req.URL.RawQuery != "api_key=query-secret" {
		t.Errorf("the upstream did not get what was sent: %v %s", req.Header, body)
	}
	w.store.Close()
	for _, suffix := range []string{"", "-wal"} {
		file, err := os.ReadFile(w.path + suffix)
		need.Must(t, err == nil || suffix != "", "%v", err)
		for _, secret := range []string{"query", "body", "header", "cookie", "answer-token", "answer-cookie"} {
			need.That(t, !bytes.Contains(file, []byte(secret+"-secret")), "%s-secret is in the ledger%s", secret, suffix)
		}
	}
	for _, r := range w.reports {
		need.That(t, !strings.Contains(fmt.Sprint(r), "secret"), "%+v", r)
	}
}

// TestI11_SecretsInOddPlaces: a secret that is not a plain member of a JSON object
// is not stored either.
func TestI11_SecretsInOddPlaces(t *testing.T) {
	up := newUpstream(t, says(whole("200 OK", "Content-Encoding: gzip\r\nContent-Type: application/json\r\n", gzipped(`{"effect":"created","password":"answer-secret"}`))))
	w := newWorld(t, up, setup{})
	for name, tc := range map[string]struct{ contentType, path, body string }{
		"multipart":         {"multipart/form-data; boundary=one", "/", "--one\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\nbody-secret\r\n--one--\r\n"},
		"a repeated field":  {"application/x-www-form-urlencoded", "/", "password=a&password=body-secret"},
		"an odd field":      {"application/x-www-form-urlencoded", "/", "a=1&a[b]=2&user[password]=body-secret"},
		"repeated members":  {"application/json", "/", `{"password":"body-secret","password":""}`},
		"compressed":        {"application/json", "/", gzipped(`{"password":"body-secret"}`)},
		"badly compressed":  {"application/json", "/", gzipped(`{"password":"body-secret"}`) + "x"},
		"a query parameter": {"application/json", "/?token=query-secret&X-Amz-Signature=sig-secret", `{}`},
		"an odd parameter":  {"application/json", "/?a.b[token]=query-secret&q=1", `{}`},
		"an odd query":      {"application/json", "/?token=query-secret;x=%zz", `{}`},
		"a long path":       {"application/json", "/" + strings.Repeat("a", 20000), `{}`},
		"a path":            {"application/json", "/bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw-secret/send", `{}`},
	} {
		body := tc.body
		header := []string{"Content-Type", tc.contentType}
		if strings.Contains(name, "compressed") {
			header = append(header, "Content-Encoding", "gzip")
		}
		a := w.do("POST", tc.path, "", body, header...)
		if req, got := up.last(); a.status != 200 || got != body || req.RequestURI != tc.path {
			t.Errorf("%s: %d, the upstream got %s %q", name, a.status, req.RequestURI, got)
		}
		rec := w.about(a)
		kept := fmt.Sprintf("%s %s %s %s", rec.Operation.Input, rec.Operation.Result, rec.Attempts[0].Result, rec.Attempts[0].Error)
		need.That(t, !strings.Contains(kept, "-secret") && !strings.Contains(kept, "H4sI"), "%s: kept %s", name, kept)
	}
	for _, r := range w.reports {
		if said := fmt.Sprint(r); strings.Contains(said, "secret") || len(said) > 1000 {
			t.Errorf("%.300s", said)
		}
	}
}

func gzipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(s))
	_ = z.Close()
	return b.String()
}

// TestCompressedBodies: they are recorded as what they say, and neither a token nor
// anything else is put into them.
func TestCompressedBodies(t *testing.T) {
	up := newUpstream(t, says(whole("201 Created", "Content-Encoding: gzip\r\nContent-Type: application/json\r\nEtag: \"1\"\r\n", gzipped(`{"id":"ch_1"}`))))
	w := newWorld(t, up, setup{rule: record.KindRule{TokenInto: "metadata.indoubt"}})
	for contentType, want := range map[string]string{
		"application/json":                  `{"amount":1}`,
		"application/x-www-form-urlencoded": `{"amount":"1"}`,
	} {
		body := map[string]string{"application/json": `{"amount":1}`, "application/x-www-form-urlencoded": "amount=1"}[contentType]
		a := w.do("POST", "/charges", `"`+contentType+`"`, gzipped(body), "Content-Type", contentType, "Content-Encoding", "gzip")
		rec := w.about(a)
		if _, got := up.last(); got != gzipped(body) || rec.Attempts[0].TokenSent {
			t.Errorf("%s: the upstream got %q, token sent %v", contentType, got, rec.Attempts[0].TokenSent)
		}
		if input := string(rec.Operation.Input); !strings.Contains(input, `"body":`+want) {
			t.Errorf("%s: recorded as %s", contentType, input)
		}
		again := w.do("POST", "/charges", `"`+contentType+`"`, gzipped(body), "Content-Type", contentType, "Content-Encoding", "gzip")
		if again.header.Get("Idempotency-Replayed") != "true" || again.body != `{"id":"ch_1"}` || again.header.Get("Content-Encoding") != "" {
			t.Errorf("%s: again %+v", contentType, again)
		}
	}
	// A body that would fill the memory is told by a digest.
	a := w.do("POST", "/charges", "big", gzipped(strings.Repeat("0", 50<<20)), "Content-Encoding", "gzip")
	if input := string(w.about(a).Operation.Input); a.status != 201 || !strings.Contains(input, "sha256") || len(input) > 1000 {
		t.Errorf("%d %.300s", a.status, input)
	}
}

// TestJSONThatIsNoInput: what has no canonical form is passed and recorded as the
// text it is.
func TestJSONThatIsNoInput(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{rule: record.KindRule{TokenInto: "a.b"}})
	for _, body := range []string{`{"a":1,"a":{}}`, `{"n":1e999}`, strings.Repeat("[", 499) + strings.Repeat("]", 499), strings.Repeat("a[x]", 1) + strings.Repeat("[x]", 20000) + "=1"} {
		a := w.do("POST", "/charges", "", body)
		if _, got := up.last(); a.status != 201 || got != body && !strings.Contains(got, `"n":1e999`) {
			t.Errorf("%.40s: %d %.200s, the upstream got %.40s", body, a.status, a.body, got)
		}
	}
	if a := w.do("POST", "/charges", "", "a"+strings.Repeat("[x]", 20000)+"=1", "Content-Type", "application/x-www-form-urlencoded"); a.status != 201 {
		t.Errorf("a deep form: %d %.200s", a.status, a.body)
	}
}

// TestI4_BytesThatAreNoText: JSON has no place for them, and would make one payload of two.
func TestI4_BytesThatAreNoText(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{})
	for i, two := range [][2]string{{"{\"name\":\"M\xfcller\"}", "{\"name\":\"M\xf6ller\"}"}, {`{"name":"\ud83d"}`, `{"name":"\ud83e"}`}, {"name=M%FCller", "name=M%F6ller"}, {"M\xfcller", "M\xf6ller"}} {
		kind, key := []string{"application/json", "application/json", "application/x-www-form-urlencoded", "text/plain"}[i], fmt.Sprint("k-", i)
		first := w.do("POST", "/charges", key, two[0], "Content-Type", kind)
		again := w.do("POST", "/charges", key, two[0], "Content-Type", kind)
		other := w.do("POST", "/charges", key, two[1], "Content-Type", kind)
		need.That(t, first.status == 201 && again.status == 201 && other.status == 422, "%q: %d %d %d %s", two, first.status, again.status, other.status, other.body)
	}
	first, other := w.do("POST", "/charges?name=M%FCller", "q", ""), w.do("POST", "/charges?name=M%F6ller", "q", "")
	need.That(t, first.status == 201 && other.status == 422, "a query: %d %d", first.status, other.status)
	first, other = w.do("POST", "/charges", "h", "", "Slug", "M\xfcller"), w.do("POST", "/charges", "h", "", "Slug", "M\xf6ller")
	need.That(t, first.status == 201 && other.status == 422, "a header: %d %d", first.status, other.status)
}

func TestNothingToReplay(t *testing.T) {
	up := newUpstream(t, func(u *upstream, c net.Conn) { u.take(c) })
	w := newWorld(t, up, setup{})
	w.post("k-1", `{}`)
	o := w.operation("").Operation
	need.Get(ledger.Decide(t.Context(), w.store, ledger.Decision{ChangeID: ledger.NewID(), ID: o.ID, Verb: ledger.VerbConfirm, Version: o.Version,
		Actor: ledger.Actor{Name: "maya", Terminal: true}, Reason: "seen in the dashboard", Receipts: []string{"ch_7"}}))(t)
	a := w.post("k-1", `{}`)
	if p := a.problem(t); a.status != 409 || p.Code != "finished" || p.Receipt != "ch_7" {
		t.Errorf("%d %+v", a.status, p)
	}
}

func TestPolicySaysWhatIsARead(t *testing.T) {
	up := newUpstream(t, created)
	w := newWorld(t, up, setup{rule: record.KindRule{Access: "read"}, kind: func(method, _, path string) (string, bool) { return "search", path == "/search" }})
	w.do("POST", "/search", "", `{}`)
	if len(w.all()) != 0 {
		t.Errorf("%+v", w.all())
	}
	w = newWorld(t, up, setup{rule: record.KindRule{Access: "write"}, kind: func(method, host, path string) (string, bool) {
		return "logout", path == "/logout" && method == "GET" && host == up.l.Addr().String()
	}})
	w.do("GET", "/logout", "", "")
	w.do("GET", "/", "", "")
	if all := w.all(); len(all) != 1 || all[0].Kind != "logout" {
		t.Errorf("%+v", all)
	}
}
