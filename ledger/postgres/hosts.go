package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// primary is a server of an address that takes writes.
type primary struct{ at, server, newest string }

const primaryQuery = `
	SELECT indoubt.home() || pg_postmaster_start_time(), coalesce((SELECT to_char(to_timestamp(at / 1000) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS') FROM indoubt.ev ORDER BY seq DESC LIMIT 1), 'none')
	 WHERE NOT pg_is_in_recovery()`

// primaries are the servers that take writes, of an address that names several. One that
// was taken over from, and came back, is at home, and lacks what was recorded since.
func (a *address) primaries(ctx context.Context) (all []primary) {
	hosts := a.hosts()
	if len(hosts) < 2 {
		return nil
	}
	found := make([]primary, len(hosts))
	var asked sync.WaitGroup
	for i, c := range hosts {
		asked.Go(func() { found[i] = asPrimary(ctx, c) })
	}
	asked.Wait()
	known := map[string]bool{"": true}
	for _, p := range found {
		if !known[p.server] {
			known[p.server], all = true, append(all, p)
		}
	}
	return all
}

// hosts is how each host of the address is reached by itself.
func (a *address) hosts() (all []*pgconn.Config) {
	of := map[string]*pgconn.Config{}
	c := a.alone()
	for _, f := range append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}, c.Fallbacks...) {
		at := hostPort(f.Host, f.Port)
		if one := of[at]; one != nil { // with TLS, and without
			one.Fallbacks = append(one.Fallbacks, f)
			continue
		}
		one := c.Copy()
		one.Host, one.Port, one.TLSConfig, one.Fallbacks, one.ValidateConnect = f.Host, f.Port, f.TLSConfig, nil, nil
		of[at], all = one, append(all, one)
	}
	return all
}

// asPrimary is a server, the zero one where that takes no writes or does not answer.
func asPrimary(ctx context.Context, c *pgconn.Config) (p primary) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := pgconn.ConnectConfig(ctx, c)
	if err != nil {
		return p
	}
	defer conn.Close(ctx)
	answers, err := conn.Exec(ctx, primaryQuery).ReadAll()
	if err != nil || len(answers) != 1 || len(answers[0].Rows) != 1 {
		return p
	}
	row := answers[0].Rows[0]
	return primary{hostPort(c.Host, c.Port), string(row[0]), string(row[1])}
}

// toldOf names them, with the newest change of each.
func toldOf(all []primary) string {
	var each []string
	for _, p := range all {
		each = append(each, fmt.Sprintf("%s (newest change %s UTC)", p.at, p.newest))
	}
	return strings.Join(each, ", ")
}
