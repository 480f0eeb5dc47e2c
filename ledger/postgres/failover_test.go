//go:build soak

package postgres

import (
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
	"indoubt/ledger/record"
)

// downstream counts what was sent, which is the truth.
type downstream struct {
	mu   sync.Mutex
	sent map[string]int
}

func (d *downstream) send(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sent[key]++
}

func (d *downstream) keys() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.sent))
}

// pipeline sends what the ledger lets it, and says what became of that.
func (d *downstream) pipeline(s *Store, key string) error {
	req := begun(key)
	res, err := ledger.Begin(ctx, s, req)
	if err != nil || res.Answer != ledger.AnswerBegun {
		return err
	}
	d.send(key)
	_, err = ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: req.AttemptID, Outcome: ledger.OutcomeCommitted, Actor: req.Actor})
	return err
}

// replicated is a primary under load, with a standby that it waits for and one that it
// does not, which is cut off some time before the primary dies. Both are promoted then.
type replicated struct {
	downstream
	near, far *pgtest.Cluster
	follower  *follower        // of the primary
	recorder  *record.Recorder // lives on
	before    []ledger.BeginResult
	retried   [2]ledger.Operation  // in doubt; each is sent again after that, the second under a permission from before
	lost      []ledger.BeginResult // begun after the far standby was cut off; the first half is settled
}

// record has the recorder begin some, and settle half of them.
func (w *replicated) record(t *testing.T) (all []ledger.BeginResult) {
	t.Helper()
	for i := range 6 {
		res := need.Get(w.recorder.Begin(ctx, record.Request{Kind: "mail", Input: fmt.Appendf(nil, `{"n": "%s"}`, ledger.NewID()), Sender: "mcp"}))(t)
		need.That(t, res.Answer == ledger.AnswerBegun, "%s", res.Answer)
		if i < 3 {
			w.settle(t, res)
		}
		all = append(all, res)
	}
	return all
}

func (w *replicated) settle(t *testing.T, res ledger.BeginResult) {
	t.Helper()
	_ = need.Get(w.recorder.Settle(ctx, ledger.SettleRequest{AttemptID: res.Attempt.ID, Outcome: ledger.OutcomeCommitted, Receipt: "r-" + res.Operation.ID}))(t)
}

// doubt leaves an operation in doubt.
func doubt(t *testing.T, s *Store, key string) ledger.Operation {
	t.Helper()
	req := begun(key)
	_ = need.Get(ledger.Begin(ctx, s, req))(t)
	return need.Get(ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: req.AttemptID, Outcome: ledger.OutcomeUncertain, Actor: req.Actor}))(t).After
}

// retry has a person allow one more attempt of it, which begins if it has an id.
func retry(t *testing.T, s *Store, o ledger.Operation, attempt string) ledger.Operation {
	t.Helper()
	return need.Get(ledger.Allow(ctx, s, ledger.AllowRequest{ChangeID: ledger.NewID(), AllowID: ledger.NewID(), OperationID: o.ID, Version: o.Version, Basis: ledger.BasisRiskAccepted,
		Sender: "pipeline", Reason: "must", Actor: ledger.Actor{Name: "vera", Terminal: true}, ExpiresAt: time.Now().Add(time.Hour),
		AttemptID: attempt, Deadline: time.Minute}))(t).After
}

func failover(t *testing.T) *replicated {
	t.Helper()
	primary := pgtest.Start(t, pgtest.Options{Durable: true, Settings: map[string]string{"synchronous_commit": "on"}})
	need.OK(t, primary.Exec("postgres", "CREATE DATABASE ledger"))
	s := need.Get(Create(ctx, primary.URL("ledger"), Options{}))(t)
	relay, by := pgtest.Through(t, primary.URL("postgres"))
	w := &replicated{downstream: downstream{sent: map[string]int{}}}
	w.near = pgtest.Start(t, pgtest.Options{From: primary, Durable: true, Settings: map[string]string{"cluster_name": "near"}})
	w.far = pgtest.Start(t, pgtest.Options{From: primary, By: by, Settings: map[string]string{"cluster_name": "far"}})
	primary.Set(t, "synchronous_standby_names", "near")
	hosts := strings.Replace(primary.URL("ledger"), "/ledger", fmt.Sprintf(",127.0.0.1:%d/ledger", w.far.Port), 1)
	commits(t, s, ledger.LevelOK, "durable on a standby")
	w.recorder = record.New(opened(t, with(hosts, "target_session_attrs=read-write"), Options{}), nil, record.Options{})
	w.before = w.record(t)
	w.retried = [2]ledger.Operation{doubt(t, s, "retried"), retry(t, s, doubt(t, s, "allowed"), "")}
	w.follower = &follower{seen: map[string]int{}, store: s, limit: 7}

	s.asking = time.Millisecond // once the primary is gone, no one answers
	var all sync.WaitGroup
	end := make(chan struct{})
	for n := range 8 {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-end:
					return
				default:
					_ = w.pipeline(s, fmt.Sprintf("key-%d-%d", n, i)) // the primary dies
				}
			}
		})
	}
	follow := func(d time.Duration) {
		for over := time.Now().Add(d); time.Now().Before(over); {
			_ = need.Get(w.follower.follow())(t)
		}
	}
	follow(500 * time.Millisecond)
	relay.Away(true)
	follow(500 * time.Millisecond)
	w.lost = w.record(t)
	retry(t, s, w.retried[0], "retried.2")
	if res := need.Get(ledger.Begin(ctx, s, begun("allowed")))(t); res.Attempt.N != 2 {
		t.Fatalf("allowed, and begun again: %s", res.Answer)
	}
	primary.Kill()
	close(end)
	all.Wait()
	_ = s.Close()
	need.OK(t, w.near.Promote())
	need.OK(t, w.far.Promote())
	return w
}

// commits has the examination say this of them, as soon as the server has read its settings.
func commits(t *testing.T, s *Store, level, says string) {
	t.Helper()
	var found ledger.Finding
	for end := time.Now().Add(amply); time.Now().Before(end); {
		all := s.Examine(ctx)
		found = all[slices.IndexFunc(all, func(f ledger.Finding) bool { return f.Check == "commits" })]
		if found.Level == level && strings.Contains(found.Found, says) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("commits: %+v, want %s: %s", found, level, says)
}

// recorded are the keys of all operations.
func recorded(t *testing.T, url string) []string {
	t.Helper()
	return strings.Fields(psql(t, url, `SELECT name FROM indoubt.op ORDER BY name`))
}

// I1, I3: where a commit waits for a standby, its promotion loses nothing that was
// acknowledged. Where it does not, the newest intents are lost, and nothing is sent twice
// by machine: all sends are refused until a person has looked, but those under a key that
// the other side remembers.
func TestI3_AFailover(t *testing.T) {
	w := failover(t)
	t.Run("synchronous", func(t *testing.T) {
		s := opened(t, w.near.URL("ledger"), Options{ReadOnly: true})
		commits(t, s, ledger.LevelWarn, "durable on this server only")
		w.near.Set(t, "synchronous_standby_names", "gone")
		commits(t, s, ledger.LevelFail, "none is connected")
		have := recorded(t, w.near.URL("ledger"))
		for _, key := range w.keys() {
			if _, found := slices.BinarySearch(have, key); !found {
				t.Errorf("%s was sent, and is not recorded", key)
			}
		}
	})
	url := w.far.URL("ledger")
	have := recorded(t, url)
	lost := slices.DeleteFunc(w.keys(), func(key string) bool { _, found := slices.BinarySearch(have, key); return found })
	need.Must(t, len(lost) != 0 && len(have) != 0, "%d keys are lost and %d are not", len(lost), len(have))
	s := opened(t, url, Options{})
	// I6: what is in doubt may have been sent once more before, and its proof waits for that.
	var observe func(began time.Time) (ledger.Applied, error)
	t.Run("proven", func(t *testing.T) {
		o := w.retried[0]
		observe = func(began time.Time) (ledger.Applied, error) {
			return ledger.Observe(ctx, s, ledger.Observation{ChangeID: ledger.NewID(), Version: o.Version, Settles: true, Actor: ledger.Actor{Name: "checks", Machine: true},
				Read: ledger.Read{ID: ledger.NewID(), OperationID: o.ID, Verdict: ledger.NotThere, Reason: "none found", BeganAt: began, EndedAt: began}})
		}
		rec := need.Get(s.Read(ctx, ledger.Locator{ID: o.ID}))(t)
		_, err := observe(rec.Now)
		need.That(t, errors.Is(err, ledger.ErrFailover), "proven by a check before anyone has looked: %v", err)
		need.That(t, len(rec.Attempts) == 1, "%d attempts", len(rec.Attempts))
	})
	t.Run("refused", func(t *testing.T) {
		for _, key := range lost[:min(20, len(lost))] {
			if err := w.pipeline(s, key); !errors.Is(err, ledger.ErrFailover) {
				t.Fatalf("%s is begun again: %v", key, err)
			}
		}
		// Foreign writers are refused, too.
		if out, err := pgtest.Psql(t, url, `INSERT INTO indoubt.intent (id, kind, key, actor) VALUES ('f', 'k', 'k', 'sql')`); err == nil || !strings.Contains(out, "IN002") {
			t.Errorf("plain SQL begins: %s", out)
		}
		for key, n := range w.sent {
			need.That(t, n == 1, "%s was sent %d times", key, n)
		}
	})
	t.Run("settled", func(t *testing.T) { // who began what the ledger has lost remembers it
		for _, res := range w.lost[3:] {
			w.settle(t, res)
			rec := need.Get(s.Read(ctx, ledger.Locator{ID: res.Operation.ID}))(t)
			need.That(t, rec.Operation.State == ledger.Committed && string(rec.Operation.Input) == string(res.Operation.Input), "%+v", rec.Operation)
		}
	})
	t.Run("said", func(t *testing.T) {
		info := need.Get(s.Info(ctx))(t)
		missing := info.Failover.Missing
		need.That(t, !info.Failover.At.IsZero() && missing >= 400*time.Millisecond && missing <= time.Minute,
			"%+v", info.Failover)
		for _, e := range need.Get(s.History(ctx, ledger.HistoryQuery{Newest: true, Limit: 99}))(t) {
			if e.Verb == "failover" {
				return
			}
		}
		t.Error("the history does not say so")
	})
	t.Run("adopted", func(t *testing.T) {
		need.OK(t, s.Adopt(ctx, ledger.Actor{Name: "vera"}, ""))
		need.OK(t, s.Adopt(ctx, ledger.Actor{Name: "vera"}, "")) // again: nothing
		info := need.Get(s.Info(ctx))(t)
		need.That(t, info.Failover == ledger.Failover{}, "%+v", info.Failover)
		n := 0
		for _, e := range need.Get(s.History(ctx, ledger.HistoryQuery{Newest: true, Limit: 99}))(t) {
			if e.Verb == "adopt" && e.Actor.Name == "vera" && strings.Contains(e.Reason, "may be missing") {
				n++
			}
		}
		need.That(t, n == 1, "%d events say who adopted it", n)
		need.OK(t, s.LiftHold(ctx, ledger.Lift{Scope: "all", LookFirst: new(time.Duration), Actor: ledger.Actor{Name: "vera"}, Reason: "looked"}))
		if err := w.pipeline(s, "new"); err != nil {
			t.Error(err)
		}
		if res := need.Get(ledger.Begin(ctx, s, begun("allowed")))(t); res.Answer != ledger.AnswerInDoubt {
			t.Errorf("a permission is used again: %s", res.Answer)
		}
	})
	t.Run("proven later", func(t *testing.T) {
		rec := need.Get(s.Read(ctx, ledger.Locator{ID: w.retried[0].ID}))(t)
		need.That(t, !rec.Gap.Before(rec.Operation.EndedAt), "a gap until %s", rec.Gap)
		lost := rec.LostEnd(0)
		need.That(t, need.Get(observe(lost))(t).After.State == ledger.Uncertain, "proven while what was lost may go on")
		need.That(t, need.Get(observe(lost.Add(time.Millisecond)))(t).After.State == ledger.Failed, "never proven")
	})
	t.Run("followed", func(t *testing.T) {
		before := maps.Clone(w.follower.seen)
		w.follower.store = s
		for need.Get(w.follower.follow())(t) > 0 {
		}
		all := need.Get(s.History(ctx, ledger.HistoryQuery{Limit: 1 << 20}))(t)
		for _, e := range all {
			need.That(t, w.follower.seen[e.ID] == 1, "%s of %s was seen %d times", e.Verb, e.OperationID, w.follower.seen[e.ID])
		}
		need.That(t, len(w.follower.seen) > len(all) && len(before) < len(w.follower.seen), "%d seen before, %d now, %d there: nothing was lost", len(before), len(w.follower.seen), len(all))
	})
	t.Run("restored", func(t *testing.T) {
		dump := exec.Command("pg_dump", w.far.URL("ledger"))
		restored(t, string(need.Get(dump.Output())(t)), len(have))
	})
}

// A dump that is restored in another cluster lacks what came after it, and the numbers of
// its transactions are another cluster's.
func restored(t *testing.T, dump string, operations int) {
	url := pgtest.URL(t)
	psql(t, url, dump)
	looker := opened(t, url, Options{ReadOnly: true})
	need.That(t, !need.Get(looker.Info(ctx))(t).Failover.At.IsZero(), "nobody who only looks is told")
	f := &follower{seen: map[string]int{}, store: looker, limit: 100}
	// The other cluster's number of an old event is one that this one gives next.
	psql(t, url, `SET session_replication_role = replica; UPDATE indoubt.ev SET place = (1::bigint << 40) + pg_current_xact_id()::text::bigint + 5 WHERE seq = 3`)
	f.at = need.Get(looker.Info(ctx))(t).Cursor
	psql(t, url, strings.Repeat("SELECT pg_current_xact_id();\n", 20))
	need.That(t, need.Get(f.follow())(t) == 0, "a dump has news")
	s := opened(t, url, Options{})
	w := downstream{sent: map[string]int{}}
	if err := w.pipeline(s, "again"); !errors.Is(err, ledger.ErrFailover) {
		t.Fatalf("a dump is sent from: %v", err)
	}
	need.OK(t, s.Adopt(ctx, ledger.Actor{Name: "vera"}, ""))
	need.OK(t, s.LiftHold(ctx, ledger.Lift{Scope: "all", LookFirst: new(time.Duration), Actor: ledger.Actor{Name: "vera"}, Reason: "looked"}))
	need.OK(t, w.pipeline(s, "again"))
	for end := time.Now().Add(amply); time.Now().Before(end); {
		if need.Get(f.follow())(t) == 0 {
			break
		}
	}
	verbs := 0
	for _, n := range f.seen {
		verbs += n
	}
	need.That(t, verbs == 6, "%d events came after the restore, of failover, adoption, hold, release, begin and settle", verbs)
	need.That(t, len(need.Get(s.History(ctx, ledger.HistoryQuery{Limit: 1 << 20}))(t)) > operations, "the history is there")
}

// Of two who adopt a ledger at the same time, one has.
func TestItIsAdoptedOnce(t *testing.T) {
	url := made(t)
	s := opened(t, url, Options{})
	psql(t, url, `SET session_replication_role = replica; UPDATE indoubt.meta SET value = 'elsewhere' WHERE name = 'home'`)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			if err := s.Adopt(ctx, ledger.Actor{Name: "vera"}, ""); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	need.Equal(t, psql(t, url, `SELECT count(*) FILTER (WHERE verb = 'failover'), count(*) FILTER (WHERE verb = 'adopt') FROM indoubt.ev`), "1|1")
}

// A dump makes the guards last. Until then the ledger takes nothing, and what is known of an
// attempt is kept until it does.
func TestI9_ALedgerThatIsBeingRestored(t *testing.T) {
	url := made(t)
	s := opened(t, url, Options{})
	r := record.New(s, nil, record.Options{})
	begun := need.Get(r.Begin(ctx, record.Request{Kind: "mail", Key: "1"}))(t)
	psql(t, url, `SET session_replication_role = replica; DELETE FROM indoubt.op; DELETE FROM indoubt.ev; ALTER TABLE indoubt.op DISABLE TRIGGER USER; ALTER TABLE indoubt.ev DISABLE TRIGGER USER`)
	_, err := r.Begin(ctx, record.Request{Kind: "mail", Key: "2"})
	need.That(t, errors.Is(err, ledger.ErrLost) && strings.Contains(err.Error(), "is not whole"), "%v", err)
	settle := ledger.SettleRequest{AttemptID: begun.Attempt.ID, Outcome: ledger.OutcomeCommitted}
	_, err = r.Settle(ctx, settle)
	need.That(t, errors.Is(err, ledger.ErrLost), "%v", err)
	psql(t, url, `ALTER TABLE indoubt.op ENABLE TRIGGER USER; ALTER TABLE indoubt.ev ENABLE TRIGGER USER`)
	need.That(t, need.Get(r.Settle(ctx, settle))(t).After.State == ledger.Committed, "it is not settled")
}
