package open

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
	"indoubt/ledger/need"
	"indoubt/ledger/sqlite"
)

// What a person types as the name of a ledger may have a password anywhere. It stands
// neither in the name that is shown nor in an error, and never in an argument.
func TestAPasswordIsNeverShown(t *testing.T) {
	const secret = "hunter2"
	for name, argument := range map[string]bool{ // may it be an argument?
		"postgres://app:hunter2@db.example/payments":                                                   false,
		"postgresql://app:hunter2@db.example:5432/payments?sslmode=require":                            false,
		"postgres://app:hunter2@h1:5432,h2:5432/payments":                                              false,
		"postgres://:hunter2@db/payments":                                                              false,
		"postgres://app@db/payments?password=hunter2":                                                  false,
		"postgres://app@db/payments?PassWord=hunter2":                                                  false,
		"postgres://app@db/payments?p%61ssword=hunter2":                                                false,
		"postgres://app@db/payments?sslpassword=hunter2&sslmode=require":                               false,
		"postgres://app@db/payments?x=1;password=hunter2":                                              false,
		"postgres://app@db/payments#password=hunter2":                                                  false,
		"postgres://app@db/payments?password=%zz&password=hunter2":                                     false,
		"postgres://app:p@hunter2@db/payments":                                                         false,
		"postgres://app:p/hunter2@db/payments":                                                         false,
		"postgres://app:p?hunter2@db/payments":                                                         false,
		"postgres://app:p#hunter2@db/payments":                                                         false,
		"postgres://app:%zzhunter2@db/payments":                                                        false,
		"postgres://app:hunter2 @db/payments":                                                          false,
		"postgres://app:hunter2\n@db/payments":                                                         false,
		"postgres://app%3Ahunter2@db/payments":                                                         false,
		"postgres://app:hunter2@[::1/payments":                                                         false,
		"postgres://db/app:hunter2@db/payments":                                                        false,
		"postgres://app:hunter2@":                                                                      false,
		"postgres:/app:hunter2@db/payments":                                                            false,
		"postgres:app:hunter2@db/payments":                                                             false,
		"POSTGRES://app:hunter2@db/payments":                                                           false,
		"jdbc:postgresql://db/payments?user=app&password=hunter2":                                      false,
		"mysql://app:hunter2@db/payments":                                                              false,
		"host=db user=app password=hunter2":                                                            false,
		"user=app host=/run/postgresql password = 'hunter2'":                                           false,
		" postgres://app:hunter2@db/payments":                                                          false,
		"postgres://app@db.example/payments":                                                           true,
		"postgres://db.example":                                                                        true,
		"postgres://app@h1:5432,h2:5433/payments?target_session_attrs=read-write&passfile=/run/pgpass": true,
		"postgres:///payments?host=/run/postgresql":                                                    true,
		"/srv/payments/ledger.db":                                                                      true,
		"ledger.db":                                                                                    true,
		"a b/host=x/ledger.db":                                                                         true,
	} {
		if err := InArgument(name); (err == nil) != argument {
			t.Errorf("%q as an argument: %v", name, err)
		} else if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", name, err)
		}
		at, err := At(name)
		if err != nil {
			need.That(t, !strings.Contains(err.Error(), secret), "%q: %v", name, err)
			continue
		}
		need.That(t, !strings.Contains(at.String(), secret), "%q is shown as %s", name, at)
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if _, is := at.(server); !is {
			continue
		}
		_, err1 := at.Open(ctx, Options{})
		_, err2 := at.Create(ctx, Options{})
		_, err3 := at.Make(ctx, Options{Group: "g"})
		_, err4 := at.Backup(ctx, nil, "to", 0)
		for _, err := range []error{err1, err2, err3, err4, at.Adopt(ctx, Options{})} {
			need.That(t, err != nil && !strings.Contains(err.Error(), secret), "%q: %v", name, err)
		}
	}
}

// A store that cannot copy itself says what does.
func TestABackupOfAServerIsPostgreSQLs(t *testing.T) {
	at := need.Get(At("postgres://app@db.example:5433/payments?sslmode=verify-full"))(t)
	var no ledger.Troubled
	if _, err := at.Backup(t.Context(), nil, "/backup", 3); !errors.As(err, &no) || !strings.Contains(no.Trouble(ledger.InFull).Do, "indoubt-dump.timer") {
		t.Fatal(err)
	}
	if _, err := at.Backup(t.Context(), nil, "/backup/it's.dump", 0); !errors.As(err, &no) {
		t.Fatal(err)
	}
	if do := no.Trouble(ledger.InFull).Do; !strings.HasPrefix(do, "pg_dump ") || !strings.Contains(do, `--file='/backup/it'\''s.dump'`) || !strings.Contains(do, "'postgres://app@db.example:5433/payments?sslmode=verify-full'") {
		t.Error(do)
	}
}

// Each error of a file has a word for programs, and what to do, whatever its details.
func TestTheErrorsOfAFileHaveWords(t *testing.T) {
	for _, c := range []struct {
		err  ledger.Troubled
		code string
	}{
		{&sqlite.DamagedError{Path: "/x", Found: "f"}, "damaged"},
		{&sqlite.IOError{Path: "/x", Err: errors.New("e")}, "io_error"},
		{&sqlite.IOError{Path: "/x", Err: &fs.PathError{Op: "open", Path: "/x", Err: syscall.EMFILE}}, "io_error"},
		{&digestkey.Error{Path: "/x", Why: "w"}, "digest_key"},
		{&ledger.SchemaError{Ledger: "/x", Has: 9, Knows: 1}, "other_schema"},
	} {
		told := c.err.Trouble(func(name string) string { return "~" + name })
		need.That(t, told.Code == c.code && told.Do != "" && strings.Contains(told.Message, "~/x") && strings.Contains(c.err.Error(), "/x"), "%T: %+v", c.err, told)
	}
}
