//go:build soak

package postgres

import (
	"errors"
	"regexp"
	"strings"
	"sync"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// Of many processes that make a ledger, one does, and the others find it.
func TestOneProcessMakesTheLedger(t *testing.T) {
	url := pgtest.URL(t)
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			s, err := Create(ctx, url, Options{})
			need.That(t, err == nil, "%v", err)
			if err == nil {
				need.OK(t, s.Close())
			}
		})
	}
	all.Wait()
	need.Equal(t, psql(t, url, `SELECT count(*) FROM indoubt.meta WHERE name IN ('id', 'schema')`), "2")
}

// A database that is not there, or cannot keep every text, is not one to make a ledger in,
// and what helps is not to try the same again.
func TestNoPlaceForALedger(t *testing.T) {
	url := pgtest.URL(t)
	of := func(database string) string {
		return regexp.MustCompile(`/test_\d+`).ReplaceAllString(url, "/"+database)
	}
	t.Cleanup(func() { psql(t, url, `DROP DATABASE latin; DROP DATABASE ascii`) })
	psql(t, url, `CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'; CREATE DATABASE ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'`)
	for database, says := range map[string]string{"latin": "is LATIN1", "ascii": "is SQL_ASCII", "none": "CREATE DATABASE"} {
		_, err := Create(ctx, of(database), Options{})
		missing := (*ledger.MissingError)(nil)
		need.That(t, errors.As(err, &missing), "%v", err)
		said := missing.Trouble(ledger.InFull)
		need.That(t, strings.Contains(said.Error(), says) && !strings.Contains(said.Do, "make one with"), "%v", said)
	}
}
