//go:build soak

package open

import (
	"strings"
	"testing"

	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

func init() {
	run = pgtest.Main
	targets["server"] = pgtest.URL
	between = func(t testing.TB) []string { return []string{pgtest.URL(t), pgtest.URL(t)} }
}

// What PostgreSQL would keep otherwise is named, and the ledger is open again.
func TestACopyNamesWhatCannotBeKept(t *testing.T) {
	from := filled(t, 60)
	_, err := rawly(t, from.String()).ExecContext(t.Context(), `INSERT INTO events (id, verb, actor, reason) VALUES ('zero', 'note', 'x', 'a' || char(0) || 'b')`)
	need.OK(t, err)
	_, err = Copy(t.Context(), from, placeOf(t, pgtest.URL(t)), Options{}, CopyOptions{Progress: quiet})
	need.Must(t, err != nil && strings.Contains(err.Error(), "reason") && strings.Contains(err.Error(), "a zero byte"),
		"%v", err)
	s := need.Get(from.Open(t.Context(), Options{}))(t)
	defer s.Close()
	need.OK(t, begins(s, "goes on"))
}
