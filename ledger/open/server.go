package open

import (
	"context"
	"net/url"
	"strings"

	"indoubt/ledger"
)

// server is a ledger in a PostgreSQL database.
type server struct{ address string }

func (s server) String() string {
	u, err := url.Parse(s.address)
	if err != nil {
		return "postgres://…"
	}
	shown := url.URL{Scheme: "postgres", Host: u.Host, Path: u.Path}
	if name := u.User.Username(); name != "" {
		shown.User = url.User(name)
	}
	return shown.String()
}

// secret reports whether the address holds a password.
func (s server) secret() bool {
	u, err := url.Parse(s.address)
	if err != nil {
		return true
	}
	if _, given := u.User.Password(); given {
		return true
	}
	for name := range u.Query() {
		if name = strings.ToLower(name); strings.Contains(name, "passw") && name != "passfile" {
			return true
		}
	}
	return false
}

func (s server) Open(context.Context, Options) (ledger.Store, error) {
	return nil, ledger.Trouble{Code: "usage", Message: "this indoubt keeps its ledger in a SQLite file, not on a PostgreSQL server",
		Do: "give --ledger the path of a file on a local disk"}
}

func (s server) Create(ctx context.Context, o Options) (ledger.Store, error) { return s.Open(ctx, o) }

func (s server) Make(ctx context.Context, o Options, m Making) (ledger.Store, error) {
	if m.Group != "" || m.Home != "" || m.Anew {
		return nil, notAFile("--group, --home and --anew are for a ledger in a file", "roles share this one, and its database is its home")
	}
	return s.Open(ctx, o)
}

func (s server) Adopt(context.Context, Options) error {
	return notAFile("this ledger is not a file that was copied", "its database is its home")
}

func (s server) Declare(context.Context, string, Options) error {
	return notAFile("--home is for a ledger in a file", "the database of this one is its home")
}

func (s server) Backup(_ context.Context, _ ledger.Store, to string) error {
	return notAFile("PostgreSQL copies its own databases", "pg_dump --format=custom --schema='indoubt*' --file="+quoted(to)+" "+quoted(s.String()))
}

func notAFile(what, do string) error { return ledger.Trouble{Code: "no_file", Message: what, Do: do} }

// quoted is a word as a shell takes it.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
