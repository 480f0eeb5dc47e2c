//go:build soak

package cli_test

import (
	"slices"
	"strings"

	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

func init() {
	shipped, atEnd = true, pgtest.Main
	afar = func(s *site) {
		if strings.HasPrefix(s.Name(), inPostgreSQL) {
			s.ledger, s.afar, s.desk = newLedger(s), true, host(s)
		}
	}
	// Where the ledger is on a server, a command runs on a host of its own, as pipelines
	// and engines do, or on the one at which a person works.
	ashore = func(s *site, args []string) []string {
		switch {
		case !s.afar:
			return args
		case args[0] != program || slices.Contains([]string{"run", "begin", "settle", "http", "mcp", "engine"}, args[1]):
			return append(host(s), args...)
		}
		return append(slices.Clone(s.desk), args...)
	}
	server = pgtest.URL
	everyRow = func(s *site) string {
		out, err := pgtest.Psql(s, s.ledger, `SELECT query_to_xml(format('SELECT * FROM %s', c.oid::regclass), true, false, '') FROM pg_class c WHERE c.relnamespace = 'indoubt'::regnamespace AND c.relkind = 'r'`)
		need.OK(s, err)
		return out
	}
	for _, test := range []string{"TestI3_E2E_ManyBeginOneKey", "TestI5_E2E_ManyFetchOneGrant"} {
		crowds[inPostgreSQL+test] = true
	}
}
