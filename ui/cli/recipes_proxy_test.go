package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
	"indoubt/ledger/record/httpproxy"
	"indoubt/ledger/record/roundtrip"
	"indoubt/policy"
	"indoubt/policy/recipes"
	"indoubt/ui/ticket"
)

// provider speaks as much of the recipes' interfaces as their checks ask for. It
// reads off the connection by itself, and keeps what came.
type provider struct {
	t    *testing.T
	l    net.Listener
	mu   sync.Mutex
	next string // what becomes of the next write: ok; landed or dropped, and no answer
	came []arrival
	done []arrival // that took effect, oldest first
}

// arrival is a write as it came over the wire.
type arrival struct {
	method, target string
	header         http.Header
	body           string
	at             time.Time
}

func newProvider(t *testing.T) *provider {
	l := need.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &provider{t: t, l: l, next: "ok"}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

func (p *provider) url() string { return "http://" + p.l.Addr().String() }

func (p *provider) will(next string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = next
}

func (p *provider) last() arrival {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.came[len(p.came)-1]
}

func (p *provider) counts() (came, done int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.came), len(p.done)
}

func (p *provider) serve(c net.Conn) {
	defer c.Close()
	for in := bufio.NewReader(c); ; {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		p.mu.Lock()
		answer := p.answer(req, string(body))
		p.mu.Unlock()
		if answer == nil {
			return
		}
		rec := httptest.NewRecorder()
		answer(rec)
		resp := rec.Result()
		resp.ContentLength = int64(rec.Body.Len())
		if resp.Write(c) != nil || req.Close {
			return
		}
	}
}

// answer is what is said to a request, nil for nothing.
func (p *provider) answer(req *http.Request, body string) func(http.ResponseWriter) {
	if req.Method == http.MethodGet {
		return func(w http.ResponseWriter) { p.list(w, req.URL) }
	}
	write := arrival{req.Method, req.RequestURI, req.Header, body, time.Now()}
	p.came = append(p.came, write)
	if p.next != "dropped" {
		p.done = append(p.done, write)
	}
	if p.next != "ok" {
		return nil
	}
	n := len(p.done)
	return func(w http.ResponseWriter) {
		switch path := req.URL.Path; {
		case strings.HasSuffix(path, "chat.postMessage"):
			fmt.Fprintf(w, `{"ok":true,"channel":"C1","ts":"1.%d"}`, n)
		case strings.HasSuffix(path, "mail/send"):
			w.Header().Set("X-Message-Id", fmt.Sprintf("m%d", n))
			w.WriteHeader(http.StatusAccepted)
		case strings.HasSuffix(path, "tweets"):
			fmt.Fprintf(w, `{"data":{"id":"%d"}}`, n)
		default:
			fmt.Fprintf(w, `{"id":"id_%d"}`, n)
		}
	}
}

// list shows what took effect, as each provider does.
func (p *provider) list(w http.ResponseWriter, asked *url.URL) {
	var rows []map[string]any
	for i, e := range p.done {
		fields := fieldsOf(e)
		row := map[string]any{"id": fmt.Sprintf("id_%d", i+1), "ts": fmt.Sprintf("1.%d", i+1), "msg_id": fmt.Sprintf("m%d.x", i+1), "text": fields["text"],
			"status": "succeeded", "currency": fields["currency"], "metadata": fields["metadata"]}
		if n, err := strconv.Atoi(fmt.Sprint(fields["amount"])); err == nil {
			row["amount"] = n
		}
		if search := asked.Query().Get("query"); search == "" || strings.Contains(search, fmt.Sprintf("%q", fmt.Sprint(custom(fields)))) {
			rows = append([]map[string]any{row}, rows...)
		}
	}
	page := map[string]any{"object": "list", "has_more": false, "ok": true, "data": rows, "messages": rows, "meta": map[string]any{}}
	if rows == nil {
		page["data"], page["messages"] = []any{}, []any{}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(page)
}

func custom(fields map[string]any) any {
	args, _ := fields["custom_args"].(map[string]any)
	return args["indoubt"]
}

// fieldsOf are the fields of a write: of JSON, or of a form whose names nest.
func fieldsOf(e arrival) map[string]any {
	out := map[string]any{}
	if json.Unmarshal([]byte(e.body), &out) == nil {
		return out
	}
	form, _ := url.ParseQuery(e.body)
	for name, values := range form {
		if outer, inner, nested := strings.Cut(strings.TrimSuffix(name, "]"), "["); nested {
			if out[outer] == nil {
				out[outer] = map[string]any{}
			}
			out[outer].(map[string]any)[inner] = values[0]
			continue
		}
		out[name] = values[0]
	}
	return out
}

// matchCase is one kind that the HTTP proxy records, and a request of a client's
// that is of it.
type matchCase struct {
	recipe, kind string // "" is the example
	host         string
	path         string
	contentType  string
	body         string // N is another in every write
	lost         ledger.Verdict
	notThere     bool // that it did not land can be told
}

var matchCases = []matchCase{
	{"", "stripe.charge", "api.stripe.com", "/v1/payment_intents", "application/json", "{\"customer\": \"cus_7\",\r\n \"amount\": 420N, \"currency\":\"usd\", \"invoice\":\"INV-N\"}", ledger.Landed, true},
	{"stripe", "stripe.charge", "api.stripe.com", "/v1/payment_intents?expand[]=%63ustomer", "application/x-www-form-urlencoded", "currency=usd&customer=cus%5F7&amount=420N&metadata[order]=7%207N&confirm=true", ledger.Landed, true},
	{"stripe", "stripe.refund", "api.stripe.com", "/v1/refunds", "application/x-www-form-urlencoded", "payment_intent=pi_1&amount=420N&", ledger.Landed, true},
	{"slack", "slack.message", "slack.com", "/api/chat.postMessage", "application/json; charset=utf-8", "{ \"channel\": \"C1\", \"text\": \"R&D <N>\" , \"unfurl_links\":false}\n", ledger.Landed, false},
	{"sendgrid", "sendgrid.mail", "api.sendgrid.com", "/v3/mail/send", "application/json", `{"subject":"Your invoice N","personalizations":[{"to":[{"email":"a@example.com"}]}],"from":{"email":"b@example.com"}}`, ledger.Landed, false},
	{"x", "x.post", "api.x.com", "/2/tweets", "application/json", `{"text":"We are back, N."}`, ledger.CannotTell, false},
}

// Every kind with a match: goes through the proxy: what landed and lost its answer
// is found where the kind can tell; what did not land is sent again, as the very
// request that was recorded.
func TestI2_KindsBehindTheProxyAreCheckedAndSentAgain(t *testing.T) {
	for _, name := range []string{"STRIPE_KEY", "SENDGRID_KEY", "SLACK_TOKEN", "X_TOKEN"} { // as the client has them
		t.Setenv(name, "1234567890")
	}
	tried := map[string]bool{}
	for _, c := range matchCases {
		tried[c.recipe+"/"+c.kind] = true
		t.Run(c.recipe+" "+c.kind, c.play)
	}
	texts := map[string][]byte{"": policy.Example()}
	for _, name := range recipes.Names() {
		r, _ := recipes.Get(name)
		texts[name] = r.Text
	}
	for name, text := range texts {
		p := need.Get(policy.Parse(name+".yaml", text))(t)
		for _, kind := range p.Kinds() {
			need.That(t, len(p.Kind(kind).Match) == 0 || tried[name+"/"+kind], "%s of %q is not driven through the proxy", kind, name)
		}
	}
}

func (c matchCase) play(t *testing.T) {
	b, p := newBench(t), newProvider(t)
	c.policy(b, p)
	client := c.proxy(b, p)

	known := client("0")
	need.Must(t, known.Operation.Kind == c.kind && known.Operation.State == ledger.Committed,
		"%s, %s", known.Operation.Kind, known.Operation.State)
	b.later(time.Minute)

	p.will("landed")
	landed := client("1").Operation
	p.will("ok")
	b.later(time.Minute)
	b.run("check", landed.ID)
	found := map[ledger.Verdict]ledger.State{ledger.Landed: ledger.Committed, ledger.CannotTell: ledger.Uncertain}
	if rec := c.read(b, landed.ID); rec.State() != found[c.lost] {
		t.Errorf("what landed is %s: %s", rec.State(), newest(rec))
	}

	p.will("dropped")
	dropped := client("2").Operation
	first := p.last()
	p.will("ok")
	client("3")                // a check that finds it sees as late as the one that was dropped
	b.run("check", dropped.ID) // too early
	b.later(20 * time.Minute)
	b.run("check", dropped.ID)
	rec := c.read(b, dropped.ID)
	if want := map[bool]ledger.State{true: ledger.Failed, false: ledger.Uncertain}[c.notThere]; rec.State() != want {
		t.Errorf("what did not land is %s, want %s: %s", rec.State(), want, newest(rec))
	}
	came, done := p.counts()
	b.terminal = !c.notThere // without proof it takes a person
	b.typed = ticket.ToType(b.loaded.Kind(c.kind).Advise(rec, b.now).Duplicate) + "\n"
	if out := b.want(0, "retry", fmt.Sprintf("%s@%d", dropped.ID, rec.Operation.Version), "--yes", "--reason", "it is gone"); c.read(b, dropped.ID).Operation.State != ledger.Committed {
		t.Fatalf("the retry left it %s\n%s", c.read(b, dropped.ID).Operation.State, out)
	}
	if nowCame, nowDone := p.counts(); nowCame != came+1 || nowDone != done+1 {
		t.Fatalf("%d writes more, %d effects more", nowCame-came, nowDone-done)
	}
	again := p.last()
	for _, h := range []http.Header{first.header, again.header} {
		for _, name := range []string{"User-Agent", "Accept-Encoding", "Connection", "X-Request-Id"} { // of the way, not of the write
			h.Del(name)
		}
	}
	if again.at = first.at; !reflect.DeepEqual(first, again) {
		t.Errorf("sent again\n%+v\nfor\n%+v", again, first)
	}
	need.Equal(t, strings.Contains(again.body, dropped.Token), (c.kind != "x.post"), "the token of", c.kind, again.body)
}

// policy is the recipe's, or the example, before this provider.
func (c matchCase) policy(b *bench, p *provider) {
	swap := []string{"https://" + c.host, p.url(), "POST " + c.host, "POST 127.0.0.1"}
	if c.recipe == "" {
		b.policy = b.file("example.yaml", strings.NewReplacer(swap...).Replace(string(policy.Example())))
	} else {
		b.recipe(c.recipe, swap...)
	}
	b.kind(c.kind)
}

// proxy stands before the provider; what it gives writes once and waits for the
// outcome.
func (c matchCase) proxy(b *bench, p *provider) func(n string) ledger.Record {
	upstream := need.Get(url.Parse(p.url()))(b)
	rules := b.loaded
	proxy := need.Get(httpproxy.New(httpproxy.Options{Upstream: upstream, Transport: &roundtrip.Transport{
		Kind: func(r *http.Request) string {
			kind, _ := rules.KindFor(r.Method, r.URL.Host, roundtrip.CleanPath(r.URL))
			return kind
		},
		Recorder: record.New(b.open(), numberless(func() *policy.Policy { return rules }), record.Options{Clock: b.clock})}}))(b)
	server := httptest.NewServer(proxy)
	b.Cleanup(server.Close)
	return func(n string) ledger.Record {
		req := need.Get(http.NewRequest("POST", server.URL+c.path, strings.NewReader(strings.ReplaceAll(c.body, "N", n))))(b)
		req.Header.Set("Content-Type", c.contentType)
		req.Header.Set("Authorization", "Bearer 1234567890")
		req.Header.Set("Stripe-Version", "2026-06-30")
		req.Header.Set("X-Request-Id", "r-"+n)
		resp := need.Get(http.DefaultClient.Do(req))(b)
		defer resp.Body.Close()
		said := need.Get(io.ReadAll(resp.Body))(b)
		id := resp.Header.Get(roundtrip.HeaderOperation)
		if id == "" {
			b.Fatalf("%d names no operation: %s", resp.StatusCode, said)
		}
		return c.read(b, id)
	}
}

func (c matchCase) read(b *bench, id string) ledger.Record {
	rec := need.Get(b.open().Read(context.Background(), ledger.Locator{ID: id}))(b)
	return rec
}

// newest is what the newest read says.
func newest(rec ledger.Record) string {
	var last ledger.Read
	for _, r := range rec.Reads {
		if !r.BeganAt.Before(last.BeganAt) {
			last = r
		}
	}
	return fmt.Sprintf("%s, %s", last.Verdict, last.Reason)
}

// The policy's callers also hold for requests of a downstream that no kind matches.
func TestCallersOfWhatNoKindMatches(t *testing.T) {
	p := need.Get(policy.Parse("p", []byte("version: 1\ndownstreams: { shop: { base: \"https://api.shop.example/v1\", callers: [X-Team], same_account: true } }\n")))(t)
	rules := numberless(func() *policy.Policy { return p })
	for kind, want := range map[string]string{"http.api.shop.example.post": "shop X-Team true", "http.shop.example.post": " false", "charge": " false"} {
		r := rules(kind)
		need.Equal(t, fmt.Sprint(strings.Join(append([]string{r.Downstream}, r.Callers...), " "), " ", r.SameAccount), want, kind)
	}
}
