package postgres

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"indoubt/ledger"
)

// What the server ends by itself, so that no lock outlives its holder for long. A
// client that hears nothing for longer gives the connection up.
const (
	lockTimeout      = 5 * time.Second
	statementTimeout = 30 * time.Second
	idleTimeout      = 10 * time.Second
	silence          = statementTimeout + lockTimeout
	connectTimeout   = 5 * time.Second
)

// path is where names are looked for: the tables, and last, where they can hide nothing, the
// temporary tables of the session.
const path = "indoubt, pg_temp"

// address is where a ledger is, and how it is reached.
type address struct {
	name   string // as it was given
	config *pgxpool.Config
	// shown names the ledger to people: who, where and which database. A password, and
	// parameters that may hold one, are left out.
	shown string
	// plain: the sessions are shared with others behind a pooler, so that nothing is
	// left in one, neither settings nor prepared statements.
	plain bool
}

// unread says that an address cannot be read, and nothing of it: it may have its password anywhere.
func unread(why string) error {
	return ledger.Trouble{Code: "usage", Message: "the address of the ledger cannot be read" + why,
		Do: "it is like postgres://user@host:5432/database?sslmode=verify-full, with the password in PGPASSFILE (~/.pgpass) or a service file"}
}

// IsAddress reports whether a ledger's name is the address of a database.
func IsAddress(name string) bool {
	return strings.HasPrefix(name, "postgres://") || strings.HasPrefix(name, "postgresql://")
}

// Shown returns the address as people may see it, without a password.
func Shown(name string) string {
	a, err := parse(name)
	if err != nil {
		return "postgres://…"
	}
	return a.shown
}

// parse reads an address and what libpq's environment adds to it.
func parse(name string) (*address, error) {
	if !IsAddress(name) {
		return nil, unread("")
	}
	config, err := pgxpool.ParseConfig(name)
	if err != nil {
		return nil, withoutAddress(err)
	}
	a := &address{name: name, config: config, shown: shown(&config.ConnConfig.Config)}
	// A password with a sign that has to be written as %40 or %2F goes on in the names
	// behind it.
	if strings.Count(a.shown, "@") != 1 {
		return nil, unread("")
	}
	switch config.ConnConfig.DefaultQueryExecMode {
	case pgx.QueryExecModeCacheStatement: // the default
	default:
		a.plain = true
	}
	c := &config.ConnConfig.Config
	if c.ConnectTimeout <= 0 || c.ConnectTimeout > 4*connectTimeout {
		c.ConnectTimeout = connectTimeout
	}
	// A host that is gone without a word is noticed.
	c.DialFunc = (&net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}}).DialContext
	c.RuntimeParams["client_encoding"] = "UTF8"
	c.RuntimeParams["application_name"] = cmp.Or(c.RuntimeParams["application_name"], "indoubt")
	if !a.plain {
		for _, s := range slices.Concat(settings, plans) {
			c.RuntimeParams[s.name] = s.value
		}
	}
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		a.renew(&c.Config)
		return nil
	}
	// One that is known to be dead is asked, fails, and is replaced.
	config.ShouldPing = func(_ context.Context, p pgxpool.ShouldPingParams) bool {
		return p.IdleDuration > 100*time.Millisecond && dead(p.Conn.PgConn())
	}
	return a, nil
}

// shared has nothing left in a session, neither settings nor statements.
func (a *address) shared() {
	for _, set := range slices.Concat(settings, plans) {
		delete(a.config.ConnConfig.RuntimeParams, set.name)
	}
	a.config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
}

// renew has a connection made with the password and the certificates that lie in the files
// now: a process that lives on outlives them.
func (a *address) renew(c *pgconn.Config) {
	if now, err := pgxpool.ParseConfig(a.name); err == nil {
		fresh := &now.ConnConfig.Config
		c.Password, c.TLSConfig, c.Fallbacks = fresh.Password, fresh.TLSConfig, fresh.Fallbacks
	}
}

// alone is how a connection beside the pool is made.
func (a *address) alone() *pgconn.Config {
	c := a.config.ConnConfig.Config.Copy()
	a.renew(c)
	return c
}

// dead reports whether the server has ended a connection while it was idle. It waits
// for a millisecond; asking the server takes a round trip.
func dead(conn *pgconn.PgConn) bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	_, err := conn.ReceiveMessage(ctx)
	return err != nil && !pgconn.Timeout(err)
}

// settings are those of each session, or, behind a pooler, of each transaction.
var settings = []struct{ name, value string }{
	{"search_path", path},
	{"statement_timeout", milliseconds(statementTimeout)},
	{"lock_timeout", milliseconds(lockTimeout)},
	{"idle_in_transaction_session_timeout", milliseconds(idleTimeout)},
	{"max_parallel_workers_per_gather", "0"}, // to start one takes longer than any look
	// Every query of the ledger has its index. A plan that was made while a table was small would
	// read all of it for as long as it is kept; and where a million are open, the server guesses
	// that a third of them comes.
	{"enable_seqscan", "off"},
	{"jit", "off"},
	// Rows that a policy of others hides are an error, and no all-clear.
	{"row_security", "off"},
	{"extra_float_digits", "1"},        // amounts as they are kept
	{"client_min_messages", "warning"}, // by which a commit tells that a standby may not have it
}

// plans are settings of a session that keeps what it has prepared. No query needs a plan of
// its values, and to make one takes longer than a look.
var plans = []struct{ name, value string }{{"plan_cache_mode", "force_generic_plan"}}

func milliseconds(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

// withoutAddress tells what is wrong with an address where that cannot show a part of
// it: files that are not there.
func withoutAddress(err error) error {
	for _, what := range []string{
		"unable to find service", "failed to read service file", "unable to read CA file", "unable to read sslkey", "unable to read cert",
		"unable to decrypt key", "unable to load cert", "sslmode is invalid", "unknown target_session_attrs value", "invalid port",
		"invalid statement_cache_capacity", "failed to configure TLS",
	} {
		if strings.Contains(err.Error(), what) {
			return unread(" (" + what + ")")
		}
	}
	return unread("")
}

func shown(c *pgconn.Config) string {
	var hosts []string
	add := func(host string, port uint16) {
		at := hostPort(host, port)
		if !slices.Contains(hosts, at) {
			hosts = append(hosts, at)
		}
	}
	add(c.Host, c.Port)
	for _, f := range c.Fallbacks {
		add(f.Host, f.Port)
	}
	return fmt.Sprintf("postgres://%s@%s/%s", c.User, strings.Join(hosts, ","), c.Database)
}

func hostPort(host string, port uint16) string {
	if strings.HasPrefix(host, "/") { // a directory with a socket
		return fmt.Sprintf("%s:%d", host, port)
	}
	return net.JoinHostPort(host, fmt.Sprint(port))
}
