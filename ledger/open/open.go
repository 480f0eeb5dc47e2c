// Package open opens the ledger that a name stands for. It is the one place that knows
// which stores there are: the address of a PostgreSQL database begins with postgres://,
// everything else is the path of a SQLite file. What is above it asks a Place, and a
// store, for what it can do.
package open

import (
	"context"
	"net/url"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
	"indoubt/ledger/lazyregexp"
	"indoubt/ledger/sqlite"
	"indoubt/ledger/store"
)

// Options are how a ledger is opened.
type Options = store.Options

// BackedUp is what a backup has done.
type BackedUp = sqlite.BackedUp

// Place is where a ledger is, or is to be.
type Place interface {
	// String is the name as it is shown: it never has a password.
	String() string
	// Open opens a ledger that is there. Errors: ledger.Troubled.
	Open(ctx context.Context, o Options) (ledger.Store, error)
	// Create opens it for writers of operations, who may find none yet: a file is made
	// then, a database is not. It refuses one who was given another key than the ledger's,
	// or who lacks the one that lies apart from it.
	Create(ctx context.Context, o Options) (ledger.Store, error)
	// Make makes the ledger that is missing, and opens it.
	Make(ctx context.Context, o Options) (ledger.Store, error)
	// Adopt makes a ledger that is only looked at one of its own.
	Adopt(ctx context.Context, o Options) error
	// Backup copies a ledger that is open to a file, or with keep into a directory, of which so many stay.
	Backup(ctx context.Context, s ledger.Store, to string, keep int) (BackedUp, error)
	// receive has fill write a ledger where none is, which is none before arrive says so.
	receive(ctx context.Context, o Options, id string, fill func(store.Tx) error) error
	arrive(ctx context.Context, o Options, id string) error
}

// Default is the name of the ledger where none is given.
func Default() string { return sqlite.DefaultPath() }

// opened keeps a nil pointer to a store from becoming a store that is not nil.
func opened[S ledger.Store](s S, err error) (ledger.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Open opens the ledger of this name.
func Open(ctx context.Context, name string, o Options) (ledger.Store, error) {
	at, err := At(name)
	if err != nil {
		return nil, err
	}
	return at.Open(ctx, o)
}

// Create opens the ledger of this name for writers of operations.
func Create(ctx context.Context, name string, o Options) (ledger.Store, error) {
	at, err := At(name)
	if err != nil {
		return nil, err
	}
	return at.Create(ctx, o)
}

// At is the place that a name stands for. A name that is no path and cannot be read as an
// address is not repeated in the error: a password may be anywhere in it.
func At(name string) (Place, error) {
	switch {
	case !addressLike.MatchString(name):
		return file{name}, nil
	case !postgresLike.MatchString(name):
		return nil, noAddress
	}
	u, err := url.Parse(name)
	if err != nil || u.Fragment != "" || strings.ContainsAny(u.Path+u.User.Username(), ":@ \t\n") || strings.Contains(u.Host, "@") {
		return nil, noAddress
	}
	if _, err := url.ParseQuery(u.RawQuery); err != nil {
		return nil, noAddress
	}
	return server{name}, nil
}

var (
	// addressLike is everything that was meant as an address, or as the settings of one:
	// a path would be shown as it is.
	addressLike  = lazyregexp.New(`(?i)^[^/]*://|^(jdbc:)?postgres(ql)?:|\bpassword\s*=|^\s*(host|hostaddr|dbname|user|service)\s*=`)
	postgresLike = lazyregexp.New(`^postgres(ql)?://`)
)

var noAddress = ledger.Trouble{Code: "usage", Message: "the name of the ledger is neither a path nor an address that can be read",
	Do: "give a path, or postgres://user@host:5432/database?sslmode=verify-full; " + passwords}

const passwords = "the password comes from PGPASSFILE (~/.pgpass), PGPASSWORD or a service file"

// InArgument refuses the name of a ledger that has a password in it: the arguments of a
// process can be read by every user of its host.
func InArgument(name string) error {
	at, err := At(name)
	if err != nil {
		return err
	}
	if s, ok := at.(server); ok && s.secret() {
		return ledger.Trouble{Code: "usage", Message: "a password in --ledger can be read by every user of this host", Do: "leave it out of the address: " + passwords}
	}
	return nil
}

type keeper interface {
	Database() store.Database
	// KeyApart reports whether its recorders must bring the key.
	KeyApart() bool
	DigestKey(ctx context.Context) ([]byte, error)
}

func hasKey(ctx context.Context, k keeper) (has bool, err error) {
	err = k.Database().View(ctx, func(tx store.Tx) error {
		meta, err := store.Meta(tx)
		has = store.HasKey(meta)
		return err
	})
	return has, err
}

func examineKey(ctx context.Context, k keeper) []ledger.Finding {
	_, err := k.DigestKey(ctx)
	return []ledger.Finding{store.KeyFinding(err)}
}

// Recordable refuses a recorder whose digests would not be those of the others.
func Recordable(ctx context.Context, s ledger.Store, o Options) error {
	k, ok := s.(keeper)
	if !ok || o.KeyFile == "" && !k.KeyApart() {
		return nil
	}
	_, err := k.DigestKey(ctx)
	return err
}

// LacksKey reports whether a key is named and the ledger has none yet.
func LacksKey(ctx context.Context, s ledger.Store, o Options) (bool, error) {
	k, ok := s.(keeper)
	if !ok || o.KeyFile == "" {
		return false, nil
	}
	has, err := hasKey(ctx, k)
	return !has, err
}

// toRecord is a store that was opened for a recorder.
func toRecord(ctx context.Context, s ledger.Store, err error, o Options) (ledger.Store, error) {
	if err == nil {
		if err = Recordable(ctx, s, o); err == nil {
			return s, nil
		}
		s.Close()
	}
	return nil, err
}

// toKeep is a store that was opened to be given its key.
func toKeep(ctx context.Context, s ledger.Store, err error, o Options) (ledger.Store, error) {
	if err == nil && o.KeyFile != "" {
		if _, err = store.Key(ctx, s.(keeper).Database(), digestkey.Named(o.KeyFile), true); err != nil {
			s.Close()
			return nil, err
		}
	}
	return s, err
}

// GiveKey gives a ledger that is there the key of its digests, from the named file or in it, and refuses
// one that is not its own.
func GiveKey(ctx context.Context, at Place, o Options) error {
	s, err := at.Open(ctx, o)
	if s, err = toKeep(ctx, s, err, o); err != nil {
		return err
	}
	return s.Close()
}
