//go:build soak

package postgres

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
	"indoubt/ledger/store"
)

// noted is a change that calls before what commits it is sent. As all changes do, it looks at the
// history first.
func noted(s *Store, id string, between func(try int)) error {
	tries := 0
	return database{s.handle}.Update(ctx, func(t store.Tx) error {
		tries++
		found := 0
		if err := store.One(t, []any{&found}, `SELECT count(*) FROM ev WHERE id = ?`, id); err != nil || found > 0 {
			return err
		}
		between(tries)
		_, err := t.Exec(`INSERT INTO ev (id, verb, actor) VALUES (?, 'test', 'pg')`, id)
		t.(*tx).loud = false // no one is told: that takes a round trip beside
		return err
	})
}

func firstTime(do func()) func(int) {
	return func(try int) {
		if try == 1 {
			do()
		}
	}
}

// exchange is how many bytes the exchange of a COMMIT has each way, once the statements
// are prepared.
func exchange(t *testing.T, r *pgtest.Relay, s *Store) (up, down int) {
	t.Helper()
	for i := range 3 {
		need.OK(t, noted(s, fmt.Sprintf("warm-%d", i), func(int) { r.Arm(-1, -1) }))
		up, down = r.Disarm()
	}
	need.Must(t, up >= 50 && down >= 20, "an exchange of %d and %d bytes", up, down)
	return up, down
}

// cuts are places of the exchange at which a connection can be cut: every fifth byte, and
// the end of what is sent. No message is shorter, so that before the end of each lies one.
// With INDOUBT_CUTS=1 they are all bytes.
func cuts(t *testing.T, up, down int, at func(name string, up, down int)) {
	step := need.Get(strconv.Atoi(cmp.Or(os.Getenv("INDOUBT_CUTS"), "5")))(t)
	for k := 0; k < up; k += step {
		at(fmt.Sprintf("up-%03d", k), k, -1)
	}
	at("sent", up, -1)
	for k := 0; k < down; k += step {
		at(fmt.Sprintf("down-%03d", k), -1, k)
	}
}

// I10: wherever the connection is cut while a change commits, the change is recorded
// once, and its caller is told so.
func TestI10_ACommitCutInEachMessage(t *testing.T) {
	for _, mode := range modes {
		url := made(t)
		r, through := pgtest.Through(t, url)
		s := opened(t, with(through, mode), Options{})
		up, down := exchange(t, r, s)
		want := []string{"warm-0", "warm-1", "warm-2"}
		cuts(t, up, down, func(name string, up, down int) {
			if err := noted(s, name, firstTime(func() { r.Arm(up, down) })); err != nil {
				t.Errorf("%s: cut at %s: %v", mode, name, err)
			}
			want = append(want, name)
		})
		got := told(t, s)
		slices.Sort(got)
		slices.Sort(want)
		need.Must(t, slices.Equal(got, want), "%s: %d changes are recorded, want %d: %v", mode, len(got), len(want), got)
	}
}

// I10: the server can begin with what it was sent on a connection that is lost after it was
// asked for it, and commit it between the look and the write of the change made again.
func TestI10_ACommitThatIsLateToBegin(t *testing.T) {
	url := made(t)
	r, through := pgtest.Through(t, url)
	s, late := opened(t, through, Options{}), opened(t, url, Options{})
	err := noted(s, "c", func(try int) {
		switch try {
		case 1:
			r.Arm(0, -1)
		case 2:
			if err := tell(late, "c"); err != nil {
				t.Error(err)
			}
		}
	})
	need.That(t, err == nil, "of a change that is recorded it is told: %v", err)
	if got := told(t, s); !slices.Equal(got, []string{"c"}) {
		t.Errorf("%v are recorded", got)
	}
}

// Where the server cannot be asked, the caller is told that nothing is known, and the
// change is recorded once or not at all.
func TestI1_ACommitThatIsNotKnown(t *testing.T) {
	{
		url := made(t)
		r, through := pgtest.Through(t, url)
		s := opened(t, with(through, "pool_max_conns=1"), Options{}) // another one would still be there to ask
		up, down := exchange(t, r, s)
		s.asking = 20 * time.Millisecond
		unknown := map[string]bool{}
		cuts(t, up, down, func(name string, up, down int) {
			err := noted(s, name, firstTime(func() { r.Arm(up, down); r.Leave() }))
			if !errors.Is(err, ledger.ErrUnknown) || !strings.HasPrefix(err.Error(), "cannot tell whether the change is recorded") {
				t.Fatalf("cut at %s: %v", name, err)
			}
			unknown[name] = true
			r.Away(false)
		})
		found := map[string]int{}
		for _, id := range told(t, s) {
			found[id]++
		}
		there := 0
		for name := range unknown {
			if there += found[name]; found[name] > 1 {
				t.Errorf("%s is recorded %d times", name, found[name])
			}
		}
		need.Must(t, there != 0 && there != len(unknown),
			"%d of %d are recorded: the cuts were not around the commit", there, len(unknown))
	}
}

// A network that swallows everything and ends nothing is waited for only so long: what was
// asked has not happened, of a change that was sent nothing is known, and what was known
// before is tried again when the server answers. A watch sees again what is new.
func TestASilentNetwork(t *testing.T) {
	url := made(t)
	r, through := pgtest.Through(t, url)
	s := opened(t, through+"&connect_timeout=1", Options{})
	s.silence, s.asking, s.polling = 1500*time.Millisecond, 300*time.Millisecond, 50*time.Millisecond
	news := s.Watch(t.Context())
	for _, name := range []string{"once", "again"} {
		err := noted(s, name, firstTime(func() { r.Silence(true) }))
		need.That(t, errors.Is(err, ledger.ErrUnknown), "%s: a change that was sent: %v", name, err)
		if err := tell(s, "not sent"); !errors.Is(err, ledger.ErrLost) {
			t.Errorf("%s: a change that could not be sent: %v", name, err)
		}
		r.Silence(false)
		if err := tell(s, name+", later"); err != nil {
			t.Errorf("%s: a change when the network is there again: %v", name, err)
		}
	}
	got := told(t, s)
	slices.Sort(got)
	if want := []string{"again, later", "once, later"}; !slices.Equal(got, want) {
		t.Errorf("recorded: %v, want %v", got, want)
	}
	for len(news) > 0 {
		<-news
	}
	need.OK(t, tell(s, "seen"))
	select {
	case <-news:
	case <-time.After(10 * time.Second):
		t.Error("the watch sees nothing any more")
	}
}

// A server that was restarted is used again without a word; one that stays away is
// said to.
func TestAConnectionThatIsLost(t *testing.T) {
	r, through := pgtest.Through(t, made(t))
	s := opened(t, through, Options{})
	idle := func() { time.Sleep(150 * time.Millisecond) }
	for i := range 3 {
		r.Drop()
		idle()
		need.OK(t, tell(s, fmt.Sprint(i)))
		r.Drop()
		if n := scalar(t, s, `SELECT count(*) FROM ev`); n != int64(i+1) {
			t.Fatalf("%d events", n)
		}
	}
	r.Away(true)
	idle()
	began := time.Now()
	for what, err := range map[string]error{
		"a change": tell(s, "x"),
		"a look":   database{s.handle}.View(ctx, func(tx store.Tx) error { _, err := tx.Query(`SELECT 1`); return err }),
	} {
		need.That(t, errors.Is(err, ledger.ErrLost), "%s: %T %v", what, err, err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s to say so", took)
	}
	r.Away(false)
	if ids := told(t, s); len(ids) != 3 {
		t.Fatalf("%v", ids)
	}
}
