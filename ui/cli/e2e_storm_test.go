//go:build soak

package cli_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"indoubt/ledger/need"
)

// stormKinds: one side remembers keys and replays its answers, the other one does not.
const stormKinds = `
version: 1
defaults: { deadline: 2s }
downstreams:
  keyed: { base: @UP@, key: { header: Idempotency-Key, remembers: 24h, replays: true } }
  plain: { base: @UP@ }
kinds:
  charge: { downstream: keyed, match: [POST /charges], lands_within: 1m, retry: { max: 3, backoff: 5ms..20ms } }
  payout: { downstream: plain, match: [POST /payouts] }
`

// weather is a bank that is killed again and again: what is under way loses its answer,
// whether it has taken effect or not.
type weather struct {
	*httptest.Server
	mu      sync.Mutex
	luck    *rand.Rand
	storms  bool
	effects map[string]int    // by order
	answers map[string]string // by key, of what is remembered
	kills   int
}

func newWeather(t *testing.T, seed uint64) *weather {
	w := &weather{luck: rand.New(rand.NewPCG(seed, 1)), storms: true, effects: map[string]int{}, answers: map[string]string{}}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	return w
}

// kill cuts every connection.
func (w *weather) kill() {
	w.mu.Lock()
	w.kills++
	w.mu.Unlock()
	w.CloseClientConnections()
}

func (w *weather) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var asked struct{ Order string }
	if json.NewDecoder(r.Body).Decode(&asked) != nil {
		panic(http.ErrAbortHandler)
	}
	w.mu.Lock()
	fate := w.luck.IntN(10)
	if !w.storms {
		fate = 9
	}
	key := r.Header.Get("Idempotency-Key")
	answer := w.answers[r.URL.Path+key]
	if answer == "" && fate != 0 {
		w.effects[asked.Order]++
		answer = fmt.Sprintf(`{"id":"of-%s"}`, asked.Order)
		if r.URL.Path == "/charges" {
			w.answers[r.URL.Path+key] = answer
		}
	}
	w.mu.Unlock()
	if fate < 2 {
		panic(http.ErrAbortHandler)
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(rw, answer)
}

// payment is what a client wants, and what it was told in the end.
type payment struct {
	path, key, order string
	said             map[string]any
	status, tries    int
}

// pays is a client with its own repeats: what each try adds for itself differs every time. It
// ends with an answer, or with an operation in doubt.
func (p *payment) pays(proxy func() string, luck *rand.Rand) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	for p.tries = 1; p.tries < 200; p.tries++ {
		req, err := http.NewRequest(http.MethodPost, proxy()+p.path, strings.NewReader(fmt.Sprintf(`{"order":%q,"amount":700}`, p.order)))
		if err != nil {
			return
		}
		hex := fmt.Sprintf("%032x", luck.Uint64())
		for name, value := range map[string]string{"Authorization": "Bearer tok-4815162342", "Content-Type": "application/json", "Idempotency-Key": p.key,
			"User-Agent": "sdk/" + hex[16:20], "X-Request-Id": hex, "Date": time.Now().UTC().Format(http.TimeFormat), "Traceparent": "00-" + hex + "-" + hex[16:] + "-01",
			"X-Stainless-Retry-Count": strconv.Itoa(p.tries - 1), "X-Stainless-Timeout": hex[28:], "X-B3-Spanid": hex[16:], "Sentry-Trace": hex + "-1"} {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		p.said, p.status = nil, 0
		if resp, err := client.Do(req); err == nil {
			text, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err == nil && json.Unmarshal(text, &p.said) == nil {
				p.status = resp.StatusCode
			}
		}
		if p.status == http.StatusCreated || p.said["operation"] != nil && (p.said["code"] == "in_doubt" || p.said["code"] == "outcome_unknown") {
			return
		}
		time.Sleep(time.Duration(10+luck.IntN(40)) * time.Millisecond)
	}
}

// I3, I4, I10: payments go through two proxies that are killed again and again, to a bank
// that is, too. None is wrong, none is made twice, none is lost; each client, by its own
// repeats, ends with the answer of its operation, or with its id and "in doubt".
// INDOUBT_TEST_STORM says how many payments: 1000 were promised.
func TestI4_E2E_AStormOfPayments(t *testing.T) {
	many := need.Get(strconv.Atoi(cmp.Or(os.Getenv("INDOUBT_TEST_STORM"), "60")))(t)
	seed := rand.Uint64()
	s, bank := bareSite(t), newWeather(t, seed)
	s.writePolicy(strings.ReplaceAll(stormKinds, "@UP@", bank.URL))
	var proxies [2]*httpProxy
	var at [2]atomic.Value
	start := func(i int) {
		proxies[i] = startHTTP(t, s.dir, bank.URL, "--ledger", s.ledger, "--policy", s.policy)
		at[i].Store(proxies[i].url)
	}
	start(0)
	start(1)
	todo, payments := make(chan *payment), make([]*payment, many)
	var clients sync.WaitGroup
	for c := range 12 {
		luck := rand.New(rand.NewPCG(seed, 100+uint64(c)))
		clients.Go(func() {
			for p := range todo {
				p.pays(func() string { return at[luck.IntN(2)].Load().(string) }, luck)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		for i := range payments {
			payments[i] = &payment{order: fmt.Sprint("order-", i), path: []string{"/charges", "/payouts", "/payouts"}[i%3]}
			if i%3 < 2 {
				payments[i].key = fmt.Sprint("key-", i)
			}
			todo <- payments[i]
		}
		close(todo)
		clients.Wait()
		close(done)
	}()
	kills := 0
	for luck, on := rand.New(rand.NewPCG(seed, 2)), true; on; {
		select {
		case <-done:
			on = false
		case <-time.After(time.Duration(100+luck.IntN(400)) * time.Millisecond):
			if bank.kill(); kills < max(4, many/20) { // each client gets to its end
				i := kills % 2
				_ = proxies[i].cmd.Process.Kill()
				<-proxies[i].done
				start(i)
				kills++
			}
		}
	}
	s.weathered(seed, bank, payments, kills)
}

// weathered compares what the clients were told, and what the ledger says, with what
// happened.
func (s *site) weathered(seed uint64, bank *weather, payments []*payment, kills int) {
	s.Helper()
	states := map[string]string{}
	for _, row := range s.rows(`SELECT id, state, ` + inputSQL + ` ->> '$.body.order', conflict FROM op o`) {
		states[row[0]] = row[1]
		states[row[2]] += row[1] // two operations of one order would be two of them
		need.That(s, row[3] == "", "%s is in conflict: %s", row[2], row[3])
	}
	bank.mu.Lock() // one that was cut off may still be at work
	effects := maps.Clone(bank.effects)
	bank.mu.Unlock()
	wrong, double, lost, tries, ended := 0, 0, 0, 0, map[string]int{}
	for _, p := range payments {
		n, state := effects[p.order], states[p.order]
		tries += p.tries
		id, _ := p.said["operation"].(string)
		switch {
		case n > 1:
			double++
			s.Errorf("%s happened %d times (%+v)", p.order, n, p)
		case state == "committed" && n == 0, state == "failed" && n == 1, state != "committed" && state != "failed" && state != "uncertain":
			wrong++
			s.Errorf("%s is %q, and happened %d times (%+v)", p.order, state, n, p)
		case p.status == http.StatusCreated && n == 1 && state == "committed" && p.said["id"] == "of-"+p.order:
			ended[p.path+" answered"]++
		case id != "" && states[id] == "uncertain" && state == "uncertain":
			ended[p.path+" in doubt"]++
		default:
			lost++
			s.Errorf("%s is %s, happened %d times, and its client was told: %+v", p.order, state, n, p)
		}
	}
	s.Logf("seed %d: %d payments in %d tries, %d kills of a proxy, %d of the bank: %v; %d wrong, %d double, %d lost",
		seed, len(payments), tries, kills, bank.kills, ended, wrong, double, lost)
}
