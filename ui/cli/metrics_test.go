package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/reconcile"
	"indoubt/ui/cli/base"
)

// someDoubts is a ledger with two operations in doubt, one of them with a kind
// that would break a careless format.
func someDoubts(t *testing.T) (path string, s ledger.Store) {
	t.Helper()
	path = t.TempDir() + "/ledger.db"
	s = need.Get(open.Create(context.Background(), path, open.Options{}))(t)
	t.Cleanup(func() { s.Close() })
	for i, kind := range []string{"pay", "a\"b\\c\nd", "pay"} {
		b := need.Get(ledger.Begin(context.Background(), s, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(),
			Kind: kind, Key: fmt.Sprint("k", i), Token: ledger.NewToken(), Input: []byte(`{}`), TokenSent: true, Deadline: time.Minute,
			Actor: ledger.Actor{Name: "billing", Machine: true}}))(t)
		outcome := ledger.OutcomeUncertain
		if i == 2 {
			outcome = ledger.OutcomeCommitted
		}
		need.Get(ledger.Settle(context.Background(), s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: b.Attempt.ID, Outcome: outcome,
			ErrorClass: ledger.ClassTimeout, Actor: ledger.Actor{Name: "billing", Machine: true}}))(t)
	}
	return path, s
}

var sampleLine = regexp.MustCompile(`^([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)$`)

// parseMetrics reads the text format strictly: help and type before the first
// sample of a family, no sample twice, counters that never go below zero.
func parseMetrics(t *testing.T, text string) map[string]float64 {
	t.Helper()
	out := map[string]float64{}
	types := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			types[name] = kind
			continue
		}
		if strings.HasPrefix(line, "# HELP ") {
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		need.Must(t, m != nil, "not a sample: %q", line)
		v, err := strconv.ParseFloat(m[3], 64)
		id := m[1] + "{" + m[2] + "}"
		if _, twice := out[id]; err != nil || twice || types[m[1]] == "" || v < 0 {
			t.Errorf("%q: %v", line, err)
		}
		if (types[m[1]] == "counter") != strings.HasSuffix(m[1], "_total") {
			t.Errorf("%s is a %s", m[1], types[m[1]])
		}
		out[id] = v
	}
	return out
}

// asksFor are the metrics that a file in reconcile asks for, with the labels of each. The
// file is one that its reader can read.
func asksFor(t *testing.T, name string) map[string][]string {
	text := need.Get(os.ReadFile("../../reconcile/" + name))(t)
	type rule struct{ Alert, Expr string }
	var file struct {
		Groups []struct{ Rules []rule }
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	need.OK(t, yaml.Unmarshal(text, &file))
	asked := map[string][]string{}
	ask := func(who, expr string) {
		found := regexp.MustCompile(`(indoubt_[a-z_]+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(expr, -1)
		need.That(t, who != "" && len(found) != 0, "%s: %q asks for nothing: %s", name, who, expr)
		for _, m := range found {
			asked[m[1]] = append(asked[m[1]], regexp.MustCompile(`[a-z_]+(?:=|!)`).FindAllString(m[2], -1)...)
		}
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			ask(r.Alert, r.Expr)
		}
	}
	for _, p := range file.Panels {
		for _, target := range p.Targets {
			ask(p.Title, target.Expr)
		}
	}
	for metric, labels := range asked {
		for i := range labels {
			asked[metric][i] = strings.TrimRight(labels[i], "=!")
		}
	}
	return asked
}

// No label grows with what is recorded: where each operation has a kind of its own, the largest are named.
func TestTheKindsOfMetricsAreBounded(t *testing.T) {
	old := time.Date(2026, 7, 14, 3, 0, 0, 0, time.UTC)
	states := []ledger.StateCount{{Kind: "other", State: ledger.Pending, Count: 9999, Oldest: old}, {Kind: "pay", State: ledger.Committed, Count: 99}}
	for n := range 1000 {
		states = append(states, ledger.StateCount{Kind: fmt.Sprint("pay ", n), State: ledger.Pending, Count: 1 + n%3, Oldest: old.Add(-time.Duration(n) * time.Second)})
	}
	few, kinds, pending := fewKinds(states), map[string]bool{}, map[string]int{}
	for _, c := range few {
		kinds[c.Kind] = true
		if c.State == ledger.Pending {
			pending["all"] += c.Count
			pending[c.Kind]++
		}
		need.That(t, c.Kind != "other" || c.Oldest.Before(old.Add(-990*time.Second)), "the oldest is %s", c.Oldest)
	}
	need.That(t, len(kinds) == namedKinds && kinds["pay"], "%d kinds", len(kinds))
	need.Equal(t, pending["all"], 9999+1999, "operations")
	need.Equal(t, pending["other"], 1, "samples of one name")
	need.Equal(t, len(fewKinds(states[:namedKinds])), namedKinds)
}

// An outage counts as untaken while something of it needs a person: neither for what is
// being checked nor for what was never sent.
func TestUntakenIsWhatNeedsAPerson(t *testing.T) {
	b := newBench(t)
	untaken := func() float64 {
		t.Helper()
		var out strings.Builder
		need.OK(t, outageMetrics(t.Context(), &exposition{w: &out}, b.open(), b.now))
		return parseMetrics(t, out.String())["indoubt_outages_untaken{}"]
	}
	for n := 1; n <= 10; n++ {
		if n <= 5 {
			b.doubt(n, "stripe.charge", strings.Replace(charge, "INV-1042", "INV-"+id(n)[34:], 1))
			continue
		}
		b.begin(n, "legacy.charge", fmt.Sprintf(`{"customer":"c%d","amount":100}`, n))
		b.settle(n, ledger.SettleRequest{Outcome: ledger.OutcomeFailed, Proof: ledger.NeverSent})
	}
	need.Equal(t, len(need.Get(b.open().Outages(t.Context(), b.now, 9))(t)), 2)
	need.Equal(t, untaken(), 0.0, "checked and never sent")
	b.now = b.now.Add(16 * time.Minute)
	need.Equal(t, untaken(), 1.0, "checked for too long")
	b.want(0, "outage", "take", b.rec(1).Outages[0])
	need.Equal(t, untaken(), 0.0, "taken")
	_, _, err := b.open().Run(t.Context(), ledger.DecisionRun{ID: "run", Verb: "retry", Actor: ledger.Actor{Name: "ann"}, Terms: ledger.RunTerms{Reason: "over"},
		CreatedAt: b.now}, []ledger.RunItem{{OperationID: id(1), Version: 1, Kind: "stripe.charge"}, {N: 1, OperationID: id(2), Version: 1, Kind: "stripe.charge"}})
	need.OK(t, err)
	var out strings.Builder
	need.OK(t, outageMetrics(t.Context(), &exposition{w: &out}, b.open(), b.now))
	need.Equal(t, parseMetrics(t, out.String())[`indoubt_runs{state="broken_off"}`], 1.0, "no one drives it")
}

func TestMetricsAreServedOnLoopback(t *testing.T) {
	path, s := someDoubts(t)
	var errOut bytes.Buffer
	a := base.NewApp(strings.NewReader(""), io.Discard, &errOut)
	a.LedgerPath = path
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	engine := reconcile.New(reconcile.Options{Store: s})
	shown, done, err := serveMetrics(ctx, a, ":0", s, func(ctx context.Context, m *exposition) error {
		return writeMetrics(ctx, m, s, engine, errors.New("line 3"), a.Clock())
	})
	need.Must(t, err == nil && strings.HasPrefix(shown, "http://127.0.0.1:") && errOut.Len() == 0,
		"%s %v %s", shown, err, errOut.String())
	need.Get(engine.Once(ctx, nil))(t)
	resp := need.Get(http.Get(shown))(t)
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	healthy := need.Get(http.Get(strings.Replace(shown, "/metrics", "/healthz", 1)))(t)
	defer healthy.Body.Close()
	need.Equal(t, string(need.Get(io.ReadAll(healthy.Body))(t)), "ok\n")
	got := parseMetrics(t, string(body))
	for id, want := range map[string]float64{
		`indoubt_operations{kind="pay",state="uncertain"}`:        1,
		`indoubt_operations{kind="a\"b\\c\nd",state="uncertain"}`: 1,
		`indoubt_operations{kind="pay",state="committed"}`:        1,
		`indoubt_list{list="all"}`:                                3,
		`indoubt_outages{phase="growing"}`:                        0,
		`indoubt_outage_errors{fate="not_landed"}`:                0,
		`indoubt_runs{state="stopped"}`:                           0,
		`indoubt_duplicates_open{}`:                               0,
		`indoubt_policy_not_taken{}`:                              1,
	} {
		if v, ok := got[id]; !ok || v != want {
			t.Errorf("%s: %v %v in\n%s", id, v, ok, body)
		}
	}
	for _, m := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(string(body), -1) { // each has few values
		need.That(t, slices.Contains([]string{"kind", "state", "list", "phase", "fate", "scope", "begins", "version", "go", "verdict", "outcome", "downstream"}, m[1]),
			"%s is no label whose values are bounded", m[1])
	}
	readme := need.Get(os.ReadFile("../../reconcile/README.md"))(t)
	told := map[string]bool{}
	for _, name := range regexp.MustCompile(`indoubt_[a-z_]+`).FindAllString(string(readme), -1) {
		told[name] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (indoubt_[a-z_]+) `).FindAllStringSubmatch(string(body), -1) {
		if !told[m[1]] {
			t.Errorf("the page does not name %s", m[1])
		}
		delete(told, m[1])
	}
	delete(told, "indoubt_writes_total")                                      // a proxy's
	for _, role := range []string{"writer", "operator", "engine", "reader"} { // of a ledger in PostgreSQL
		delete(told, "indoubt_"+role)
	}
	for name := range told {
		t.Errorf("the page names %s, and there is none", name)
	}
	for _, name := range []string{"alerts.yaml", "dashboard.json"} {
		asked := asksFor(t, name)
		for metric, labels := range asked {
			need.That(t, strings.Contains(string(body), "# TYPE "+metric+" "),
				"%s asks for %s, and there is none", name, metric)
			for _, label := range labels {
				if strings.Contains(string(body), "\n"+metric+"{") && !regexp.MustCompile(`(?m)^`+metric+`\{(?:.*,)?`+label+`="`).Match(body) {
					t.Errorf("%s asks for %s by %s, which it has not", name, metric, label)
				}
			}
		}
		need.That(t, len(asked) >= 7, "%s asks for %d metrics", name, len(asked))
	}
	need.OK(t, s.Close())
	resp = need.Get(http.Get(shown))(t)
	body = need.Get(io.ReadAll(resp.Body))(t)
	resp.Body.Close()
	need.That(t, resp.StatusCode == 200 && strings.Contains(string(body), "\nindoubt_ledger_up 0\n") && !strings.Contains(string(body), "indoubt_list"),
		"the ledger cannot be asked: %d\n%s", resp.StatusCode, body)
	if post, err := http.Post(shown, "text/plain", nil); err != nil || post.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("%v %v", post, err)
	}
	cancel()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	if _, _, err := serveMetrics(context.Background(), a, "nonsense", s); base.AsFailure(err).Exit() != base.ExitUsage {
		t.Errorf("%v", err)
	}
}
