//go:build soak

package postgres

import (
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// After a redaction, the samples that the planner keeps have nothing of the text.
func TestRedactedTextIsInNoStatistics(t *testing.T) {
	url := made(t)
	s := keyed(t, url, Options{})
	ask := func(query string) string {
		t.Helper()
		return need.Get(pgtest.Psql(t, url, query))(t)
	}
	const samples = `SELECT string_agg(tablename || '.' || attname, ' ') FROM pg_stats WHERE schemaname LIKE 'indoubt%'
		AND coalesce(most_common_vals::text, '') || coalesce(histogram_bounds::text, '') LIKE '%jane-of-kept%'`
	ledgertest.Redacted(t, s, time.Now(), "") // another one is
	ask("ANALYZE")                            // as the server does after a while
	had := ask(samples)
	need.That(t, strings.Contains(had, "op.mark"), "nothing has a sample before: %s", had)
	rec := need.Get(s.Read(ctx, ledger.Locator{ID: "kept"}))(t)
	need.Get(ledger.Decide(ctx, s, ledger.Decision{ChangeID: "once more", ID: "kept", Version: rec.Operation.Version, Verb: ledger.VerbRedact, Reason: "request 8", Actor: ledger.Actor{Name: "maya"}}))(t)
	_ = need.Get(s.Scrub(ctx))(t)
	need.That(t, !strings.Contains(ask(samples), "."), "it is in pg_stats: %s", ask(samples))
}
