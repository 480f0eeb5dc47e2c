//go:build soak

package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/archive"
	"indoubt/ledger/need"
	"indoubt/ledger/open"
	"indoubt/ledger/postgres/pgtest"
)

// settledSite is a site whose policy says nothing, and its ledger, which the test writes too.
func settledSite(t *testing.T) (*site, ledger.Store) {
	s := bareSite(t)
	s.writePolicy("version: 1\n")
	s.must(0, "init")
	store := need.Get(open.Open(t.Context(), s.ledger, open.Options{}))(t)
	t.Cleanup(func() { store.Close() })
	return s, store
}

// archiveInto archives what has settled by now.
func archiveInto(t *testing.T, store ledger.Store, dir string) (archive.Progress, error) {
	return archive.Run(t.Context(), store, archive.Options{Dir: dir, Before: time.Now().Add(time.Hour), Actor: ledger.Actor{Name: "cron", Machine: true}})
}

// settledOnes records operations that their answers settled, every second with a key that is
// given up soon, and returns their ids.
func settledOnes(t testing.TB, store ledger.Store, prefix string, n int) []string {
	t.Helper()
	ids := make([]string, n)
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			for i := w; i < n; i += 16 {
				ids[i] = ledger.NewID()
				req := ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ids[i], AttemptID: ledger.NewID(), Kind: "mail.send", Key: fmt.Sprint(prefix, i),
					Input: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i)), Deadline: time.Minute, Actor: ledger.Actor{Name: "mailer"}}
				if i%2 == 1 {
					req.TTL = time.Millisecond
				}
				_, err := ledger.Begin(t.Context(), store, req)
				if err == nil {
					_, err = ledger.Settle(t.Context(), store, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: req.AttemptID, Outcome: ledger.OutcomeCommitted, Actor: req.Actor})
				}
				need.That(t, err == nil, "%v", err)
			}
		})
	}
	all.Wait()
	return ids
}

// othersWrite has events come until it is told to stop.
func othersWrite(t testing.TB, store ledger.Store) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		beat := time.NewTicker(20 * time.Millisecond)
		defer beat.Stop()
		for ; ctx.Err() == nil; <-beat.C {
			h := ledger.Hold{ChangeID: ledger.NewID(), Scope: ledger.HoldScope("kind:other"), Actor: ledger.Actor{Name: "noor"}, Reason: "a test"}
			if err := store.Hold(ctx, h); err != nil && ctx.Err() == nil {
				t.Error(err)
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// Killed at any moment, and begun again: each operation is whole in the ledger or in a file that
// the ledger has the digest of, and what is not whole in the ledger is in just one that took it.
func TestI10_E2E_KilledArchive(t *testing.T) {
	const n = 500
	s, store := settledSite(t)
	ids := settledOnes(t, store, "key-", n)
	dir := filepath.Join(s.dir, "made", "archive")
	args := []string{"archive", "--settled-for", "0s", "--to", dir, "--json"}
	quiet := othersWrite(t, store) // so that it rests, and a kill finds it at work
	mortal := *s
	mortal.env = append(slices.Clone(s.env), "PGAPPNAME=mortal")
	for kills := range 5 {
		p := mortal.start(args...)
		after := time.Duration(100+200*kills+rand.IntN(300)) * time.Millisecond
		time.Sleep(after)
		_ = p.cmd.Process.Kill()
		p.finish()
		s.unserved("mortal")
		whole, gone := s.shelved(store, dir, ids)
		t.Logf("killed after %s: %d whole, %d archived", after, whole, gone)
		for _, a := range need.Get(store.Archives(t.Context()))(t) {
			if a.ClosedAt.IsZero() { // the time of the one that was killed is over
				a.ClosedAt = time.Now()
				need.OK(t, store.ChangeArchive(t.Context(), a))
			}
		}
	}
	quiet()
	s.must(0, args...)
	if whole, gone := s.shelved(store, dir, ids); whole != 1 || gone != n-1 {
		t.Fatalf("%d are whole in the ledger, %d archived: the newest alone stays", whole, gone)
	}
	for _, id := range []string{ids[2], ids[3]} { // one has a stub, the other left nothing
		if o := s.must(0, "show", id, "--archive", dir, "--json"); !strings.Contains(o.Out, `"n":`) || !strings.Contains(o.Out, `"verb":"settle"`) {
			t.Errorf("%s is shown as %s", id, o.Out)
		}
	}
	if r := s.must(3, "show", ids[3]); !strings.Contains(r.Out+r.Err, "--archive") {
		t.Errorf("where it may be is not said: %s%s", r.Out, r.Err)
	}
	if r := s.must(3, "settle", ledger.Handle{Operation: ledger.NewID(), N: 1, Change: ledger.NewID()}.String(), "--outcome", "committed"); !strings.Contains(r.Err, "no attempt") || !strings.Contains(r.Err, "zgrep -h KEY") {
		t.Errorf("that the operation of a late answer may be archived is not said: %s%s", r.Out, r.Err)
	}
	if r := s.must(0, "archive", "list", "--from", dir); !strings.Contains(r.Out, "ok") || strings.Contains(r.Out, "damaged") {
		t.Errorf("%s", r.Out)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.part")); len(left) > 1 {
		t.Errorf("%v are left", left)
	}
	if d := need.Get(store.(interface {
		Deviations(context.Context) ([]ledger.Deviation, error)
	}).Deviations(t.Context()))(t); len(d) > 0 {
		t.Errorf("%+v", d)
	}
	for _, args := range [][]string{{"log"}, {"report"}} {
		if r := s.must(0, args...); !strings.Contains(r.Out+r.Err, "499 operations that may be of this time are archived: `indoubt archive list`") {
			t.Errorf("%v: %s%s", args, r.Out, r.Err)
		}
		need.Contains(t, s.must(0, append(args, "--json")...).Out, `"archived":499`)
	}
	for _, args := range [][]string{{"list", "--all", "-o", "jsonl"}, {"log", "--all", "-o", "jsonl"}, {"redact", "--filter", "state:committed", "--dry-run"}} { // what is not in them
		need.Contains(t, s.must(0, args...).Err, "499 operations that may be of this time are archived")
	}
	for _, more := range []string{"--json", "--dry-run"} { // there is nothing to archive, and it says so all the same
		if r := s.must(1, "archive", "--settled-for", "0s", "--to", s.policy, more); !strings.Contains(r.Out+r.Err, "a file stands in the way") {
			t.Errorf("%s: %s%s", more, r.Out, r.Err)
		}
	}
	files := need.Get(filepath.Glob(filepath.Join(dir, "*.gz")))(t)
	for _, f := range files { // a foreign file beside them harms no one; a damaged one is told of
		need.OK(t, os.Truncate(f, need.Get(os.Stat(f))(t).Size()/2))
	}
	need.OK(t, os.WriteFile(filepath.Join(dir, "notes.jsonl.gz"), []byte("foreign"), 0o600))
	if r := s.must(1, "archive", "list", "--from", dir); !strings.Contains(r.Out+r.Err, "damaged") || !strings.Contains(r.Out+r.Err, "backup") {
		t.Errorf("%s%s", r.Out, r.Err)
	}
}

// unserved waits until a server has done with the clients of that name: what a client had
// asked for when it was killed may be committed after its end.
func (s *site) unserved(name string) {
	s.Helper()
	if !s.afar {
		return
	}
	s.eventually("the server has done with who was killed", func() bool {
		out := need.Get(pgtest.Psql(s, s.ledger, "SELECT count(*) FROM pg_stat_activity WHERE application_name = '"+name+"'"))(s)
		return strings.TrimSpace(out) == "0"
	})
}

// shelved counts operations that are whole in the ledger, and that are in a file alone.
func (s *site) shelved(store ledger.Store, dir string, ids []string) (whole, gone int) {
	s.Helper()
	in := map[string]map[string]int{} // by id: how often in which file
	removed := 0
	for _, a := range need.Get(store.Archives(s.Context()))(s) {
		if removed += a.Removed; a.Digest == "" {
			continue
		}
		need.OK(s, archive.Check(dir, a))
		need.OK(s, archive.Each(dir, a.File, func(w ledger.Whole) bool {
			if in[w.Operation.ID] == nil {
				in[w.Operation.ID] = map[string]int{}
			}
			in[w.Operation.ID][a.File]++
			return true
		}))
	}
	for _, id := range ids {
		rec, err := store.Read(s.Context(), ledger.Locator{ID: id})
		switch {
		case err == nil && rec.Operation.Archive == "":
			need.Must(s, len(rec.Operation.Input) != 0 && len(rec.Attempts) == 1, "%s is a part: %+v", id, rec)
			whole++
		case err == nil && in[id][rec.Operation.Archive] == 1, errors.Is(err, ledger.ErrNotFound) && len(in[id]) > 0:
			gone++
		default:
			s.Fatalf("%s is lost: %v, in %v", id, err, in[id])
		}
	}
	need.Must(s, removed == gone, "%d have left, and the ledger says %d", gone, removed)
	return whole, gone
}

// What returned from an archive and was archived again is shown with all that either file has.
func TestE2E_ArchivedTwice(t *testing.T) {
	s, store := settledSite(t)
	dir, actor := filepath.Join(s.dir, "archive"), ledger.Actor{Name: "ana", Terminal: true}
	decide := func(verb ledger.Verb, id string) {
		rec := need.Get(store.Read(t.Context(), ledger.Locator{ID: id}))(t)
		need.Get(ledger.Decide(t.Context(), store, ledger.Decision{ChangeID: ledger.NewID(), ID: id, Version: rec.Operation.Version, Verb: verb, Reason: "looked", Actor: actor}))(t)
	}
	req := ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(), Kind: "mail.send", Key: "k",
		Input: json.RawMessage(`{"to":"jane"}`), Deadline: time.Minute, Actor: actor}
	settle := func(as ledger.Outcome) {
		need.Get(ledger.Settle(t.Context(), store, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: req.AttemptID, Outcome: as, Actor: actor}))(t)
	}
	need.Get(ledger.Begin(t.Context(), store, req))(t)
	settle(ledger.OutcomeUncertain)
	decide(ledger.VerbDeny, req.OperationID)
	settledOnes(t, store, "a", 1)
	other := ledger.Archive{ID: "other", File: "other.gz", Before: time.Now(), Actor: ledger.Actor{Name: "noor"}, Until: time.Now().Add(time.Hour)}
	need.OK(t, store.ChangeArchive(t.Context(), other))
	need.Contains(t, s.must(4, "archive", "--settled-for", "0s", "--to", dir).Err, "noor is archiving")
	other.ClosedAt = time.Now()
	need.OK(t, store.ChangeArchive(t.Context(), other))
	s.must(0, "archive", "--settled-for", "0s", "--to", dir)
	decide(ledger.VerbAbandon, req.OperationID)
	settledOnes(t, store, "b", 1)
	s.must(0, "archive", "--settled-for", "0s", "--to", dir)
	r := s.must(0, "show", req.OperationID, "--archive", dir, "--json")
	for _, part := range []string{`"to":"jane"`, `"begin"`, `"deny"`, `"return"`, `"verb":"abandon"`} {
		need.That(t, strings.Contains(r.Out, part), "it has no %s: %s", part, r.Out)
	}
}
