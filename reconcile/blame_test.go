package reconcile

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// What is wrong with a question says nothing about whom it is put to: a broken
// query, or a tool that may not be called, closes no door to other kinds.
func TestWrongQuestionsAreNotTheDownstreamsFault(t *testing.T) {
	dir := t.TempDir()
	db := need.Get(sql.Open("sqlite", filepath.Join(dir, "books.db")))(t)
	defer db.Close()
	need.Get(db.Exec(`CREATE TABLE charges (id INTEGER PRIMARY KEY, token TEXT NOT NULL, amount INTEGER NOT NULL)`))(t)
	w := newWorld(t, payPolicy)
	text := fmt.Sprintf(connectedPolicy, filepath.Join(dir, "books.db"), os.Args[0], filepath.Join(dir, "notes"))
	w.policy(strings.NewReplacer("mcp.notes.add:", "note:", // a check by the write's own tool is refused earlier
		"FROM charges WHERE", "FROM gone WHERE", "tool: find", "tool: add").Replace(text))
	defer w.engine.Close()
	for kind, says := range map[string]string{"book": "no such table", "note": "not declared read-only"} {
		o := w.doubt(kind, 420)
		var r ledger.Read
		for range tripAfter + 2 {
			r = w.read(o.ID).Read
		}
		need.That(t, strings.Contains(r.Reason, says) && !strings.Contains(r.Reason, "eof"), "%s: %s", kind, r.Reason)
	}
	for _, h := range w.engine.Health() {
		need.Equal(t, h.State, StateNew, h.Downstream, h.Why)
	}
}

// A breaker that opens again after a failed probe says until when.
func TestBreakerThatOpensAgainSaysUntilWhen(t *testing.T) {
	inABubble(t, payPolicy, func(t *testing.T, w *world) {
		w.engine.downs.probe = 3 * time.Second // well beyond the time of a read
		w.side.onList = answer(500, nil, ``)
		o := w.doubt("pay", 420)
		for range tripAfter {
			w.read(o.ID)
		}
		d := w.engine.downs.of(w.inForce().Kind("pay"))
		for range 3 {
			eventually(t, "a probe is allowed", func() bool { until, _ := d.blocked(); return until.IsZero() })
			w.read(o.ID) // the probe, which fails
			if until, why := d.blocked(); !until.After(w.now()) {
				t.Fatalf("blocked until %s, now %s: %s", until, w.now(), why)
			}
		}
	})
}

func TestPauseThatIsAskedFor(t *testing.T) {
	now := time.Now()
	for _, tc := range []struct {
		status int
		says   string
		wait   time.Duration // 0: none
	}{
		{429, "", softThrottle}, {429, "-5", softThrottle}, {429, "soon", softThrottle}, {429, "NaN", softThrottle},
		{429, "7", 7 * time.Second}, {503, "7", 7 * time.Second}, {403, "7", 7 * time.Second},
		{503, "", 0}, {403, "", 0}, {503, "0", 0}, {200, "7", 0}, {500, "7", 0},
		{429, "1e300", maxRetryAfter}, {429, "Inf", maxRetryAfter}, {503, "Thu, 01 Jan 2099 00:00:00 GMT", maxRetryAfter},
		{503, "Thu, 01 Jan 1970 00:00:00 GMT", 0},
	} {
		until, wanted := retryAfter(ledger.Answer{Status: tc.status, Header: map[string][]string{"Retry-After": {tc.says}}}, now)
		if wanted != (tc.wait > 0) || wanted && until.Sub(now) != tc.wait {
			t.Errorf("%d, Retry-After %q: %s (%t), want %s", tc.status, tc.says, until.Sub(now), wanted, tc.wait)
		}
	}
}
