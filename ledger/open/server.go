package open

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/postgres"
	"indoubt/ledger/store"
)

type server struct{ address string }

func (s server) String() string { return postgres.Shown(s.address) }

func (s server) secret() bool {
	u, err := url.Parse(s.address)
	if err != nil {
		return true
	}
	_, given := u.User.Password()
	return given || slices.ContainsFunc(slices.Collect(maps.Keys(u.Query())), func(name string) bool {
		name = strings.ToLower(name)
		return strings.Contains(name, "passw") && name != "passfile"
	})
}

func (s server) Open(ctx context.Context, o Options) (ledger.Store, error) {
	return opened(postgres.Open(ctx, s.address, o))
}

func (s server) Create(ctx context.Context, o Options) (ledger.Store, error) {
	store, err := s.Open(ctx, o)
	return toRecord(ctx, store, err, o)
}

func (s server) Make(ctx context.Context, o Options) (ledger.Store, error) {
	if o.Group != "" || o.Anew {
		return nil, notAFile("--group and --anew are for a ledger in a file", "roles share this one")
	}
	store, err := opened(postgres.Create(ctx, s.address, o))
	return toKeep(ctx, store, err, o)
}

// Roles makes the roles that the database enforces.
func (s server) Roles(ctx context.Context, o Options) error {
	return s.with(ctx, o, func(store *postgres.Store) error { return store.MakeRoles(ctx) })
}

// AcceptStandby has a person say why a standby that forgets what was acknowledged does no harm.
func (s server) AcceptStandby(ctx context.Context, o Options) error {
	return s.with(ctx, o, func(store *postgres.Store) error { return store.AcceptStandby(ctx) })
}

func (s server) Adopt(ctx context.Context, o Options) error {
	return s.with(ctx, o, func(store *postgres.Store) error { return store.Adopt(ctx, o.Actor, o.At) })
}

func (s server) with(ctx context.Context, o Options, use func(*postgres.Store) error) error {
	store, err := postgres.Open(ctx, s.address, o)
	if err != nil {
		return err
	}
	defer store.Close()
	return use(store)
}

func (s server) Backup(_ context.Context, _ ledger.Store, to string, keep int) (BackedUp, error) {
	if keep > 0 {
		return BackedUp{}, notAFile("PostgreSQL copies its own databases: --keep is for a ledger in a file",
			"indoubt-dump.timer keeps some dumps (reconcile/README.md)")
	}
	from := s.String()
	if u, err := url.Parse(s.address); err == nil && u.Query().Get("sslmode") != "" {
		from += "?sslmode=" + u.Query().Get("sslmode")
	}
	return BackedUp{}, notAFile("PostgreSQL copies its own databases; give this as the ledger's owner",
		"pg_dump --format=custom --schema='indoubt*' --file="+ledger.ShellWord(to)+" "+ledger.ShellWord(from))
}

// Examine says how safe a commit is there. s is nil where it cannot be opened.
func (s server) Examine(ctx context.Context, open ledger.Store, _ func(string) string) []ledger.Finding {
	if store, ok := open.(*postgres.Store); ok {
		return append(store.Examine(ctx), examineKey(ctx, store)...)
	}
	return nil
}

func notAFile(what, do string) error { return ledger.Trouble{Code: "no_file", Message: what, Do: do} }

func (s server) receive(ctx context.Context, o Options, id string, fill func(store.Tx) error) error {
	return postgres.Receive(ctx, s.address, o, id, fill)
}

func (s server) arrive(ctx context.Context, o Options, id string) error {
	return postgres.Arrive(ctx, s.address, o, id)
}
