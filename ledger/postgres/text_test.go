package postgres

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// This file has the rules that need no server.

// No address shows its password, whatever is wrong with it.
func TestAPasswordIsNotShown(t *testing.T) {
	for _, c := range []struct{ address, shown string }{
		{"postgres://maya:s3cr3t@db.example:6432/fleet?sslmode=disable", "postgres://maya@db.example:6432/fleet"},
		{"postgresql://maya@a,b:6000/fleet?password=s3cr3t&sslmode=disable", "postgres://maya@a:5432,b:6000/fleet"},
		{"postgres://maya:s3cr3t@/fleet?host=/run/postgresql", "postgres://maya@/run/postgresql:5432/fleet"},
		{"postgres://maya:x%40s3cr3t@[::1]/fleet?sslmode=disable", "postgres://maya@[::1]:5432/fleet"},
		{"postgres://maya:p@s3cr3t@h/fleet", ""},
		{"postgres://maya:p/s3cr3t@h/fleet", ""},
		{"postgres://maya:12/s3cr3t@h/fleet", ""},
		{"postgres://maya:p#s3cr3t@h/fleet", "postgres://maya@h:5432/fleet"},
		{"postgres://maya:%zzs3cr3t@h/fleet", ""},
		{"postgres://maya:s3cr3t@h:x/fleet", ""},
		{"postgres://maya:s3cr3t@h/fleet?sslmode=nonsense", ""},
		{"postgres://maya:s3cr3t@h/fleet?sslmode=verify-full&sslrootcert=/no/s3cr3t", ""},
		{"postgres://maya:s3cr3t@h/fleet?service=s3cr3t", ""},
		{"postgres://maya:s3cr3t@h/fleet?target_session_attrs=s3cr3t", ""},
		{"maya:s3cr3t@h/fleet", ""},
	} {
		a, err := parse(c.address)
		if err == nil && (a.shown != c.shown || strings.Contains(Shown(c.address), secret)) {
			t.Errorf("%s is shown as %s, %s", c.address, a.shown, Shown(c.address))
		}
		need.That(t, err == nil || c.shown == "", "%s: %v", c.address, err)
		said := fmt.Sprintf("%v %+v %#v", err, err, err)
		if strings.Contains(said, secret) || Shown(c.address) != c.shown && Shown(c.address) != "postgres://…" {
			t.Errorf("%s: %s", c.address, said)
		}
	}
}

// Too many connections are not a lock.
func TestACrowdedServer(t *testing.T) {
	err := translate("here", &pgconn.PgError{Code: codeConnections, Message: "sorry, too many clients already"})
	var said ledger.Troubled
	need.That(t, errors.Is(err, ledger.ErrBusy) && errors.As(err, &said) && said.Trouble(ledger.InFull).Code == "locked" && strings.Contains(err.Error(), "takes no more connections"), "%v", err)
}

// Poolers name the severity in one way only.
func TestAPoolerThatHasLostItsServer(t *testing.T) {
	away := &pgconn.PgError{Severity: "FATAL", Code: codeProtocol, Message: "server login has been failing, try again later"}
	need.That(t, errors.Is(translate("here", away), ledger.ErrLost) && !definite(away), "%v", translate("here", away))
}

// A place says what was seen, and what is not one is refused.
func TestPlaces(t *testing.T) {
	for _, c := range []ledger.Cursor{"0", "7:12:", "7:12:3,11"} {
		p, err := snapshotOf(c)
		if err != nil || p.cursor() != c {
			t.Errorf("%s: %s, %v", c, p.cursor(), err)
		}
	}
	for _, c := range []ledger.Cursor{"x", "-1", "1", "12", "7:12", "7:12:12", "7:12:4,3", "7:012:", "7:12:/1", "7:99999999999999999999:", "7:0:", "7:12:3:", "7:12:3 ", "7:12:'"} {
		if p, err := snapshotOf(c); err == nil {
			t.Errorf("%s is %+v", c, p)
		}
	}
}

// A server is old where another database is known to follow its own, and only there.
func TestSuccession(t *testing.T) {
	var s succession
	for _, c := range []struct {
		told      string
		old, news bool
	}{
		{"a a", false, false},
		{"a b", false, true}, // promoted, and not noted yet
		{"a b b", false, false},
		{"a a", true, false},
		{"a c", false, false}, // restored from before
		{"", false, false},    // no ledger
		{"a b d d", false, true},
		{"a b b", true, false},
		{"a b", true, false}, // a standby that is behind
	} {
		old, news := s.sees(c.told)
		need.That(t, old == c.old && news == c.news, "%q: old %v, news %v", c.told, old, news)
	}
}

// Where something else than PostgreSQL listens, that is said, and not what the driver was told.
func TestSomethingElseListens(t *testing.T) {
	l := need.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		}
	}()
	_, err := Open(ctx, "postgres://maya@"+l.Addr().String()+"/fleet?sslmode=disable", Options{})
	need.That(t, errors.Is(err, ledger.ErrLost) && strings.Contains(err.Error(), "; something else than PostgreSQL listens there") && !strings.Contains(err.Error(), "user="), "%v", err)
}
