package drill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest/faults"
	"indoubt/ledger/need"
	"indoubt/policy/transport"
	"indoubt/reconcile/connect"
)

// failing is a downstream with the troubles of tests in its way.
type failing struct {
	*Downstream
	*faults.Way
}

func (d *failing) Meet(troubles ...faults.Trouble) { d.Way.Meet(troubles...) }
func (d *failing) Recover()                        { d.Way.Recover() }

func startFailing(o DownstreamOptions) (*failing, error) {
	way := &faults.Way{Seed: o.Seed, Clock: o.Clock}
	o.Way = way
	down, err := StartDownstream(o)
	if err == nil {
		way.Vanish = down.Stop
	}
	return &failing{down, way}, err
}

func start(t *testing.T, o DownstreamOptions) *failing {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "downstream.db")
	}
	d := need.Get(startFailing(o))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

// answersWithin is how long an answer is waited for: long, but in the soak lane, which has
// faults that give none.
var answersWithin = time.Minute

func send(t *testing.T, d *failing, path, key string, body fields) ledger.Answer {
	t.Helper()
	header := http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer shop"}}
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	return new(connect.HTTP).Send(t.Context(), transport.HTTPRequest{
		Method: http.MethodPost, URL: d.URL() + path, Header: header, Body: encode(body), Limits: transport.Limits{Timeout: answersWithin}})
}

func list(t *testing.T, d *failing, path string, query url.Values) (fields, ledger.Answer) {
	t.Helper()
	a := new(connect.HTTP).Read(t.Context(), transport.HTTPRequest{Method: http.MethodGet, URL: d.URL() + path + "?" + query.Encode(),
		Header: http.Header{"Authorization": {"Bearer shop"}}, Limits: transport.Limits{Timeout: answersWithin}})
	var out fields
	if a.Err == nil {
		json.Unmarshal(a.Body, &out)
	}
	return out, a
}

func charge(token string) fields {
	return fields{"amount": 42000, "currency": "usd", "customer": "cus_9", "metadata": fields{"indoubt": token}}
}

func count(t *testing.T, d *failing, text string) int {
	t.Helper()
	all := d.Effects(text)
	return len(all)
}

type writeFault struct {
	fault   faults.Fault
	effects int
	class   ledger.ErrorClass
	status  int
}

var writeFaults = []writeFault{
	{"", 1, "", 200},
	{faults.CommitAndCut, 1, ledger.ClassReset, 0},
	{faults.CommitAndClose, 1, ledger.ClassEOF, 0},
	{faults.CommitAndHalf, 1, ledger.ClassEOF, 200},
	{faults.CommitAndGateway, 1, "", 502},
	{faults.CommitAndError, 1, "", 500},
	{faults.CommitTwiceAndCut, 2, ledger.ClassReset, 0},
	{faults.CommitAndVanish, 1, ledger.ClassReset, 0},
	{faults.CutBefore, 0, ledger.ClassReset, 0},
	{faults.CloseBefore, 0, ledger.ClassEOF, 0},
	{faults.Refuse, 0, "", 409},
}

func TestFaultsOfWrites(t *testing.T) {
	for _, c := range writeFaults {
		t.Run(string(c.fault), func(t *testing.T) {
			t.Parallel()
			d := start(t, DownstreamOptions{})
			if c.fault != "" {
				d.Meet(faults.Trouble{Fault: c.fault, Status: c.status})
			}
			a := send(t, d, "/v1/payment_intents", "", charge("tok"))
			if !a.Sent || a.Class != c.class || a.Status != c.status {
				t.Errorf("answer: sent %v class %q status %d (%v), want class %q status %d", a.Sent, a.Class, a.Status, a.Err, c.class, c.status)
			}
			if n := count(t, d, "tok"); n != c.effects {
				t.Errorf("%d effects, want %d", n, c.effects)
			}
		})
	}
}

// What its sender cut before the end of the body has not arrived.
func TestHalfARequestIsNone(t *testing.T) {
	d := start(t, DownstreamOptions{})
	conn := need.Get(net.Dial("tcp", strings.TrimPrefix(d.URL(), "http://")))(t)
	fmt.Fprintf(conn, "POST /posts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer shop\r\nContent-Length: 20\r\n\r\n{\"text\":")
	need.OK(t, conn.(*net.TCPConn).CloseWrite())
	io.Copy(io.Discard, conn)
	conn.Close()
	need.Equal(t, len(d.Requests()), 0, "requests")
}

func TestAKeyIsRememberedWithItsAnswer(t *testing.T) {
	d := start(t, DownstreamOptions{})
	d.Meet(faults.Trouble{Fault: faults.CommitAndCut, Times: 1})
	if a := send(t, d, "/v1/payment_intents", "k1", charge("tok")); a.Err == nil {
		t.Fatal("the first answer was not lost")
	}
	a := send(t, d, "/v1/payment_intents", "k1", charge("tok"))
	if a.Status != 200 || http.Header(a.Header).Get("Idempotent-Replayed") != "true" || count(t, d, "tok") != 1 {
		t.Errorf("a repeat under the key: status %d, %d effects, header %v", a.Status, count(t, d, "tok"), a.Header)
	}
	if send(t, d, "/v1/payment_intents", "", charge("tok")); count(t, d, "tok") != 2 {
		t.Error("without a key a duplicate is a second charge")
	}
}

func TestARememberedErrorIsReplayed(t *testing.T) {
	d := start(t, DownstreamOptions{})
	d.Meet(faults.Trouble{Fault: faults.CommitAndError, Times: 1})
	for range 2 {
		need.Equal(t, send(t, d, "/v1/payment_intents", "k1", charge("tok")).Status, 500, "the stored status")
	}
	if n := count(t, d, "tok"); n != 1 {
		t.Errorf("%d effects, want 1", n)
	}
}

func TestListsArePagedByCursor(t *testing.T) {
	d := start(t, DownstreamOptions{})
	for i := range 5 {
		send(t, d, "/v1/payment_intents", "", charge("tok-"+string(rune('a'+i))))
	}
	send(t, d, "/v1/payment_intents", "", fields{"amount": 1, "currency": "usd", "customer": "cus_else"})
	query := url.Values{"customer": {"cus_9"}, "limit": {"2"}}
	var pages, items int
	for more := true; more; pages++ {
		got, a := list(t, d, "/v1/payment_intents", query)
		need.Must(t, a.Status == 200, "page %d: %d %s", pages, a.Status, a.Body)
		data := got["data"].([]any)
		items += len(data)
		more = got["has_more"].(bool)
		query.Set("starting_after", data[len(data)-1].(map[string]any)["id"].(string))
	}
	need.That(t, pages == 3 && items == 5, "%d items on %d pages, want 5 on 3", items, pages)
}

type listFault struct {
	trouble faults.Trouble
	want    func(got fields, a ledger.Answer) bool
}

var hangingLists []listFault

func TestFaultsOfLists(t *testing.T) {
	now := time.Now()
	query := url.Values{"customer": {"cus_9"}}
	cases := append([]listFault{
		{faults.Trouble{Fault: faults.Lag, For: time.Minute}, func(got fields, _ ledger.Answer) bool { return len(got["data"].([]any)) == 0 }},
		{faults.Trouble{Fault: faults.Rename, FromName: "metadata", To: "meta"}, func(_ fields, a ledger.Answer) bool {
			return bytes.Contains(a.Body, []byte(`"meta":{"indoubt"`))
		}},
		{faults.Trouble{Fault: faults.Truncate, Limit: 1}, func(got fields, _ ledger.Answer) bool {
			return len(got["data"].([]any)) == 1 && got["has_more"] == true
		}},
		{faults.Trouble{Fault: faults.Stale}, func(got fields, a ledger.Answer) bool {
			return len(got["data"].([]any)) == 0 && http.Header(a.Header).Get("Age") == "30"
		}},
		{faults.Trouble{Fault: faults.BreakList, Status: 503}, func(_ fields, a ledger.Answer) bool { return a.Status == 503 }},
	}, hangingLists...)
	for _, c := range cases {
		t.Run(string(c.trouble.Fault), func(t *testing.T) {
			t.Parallel()
			d := start(t, DownstreamOptions{Clock: func() time.Time { return now }})
			send(t, d, "/v1/payment_intents", "", charge("tok"))
			send(t, d, "/v1/payment_intents", "", charge("tok2"))
			d.Meet(c.trouble)
			if got, a := list(t, d, "/v1/payment_intents", query); !c.want(got, a) {
				t.Errorf("status %d class %q header %v body %s", a.Status, a.Class, a.Header, a.Body)
			}
			d.Recover()
			if got, _ := list(t, d, "/v1/payment_intents", query); len(got["data"].([]any)) != 2 {
				t.Errorf("after recovery the list shows %v", got)
			}
		})
	}
}

func TestAnotherAccountSeesNothing(t *testing.T) {
	d := start(t, DownstreamOptions{})
	send(t, d, "/v1/payment_intents", "", charge("tok"))
	a := new(connect.HTTP).Read(t.Context(), transport.HTTPRequest{Method: http.MethodGet, URL: d.URL() + "/v1/payment_intents",
		Header: http.Header{"Authorization": {"Bearer another"}}})
	need.That(t, a.Status == 200 && bytes.Contains(a.Body, []byte(`"data":[]`)),
		"another account sees %d %s", a.Status, a.Body)
}

func TestEveryOtherResource(t *testing.T) {
	d := start(t, DownstreamOptions{})
	cases := []struct {
		post  string
		body  fields
		get   string
		query url.Values
		field string
	}{
		{"/posts", fields{"text": "v2.3 is out tok"}, "/posts/search", url.Values{"query": {"tok"}}, "posts"},
		{"/send", fields{"to": "ana@example.com", "subject": "Welcome", "message_id": "tok"}, "/messages", url.Values{"message_id": {"tok"}}, "messages"},
		{"/v1/payouts", fields{"amount": 42000, "destination": "acct_7Kd"}, "/v1/payouts", url.Values{"destination": {"acct_7Kd"}}, "data"},
		{"/deploys", fields{"service": "web", "version": "4.18.2"}, "/deploys", url.Values{"service": {"web"}}, "deploys"},
	}
	for _, c := range cases {
		if a := send(t, d, c.post, "", c.body); a.Status/100 != 2 {
			t.Errorf("POST %s: %d %s", c.post, a.Status, a.Body)
		}
		got, _ := list(t, d, c.get, c.query)
		if items, _ := got[c.field].([]any); len(items) != 1 {
			t.Errorf("GET %s shows %v", c.get, got)
		}
	}
	if a := send(t, d, "/legacy/charge", "", fields{"amount": 1, "customer": "cus_1QX"}); a.Status != 200 || !bytes.Contains(a.Body, []byte(`"ref"`)) {
		t.Errorf("legacy charge: %d %s", a.Status, a.Body)
	}
	need.Equal(t, send(t, d, "/v1/payment_intents", "", fields{"amount": 1, "currency": "usd", "customer": "cus_declined_1"}).Status, 402, "a declined card")
}

// The same seed and the same requests meet the same faults and get the same
// receipts, in whatever order the rest of the world calls.
func TestTheSeedDecides(t *testing.T) {
	run := func(seed uint64, order []string) map[string]string {
		d := start(t, DownstreamOptions{Seed: seed})
		d.Meet(faults.Trouble{Fault: faults.CutBefore, Rate: 0.4})
		for _, token := range order {
			send(t, d, "/v1/payment_intents", token, charge(token))
		}
		met := map[string]string{}
		for _, s := range d.Requests() {
			met[s.Key] = string(s.Fault)
		}
		return met
	}
	forth := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
	back := []string{"j", "i", "h", "g", "f", "e", "d", "c", "b", "a"}
	one, two, other := run(7, forth), run(7, back), run(8, forth)
	cuts, differ := 0, false
	for token, fault := range one {
		need.That(t, fault == two[token], "%s met %q and then %q under one seed", token, fault, two[token])
		if fault != "" {
			cuts++
		}
		differ = differ || fault != other[token]
	}
	need.That(t, cuts != 0 && cuts != len(one) && differ,
		"%d of %d requests were cut; another seed differs: %v", cuts, len(one), differ)
}

func TestAScriptCountsRequests(t *testing.T) {
	d := start(t, DownstreamOptions{})
	d.Meet(faults.Trouble{Fault: faults.Refuse, Status: 503, Match: "tok", Skip: 1, Times: 1})
	var got []int
	for range 3 {
		got = append(got, send(t, d, "/v1/payment_intents", "", charge("tok")).Status)
	}
	need.That(t, got[0] == 200 && got[1] == 503 && got[2] == 200, "answers %v, want 200 503 200", got)
}

func TestItComesBackAtTheSameAddress(t *testing.T) {
	d := start(t, DownstreamOptions{})
	send(t, d, "/v1/payment_intents", "", charge("tok"))
	d.Stop()
	if a := send(t, d, "/v1/payment_intents", "", charge("tok")); a.Sent || a.Err == nil {
		t.Errorf("a stopped downstream: sent %v, %v", a.Sent, a.Err)
	}
	need.OK(t, d.Start())
	if a := send(t, d, "/v1/payment_intents", "", charge("tok")); a.Status != 200 || count(t, d, "tok") != 2 {
		t.Errorf("after coming back: %d, %d effects", a.Status, count(t, d, "tok"))
	}
}

// The books are there for the next one who opens them, but for a line that was cut as it
// was written.
// What a policy states of how late an effect may come must hold of this downstream, on
// however slow a disk: a write whose turn comes too late is not made.
func TestAWriteThatWaitedTooLongIsNotMade(t *testing.T) {
	b := need.Get(openBooks(filepath.Join(t.TempDir(), "books.jsonl")))(t)
	defer b.close()
	late := entry{Effect{ID: "ch_1", Body: []byte(`{}`)}, "key"}
	need.That(t, errors.Is(b.commit(late, time.Now().Add(-time.Nanosecond)), errBusy), "it was made")
	_, known := b.remembered("key")
	need.That(t, !known && len(b.Effects("")) == 0, "something of it is there")
	need.OK(t, b.commit(late, time.Now().Add(time.Hour)))
	need.Equal(t, len(b.Effects("")), 1)
}

func TestTheBooksAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "books")
	d := need.Get(startFailing(DownstreamOptions{Path: path}))(t)
	send(t, d, "/v1/payment_intents", "k1", charge("tok"))
	need.OK(t, d.Close())
	whole := need.Get(os.ReadFile(path))(t)
	need.OK(t, os.WriteFile(path, append(whole, whole[:len(whole)/2]...), 0o600))
	for range 2 {
		d = start(t, DownstreamOptions{Path: path})
		a := send(t, d, "/v1/payment_intents", "k1", charge("tok"))
		need.That(t, http.Header(a.Header).Get("Idempotent-Replayed") == "true" && count(t, d, "tok") == 1, "%d effects, %v", count(t, d, "tok"), a.Header)
		send(t, d, "/posts", "", fields{"text": "one more"})
		need.OK(t, d.Close())
	}
	need.Equal(t, count(t, start(t, DownstreamOptions{Path: path}), "one more"), 2)
}
