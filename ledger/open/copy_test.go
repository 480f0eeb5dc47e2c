//go:build soak

package open

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
	"indoubt/ledger/tables"
)

func TestMain(m *testing.M) {
	if to := os.Getenv("INDOUBT_TEST_COPY_TO"); to != "" { // a copy that is killed
		from, _ := At(os.Getenv("INDOUBT_TEST_COPY_FROM"))
		at, _ := At(to)
		_, err := Copy(context.Background(), from, at, Options{}, CopyOptions{Progress: func(table string, _, _ int, _ int64) {
			if table == os.Getenv("INDOUBT_TEST_COPY_KILL") {
				self, _ := os.FindProcess(os.Getpid())
				_ = self.Kill()
				select {}
			}
		}})
		panic(err)
	}
	os.Exit(pgtest.Main(m))
}

func quiet(string, int, int, int64) {}

var writer = ledger.Actor{Name: "pipeline", Machine: true}

func begins(s ledger.Store, id string) error {
	_, err := ledger.Begin(context.Background(), s, ledger.BeginRequest{ChangeID: id + "-c", OperationID: id, AttemptID: id + "-a", Kind: "k", Key: id, Deadline: time.Hour, Actor: writer})
	return err
}

func placeOf(t testing.TB, name string) Place {
	t.Helper()
	at := need.Get(At(name))(t)
	return at
}

// said runs a script in a ledger's database.
func said(t testing.TB, at Place, script string) {
	t.Helper()
	out, err := pgtest.Psql(t, at.(server).address, "SET search_path = indoubt;"+script)
	need.That(t, err == nil, "%s", out)
}

func eachTarget(t *testing.T, test func(t *testing.T, from, to Place)) {
	test(t, filled(t, 20), placeOf(t, pgtest.URL(t)))
}

// killed makes a copy that is killed at a table.
func killed(t testing.TB, from, to, table string) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "INDOUBT_TEST_COPY_FROM="+from, "INDOUBT_TEST_COPY_TO="+to, "INDOUBT_TEST_COPY_KILL="+table)
	if out, err := child.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("%v: %s", err, out)
	}
}

// filled is a ledger with all that a ledger may have.
func filled(t testing.TB, n int) Place {
	t.Helper()
	at := placeOf(t, pgtest.URL(t))
	s := need.Get(at.Make(t.Context(), Options{}, Making{}))(t)
	defer s.Close()
	for id, outcome := range map[string]ledger.Outcome{"kept": ledger.OutcomeCommitted, "doubt": ledger.OutcomeUncertain} {
		need.OK(t, begins(s, id))
		need.Get(ledger.Settle(t.Context(), s, ledger.SettleRequest{ChangeID: id + "-d", AttemptID: id + "-a", Outcome: outcome, Actor: writer}))(t)
	}
	ledgertest.History(t, s, 7, n)
	need.OK(t, s.Fold(t.Context(), nil, true, func(string) ledger.Burst { return ledger.Burst{Errors: 2} }))
	said(t, at, `INSERT INTO holds (scope, actor, reason) VALUES ('kind:x', 'maya', 'because');
		INSERT INTO events (id, run, verb, actor, version, detail) VALUES ('run', 'run', 'run', 'maya', 2, '{"run":{"state":"running","verb":"confirm"},"set":[{"operation":"doubt","version":2,"change":"c"}]}')`)
	return at
}

// There and back again, with every table the same. INDOUBT_COPY_OPERATIONS is for how many
// operations this is measured.
func TestACopyGoesThereAndBack(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("INDOUBT_COPY_OPERATIONS"))
	if n == 0 {
		n = 200
	}
	at := filled(t, n)
	said(t, at, `INSERT INTO meta (name, value) VALUES ('`+tables.MetaGap+`', '4000000000000')`)
	var first Copied
	way := []string{pgtest.URL(t), pgtest.URL(t)}
	for i, to := range way {
		next, began := placeOf(t, to), time.Now()
		console := need.Get(at.Open(t.Context(), Options{}))(t)
		dry := need.Get(Copy(t.Context(), at, next, Options{}, CopyOptions{DryRun: true}))(t)
		done := need.Get(Copy(t.Context(), at, next, Options{}, CopyOptions{Progress: quiet}))(t)
		t.Logf("%d operations, %d rows to %s in %s", n, done.Rows, next, time.Since(began).Round(time.Millisecond))
		need.That(t, dry.Rows == done.Rows && done.Rows >= int64(4*n),
			"%d rows were copied, and %d were to be", done.Rows, dry.Rows)
		if i == 0 {
			first = done
		}
		need.That(t, i != len(way)-1 || reflect.DeepEqual(done.Digests, first.Digests),
			"the digests are\n%v, and were\n%v", done.Digests, first.Digests)
		// The old ledger says where it went, also to who has it open, and is looked at.
		told, err := console.Info(t.Context())
		need.OK(t, errors.Join(err, console.Close()))
		need.That(t, told.MovedTo == next.String() && told.ReadOnly, "an open console is told %q", told.MovedTo)
		moved := need.Get(next.Open(t.Context(), Options{ReadOnly: true}))(t)
		rec := need.Get(moved.Read(t.Context(), ledger.Locator{ID: "doubt"}))(t)
		need.That(t, errors.Join(moved.Close()) == nil && rec.Gap.UnixMilli() == 4e12, "what may be lost until then is forgotten: %s", rec.Gap)
		var away *ledger.AwayError
		if _, err := at.Create(t.Context(), Options{}); !errors.As(err, &away) || away.To != next.String() {
			t.Errorf("a writer of the old ledger was told %v", err)
		}
		old := need.Get(at.Open(t.Context(), Options{ReadOnly: true}))(t)
		info, err := old.Info(t.Context())
		need.OK(t, errors.Join(err, old.Close()))
		need.That(t, info.MovedTo == next.String(), "the old ledger is at %q", info.MovedTo)
		at = next
	}
	// The ledger goes on where it was.
	s := need.Get(at.Create(t.Context(), Options{}))(t)
	defer s.Close()
	answer, err := ledger.Begin(t.Context(), s, ledger.BeginRequest{ChangeID: "x", OperationID: "x", AttemptID: "x", Kind: "k", Key: "kept", Deadline: time.Hour, Actor: writer})
	need.That(t, err == nil && answer.Answer != ledger.AnswerBegun,
		"a key of the old ledger is answered with %v, %v", answer.Answer, err)
	need.OK(t, begins(s, "a new one"))
	if d, err := s.(source).Deviations(t.Context()); err != nil || len(d) > 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// A copy that is killed is begun anew by the next one, in files and in databases.
func TestAKilledCopyIsMadeAnew(t *testing.T) {
	eachTarget(t, func(t *testing.T, from, to Place) {
		for _, table := range []string{"attempts", "events", "events compared"} {
			killed(t, from.(server).address, to.(server).address, table)
			s := need.Get(from.Open(t.Context(), Options{}))(t)
			if err := begins(s, "meanwhile"); !errors.Is(err, ledger.ErrMoving) || !strings.Contains(err.Error(), to.String()) {
				t.Errorf("a begin was told %v", err)
			}
			need.OK(t, s.Close())
			if _, err := to.Open(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "cut off") {
				t.Errorf("a copy that is not whole was opened: %v", err)
			}
		}
		var trouble ledger.Trouble
		_, err := Copy(t.Context(), from, placeOf(t, pgtest.URL(t)), Options{}, CopyOptions{Progress: quiet})
		need.That(t, errors.As(err, &trouble) && trouble.Code == "moving", "to another place, it was told %v", err)
		dry := need.Get(Copy(t.Context(), from, to, Options{}, CopyOptions{DryRun: true}))(t)
		done := need.Get(Copy(t.Context(), from, to, Options{}, CopyOptions{Progress: quiet}))(t)
		need.That(t, done.Rows == dry.Rows && len(done.Digests) == len(tables.Copied), "%d rows were copied, %d tables compared", done.Rows, len(done.Digests))
		need.Equal(t, homes(t, "after", from, to), 1, "ledgers")
	})
}

// What is in flight keeps a ledger where it is, and its copy leaves nothing at its place.
func TestACopyWantsNothingInFlight(t *testing.T) {
	from, to := placeOf(t, pgtest.URL(t)), placeOf(t, pgtest.URL(t))
	s := need.Get(from.Make(t.Context(), Options{}, Making{}))(t)
	defer s.Close()
	nothing := func() {
		t.Helper()
		_, err := to.Open(t.Context(), Options{})
		need.That(t, errors.As(err, new(*ledger.MissingError)), "something is left of it: %v", err)
	}
	need.OK(t, begins(s, "flying"))
	var trouble ledger.Trouble
	_, err := Copy(t.Context(), from, to, Options{}, CopyOptions{Progress: quiet})
	need.That(t, errors.As(err, &trouble) && trouble.Code == "in_progress", "it was told %v", err)
	nothing()
	need.OK(t, begins(s, "open again"))
	for _, id := range []string{"flying", "open again"} {
		need.Get(ledger.Settle(t.Context(), s, ledger.SettleRequest{ChangeID: id + "-d", AttemptID: id + "-a", Outcome: ledger.OutcomeCommitted, Actor: writer}))(t)
	}
	ctx, stop := context.WithCancel(t.Context())
	_, err = Copy(ctx, from, to, Options{}, CopyOptions{Progress: func(string, int, int, int64) { stop() }})
	need.That(t, errors.Is(err, context.Canceled), "%v", err)
	nothing()
	need.Get(Copy(t.Context(), from, to, Options{}, CopyOptions{Progress: quiet}))(t)
	if err := begins(s, "too late"); !errors.Is(err, ledger.ErrMoving) || !strings.Contains(err.Error(), "has moved to "+to.String()) {
		t.Errorf("one who had it open was told %v", err)
	}
}

// One value that is not the same ends a copy.
func TestACopyIsCompared(t *testing.T) {
	from, to := filled(t, 60), placeOf(t, pgtest.URL(t))
	_, err := Copy(t.Context(), from, to, Options{}, CopyOptions{Progress: func(table string, _, _ int, _ int64) {
		if table == "events" {
			said(t, to, `UPDATE attempts SET status = 201 WHERE id = 'kept-a'`)
		}
	}})
	need.That(t, err != nil && strings.Contains(err.Error(), "attempts is not the same"), "%v", err)
	s := need.Get(from.Open(t.Context(), Options{}))(t)
	need.OK(t, errors.Join(begins(s, "goes on"), s.Close()))
}
