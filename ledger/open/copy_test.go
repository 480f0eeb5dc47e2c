//go:build soak

package open

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
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

// nameOf is the name by which another process opens it.
func nameOf(at Place) string {
	if s, is := at.(server); is {
		return s.address
	}
	return at.(file).path
}

// said runs a script in a ledger's database.
func said(t testing.TB, at Place, script string) {
	t.Helper()
	out, err := pgtest.Psql(t, at.(server).address, "SET search_path = indoubt;"+script)
	need.That(t, err == nil, "%s", out)
}

// killed makes a copy that is killed at a table.
func killed(t testing.TB, from, to Place, table string) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "INDOUBT_TEST_COPY_FROM="+nameOf(from), "INDOUBT_TEST_COPY_TO="+nameOf(to), "INDOUBT_TEST_COPY_KILL="+table)
	if out, err := child.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("%v: %s", err, out)
	}
}

// places are one of each kind that has no ledger.
func places(t testing.TB) map[string]Place {
	return map[string]Place{"file": placeOf(t, filepath.Join(t.TempDir(), "ledger.db")), "server": placeOf(t, pgtest.URL(t))}
}

// filled is a ledger with all that a ledger may have.
func filled(t testing.TB, at Place, n int) Place {
	t.Helper()
	s := need.Get(at.Make(t.Context(), Options{}))(t)
	defer s.Close()
	for id, outcome := range map[string]ledger.Outcome{"kept": ledger.OutcomeCommitted, "doubt": ledger.OutcomeUncertain} {
		need.OK(t, begins(s, id))
		need.Get(ledger.Settle(t.Context(), s, ledger.SettleRequest{ChangeID: id + "-d", AttemptID: id + "-a", Outcome: outcome, Actor: writer}))(t)
	}
	ledgertest.History(t, s, 7, n)
	need.OK(t, s.Fold(t.Context(), nil, nil, true, func(string) ledger.Burst { return ledger.Burst{Errors: 2} }))
	need.OK(t, s.Hold(t.Context(), ledger.Hold{Scope: "kind:x", Actor: ledger.Actor{Name: "maya"}, Reason: "because"}))
	return at
}

// There and back again, with every table the same. INDOUBT_COPY_OPERATIONS is for how many
// operations this is measured.
func TestACopyGoesThereAndBack(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("INDOUBT_COPY_OPERATIONS"))
	if n == 0 {
		n = 200
	}
	at := filled(t, placeOf(t, pgtest.URL(t)), n)
	said(t, at, `INSERT INTO meta (name, value) VALUES ('gap', '4000000000000')`)
	var digests []map[string]string
	for i, to := range []string{"file", "server", "server", "file", "file"} {
		next, began := places(t)[to], time.Now()
		console := need.Get(at.Open(t.Context(), Options{}))(t)
		dry := need.Get(Copy(t.Context(), at, next, Options{}, CopyOptions{DryRun: true}))(t)
		done := need.Get(Copy(t.Context(), at, next, Options{}, CopyOptions{Progress: quiet}))(t)
		t.Logf("%d operations, %d rows to %s in %s", n, done.Rows, next, time.Since(began).Round(time.Millisecond))
		need.That(t, dry.Rows == done.Rows && done.Rows >= int64(2*n),
			"%d rows were copied, and %d were to be", done.Rows, dry.Rows)
		if i != 2 { // from server to server, a column goes along that a file has not
			digests = append(digests, done.Digests)
		}
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
	for _, is := range digests {
		need.That(t, reflect.DeepEqual(is, digests[0]), "the digests are\n%v, and were\n%v", is, digests[0])
	}
	// The ledger goes on where it was.
	s := need.Get(at.Create(t.Context(), Options{}))(t)
	defer s.Close()
	answer, err := ledger.Begin(t.Context(), s, ledger.BeginRequest{ChangeID: "x", OperationID: "x", AttemptID: "x", Kind: "k", Key: "kept", Deadline: time.Hour, Actor: writer})
	need.That(t, err == nil && answer.Answer != ledger.AnswerBegun,
		"a key of the old ledger is answered with %v, %v", answer.Answer, err)
	need.OK(t, begins(s, "a new one"))
	if d, err := s.(interface {
		Deviations(context.Context) ([]ledger.Deviation, error)
	}).Deviations(t.Context()); err != nil || len(d) > 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// homes are how many of two places let something be begun.
func homes(t testing.TB, id string, places ...Place) (n int) {
	t.Helper()
	for _, at := range places {
		s, err := at.Open(t.Context(), Options{})
		if err != nil {
			continue
		}
		if begins(s, id) == nil {
			n++
		}
		need.OK(t, s.Close())
	}
	return n
}

// I3: a copy that is killed, or cut off between its end there and what is said here, leaves one
// ledger, and the next one ends it.
func TestI3_AKilledCopyIsMadeAnew(t *testing.T) {
	for _, way := range [][2]string{{"server", "server"}, {"server", "file"}, {"file", "server"}} {
		t.Run(way[0]+" to "+way[1], func(t *testing.T) {
			from, to := filled(t, places(t)[way[0]], 20), places(t)[way[1]]
			for _, table := range []string{"op", "ev", "hold"} {
				killed(t, from, to, table)
				need.Equal(t, homes(t, "after "+table, from, to), 1, "ledgers")
				settle(t, from, "after "+table)
			}
			// It is whole there, and nothing is said here.
			ctx, stop := context.WithCancel(t.Context())
			_, err := Copy(ctx, from, to, Options{}, CopyOptions{Progress: func(table string, _, _ int, _ int64) {
				if table == "hold" {
					stop()
				}
			}})
			need.That(t, errors.Is(err, context.Canceled), "%v", err)
			need.Equal(t, homes(t, "cut off", from, to), 1, "ledgers")
			settle(t, from, "cut off")
			need.Get(Copy(t.Context(), from, to, Options{}, CopyOptions{Progress: quiet}))(t)
			need.Equal(t, homes(t, "ended", from, to), 1, "ledgers")
			settle(t, to, "ended")
			// It is said here, and the copy does not know it.
			if f, is := to.(file); is {
				need.OK(t, os.Rename(f.path, f.path+".copy"))
			} else {
				said(t, to, `INSERT INTO meta SELECT 'copy', value FROM meta WHERE name = 'id'`)
			}
			need.Equal(t, homes(t, "none", from, to), 0, "ledgers")
			var waits ledger.Trouble // it is the only one there is of this ledger
			_, err = Copy(t.Context(), filled(t, places(t)["file"], 2), to, Options{}, CopyOptions{Progress: quiet})
			need.That(t, errors.As(err, &waits) && waits.Code == "exists", "another ledger takes its place: %v", err)
			need.Get(Copy(t.Context(), from, to, Options{}, CopyOptions{Progress: quiet}))(t)
			need.Equal(t, homes(t, "one", from, to), 1, "ledgers")
			_, err = Copy(t.Context(), from, places(t)[way[1]], Options{}, CopyOptions{Progress: quiet})
			need.That(t, errors.As(err, new(*ledger.AwayError)), "to another place, it was told %v", err)
		})
	}
}

func settle(t *testing.T, at Place, ids ...string) {
	t.Helper()
	s := need.Get(at.Open(t.Context(), Options{}))(t)
	defer s.Close()
	for _, id := range ids {
		need.Get(ledger.Settle(t.Context(), s, ledger.SettleRequest{ChangeID: id + "-d", AttemptID: id + "-a", Outcome: ledger.OutcomeCommitted, Actor: writer}))(t)
	}
}

// What is in flight keeps a ledger where it is, and its copy leaves nothing at its place.
func TestACopyWantsNothingInFlight(t *testing.T) {
	for way := range map[string]bool{"file": true, "server": true} {
		t.Run(way, func(t *testing.T) { waitsForWhatIsInFlight(t, places(t)[way], places(t)[way]) })
	}
}

func waitsForWhatIsInFlight(t *testing.T, from, to Place) {
	s := need.Get(from.Make(t.Context(), Options{}))(t)
	defer s.Close()
	need.OK(t, begins(s, "flying"))
	var trouble ledger.Trouble
	_, err := Copy(t.Context(), from, to, Options{}, CopyOptions{Progress: quiet})
	need.That(t, errors.As(err, &trouble) && trouble.Code == "in_progress", "it was told %v", err)
	_, err = to.Open(t.Context(), Options{})
	need.That(t, errors.As(err, new(*ledger.MissingError)), "something is left of it: %v", err)
	settle(t, from, "flying")
	need.Get(Copy(t.Context(), from, to, Options{}, CopyOptions{Progress: quiet}))(t)
	if err := begins(s, "too late"); !errors.Is(err, ledger.ErrMoving) || !strings.Contains(err.Error(), "has moved to "+to.String()) {
		t.Errorf("one who had it open was told %v", err)
	}
}

// I3: two commands that copy the same ledger at once make one of it.
func TestI3_TwoCopiesAtOnce(t *testing.T) {
	from, to := filled(t, placeOf(t, pgtest.URL(t)), 20), placeOf(t, pgtest.URL(t))
	second := make(chan error, 1)
	once := false
	_, err := Copy(t.Context(), from, to, Options{}, CopyOptions{Progress: func(string, int, int, int64) {
		if !once {
			once = true
			go func() {
				_, err := Copy(t.Context(), from, to, Options{}, CopyOptions{Progress: quiet})
				second <- err
			}()
		}
	}})
	need.OK(t, errors.Join(err, <-second))
	need.Equal(t, homes(t, "after", from, to), 1, "ledgers")
}
