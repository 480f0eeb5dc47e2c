//go:build soak

package postgres

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// A snapshot of the server that is put back is at home, and lacks what was recorded since. A program that lived on,
// and one that starts later under the same account, notice it: begins are held for everyone until it is adopted.
func TestI13_ASnapshotIsPutBack(t *testing.T) {
	t.Parallel()
	c := pgtest.Start(t, pgtest.Options{})
	need.OK(t, c.Exec("postgres", "CREATE DATABASE ledger"))
	url, o := c.URL("ledger"), Options{State: t.TempDir()}
	s := need.Get(Create(ctx, url, o))(t)
	need.OK(t, s.MakeRoles(ctx))
	psql(t, url, `CREATE ROLE ci LOGIN IN ROLE indoubt_writer; CREATE ROLE eng LOGIN IN ROLE indoubt_engine`)
	need.Equal(t, need.Get(ledger.Begin(ctx, s, begun("early")))(t).Answer, ledger.AnswerBegun, "the first")
	copied := func(from, to string) {
		t.Helper()
		c.Stop()
		if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	copied(c.Data(), c.Data()+".kept")
	need.OK(t, c.Up())
	need.Equal(t, need.Get(ledger.Begin(ctx, s, begun("lost")))(t).Answer, ledger.AnswerBegun, "it is sent")
	engine := need.Get(Open(ctx, pgtest.As(url, "eng"), Options{State: t.TempDir(), To: Check}))(t)
	defer engine.Close()
	need.Get(engine.Lead(ctx, "engine", 1, []string{"stripe"}))(t)
	_, _, err := engine.Follow(ctx, "", 100)
	need.OK(t, err)
	c.Stop()
	need.OK(t, os.RemoveAll(c.Data()))
	copied(c.Data()+".kept", c.Data())
	need.OK(t, c.Up())

	stranger := opened(t, url, Options{})
	need.Equal(t, need.Get(stranger.Info(ctx))(t).Lacks, "")
	later := opened(t, url, o)
	need.That(t, need.Get(later.Info(ctx))(t).Lacks != "", "who starts later is not told")
	_, err = ledger.Begin(ctx, opened(t, pgtest.As(url, "ci"), o), begun("lost"))
	need.That(t, errors.Is(err, ledger.ErrFailover), "an account that records and may not hold: %v", err)
	need.Get(engine.Lead(ctx, "engine", 1, []string{"other"}))(t)
	need.That(t, need.Get(stranger.Info(ctx))(t).Lacks != "", "an engine that followed it holds nothing")
	for _, who := range []*Store{s, later, stranger} {
		res := need.Get(ledger.Begin(ctx, who, begun("lost")))(t)
		need.That(t, res.Answer == ledger.AnswerHeld && strings.Contains(res.Why, "older state"), "%s: %s", res.Answer, res.Why)
	}
	vera := ledger.Actor{Name: "vera"}
	err = stranger.LiftHold(ctx, ledger.Lift{Scope: "all", LookFirst: new(time.Duration), Actor: vera, Reason: "no", ChangeID: ledger.NewID()})
	need.That(t, errors.Is(err, ledger.ErrFailover), "released: %v", err)

	need.OK(t, stranger.Adopt(ctx, ledger.Actor{Name: "vera"}, ""))
	need.Equal(t, need.Get(ledger.Begin(ctx, s, begun("lost")))(t).Answer, ledger.AnswerHeld, "it is adopted")
	need.OK(t, stranger.LiftHold(ctx, ledger.Lift{Scope: "all", LookFirst: new(time.Duration), Actor: vera, Reason: "looked", ChangeID: ledger.NewID()}))
	for _, who := range []*Store{s, later, stranger} {
		need.Equal(t, need.Get(ledger.Begin(ctx, who, begun(ledger.NewID())))(t).Answer, ledger.AnswerBegun, "it is released")
	}
}
