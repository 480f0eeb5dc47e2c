//go:build soak

package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
	"indoubt/ledger/postgres/pgtest"
)

// I3: a primary that was taken over from comes back, is the first of the address, and thinks
// that it is at home. Who has seen its successor does not go back to it.
func TestI3_APrimaryThatComesBack(t *testing.T) {
	first := pgtest.Start(t, pgtest.Options{Durable: true})
	need.OK(t, first.Exec("postgres", "CREATE DATABASE ledger"))
	need.OK(t, need.Get(Create(ctx, first.URL("ledger"), Options{}))(t).Close())
	second := pgtest.Start(t, pgtest.Options{From: first, Durable: true})
	third := pgtest.Start(t, pgtest.Options{From: second, Durable: true})
	address := with(strings.Replace(first.URL("ledger"), "/ledger", fmt.Sprintf(",127.0.0.1:%d,127.0.0.1:%d/ledger", second.Port, third.Port), 1), "target_session_attrs=read-write")
	s := opened(t, address, Options{AsyncStandby: "the third is waited for by hand"})
	vera := ledger.Actor{Name: "vera", Terminal: true}
	reconnect := func() { s.pool.Load().Reset() }
	begin := func(key string) ledger.BeginAnswer {
		t.Helper()
		return need.Get(ledger.Begin(ctx, s, begun(key)))(t).Answer
	}
	need.Equal(t, begin("on the first"), ledger.AnswerBegun)
	settled(t, first, third)
	first.Kill()
	need.OK(t, second.Promote())
	need.OK(t, s.Adopt(ctx, vera, ""))
	need.OK(t, s.LiftHold(ctx, ledger.Lift{Scope: "all", LookFirst: new(time.Duration), Actor: vera, Reason: "looked"}))
	need.Equal(t, begin("on the second"), ledger.AnswerBegun)
	settled(t, second, third)

	need.OK(t, first.Up())
	reconnect()
	need.Equal(t, begin("on the second"), ledger.AnswerInProgress)
	second.Kill()
	reconnect()
	_, err := ledger.Begin(ctx, s, begun("on none"))
	said := (*Error)(nil)
	need.That(t, errors.As(err, &said) && said.Code == Old && errors.Is(err, ledger.ErrLost) && strings.Contains(err.Error(), fmt.Sprintf("127.0.0.1:%d lacks", first.Port)), "%v", err)

	// One that was made from the second follows it, wherever it stands in the address.
	need.OK(t, third.Promote())
	need.OK(t, s.Adopt(ctx, vera, ""))
	need.OK(t, s.LiftHold(ctx, ledger.Lift{Scope: "all", LookFirst: new(time.Duration), Actor: vera, Reason: "looked"}))
	need.Equal(t, begin("on the second"), ledger.AnswerInProgress)
	need.OK(t, second.Up())
	reconnect()
	need.Equal(t, begin("on the third"), ledger.AnswerBegun)
	need.Equal(t, strings.TrimSpace(psql(t, third.URL("ledger"), `SELECT count(*) FROM indoubt.op WHERE name = 'on the third'`)), "1")
}

// settled waits until a standby has what its primary has.
func settled(t *testing.T, primary, standby *pgtest.Cluster) {
	t.Helper()
	count := func(c *pgtest.Cluster) string { return psql(t, c.URL("ledger"), `SELECT count(*) FROM indoubt.ev`) }
	for end := time.Now().Add(amply); count(primary) != count(standby); time.Sleep(20 * time.Millisecond) {
		need.Must(t, time.Now().Before(end), "the standby does not follow")
	}
}

// Behind a pooler a connection is to one server now, and then to another.
func TestI3_APoolerThatGoesBackToAnOldPrimary(t *testing.T) {
	url := made(t)
	s := opened(t, with(url, modes[1]), Options{})
	_ = need.Get(ledger.Begin(ctx, s, begun("before")))(t)
	s.succession.sees(psql(t, url, databaseQuery) + " 7.2.1.1") // it was on another server meanwhile
	for _, do := range []func() error{
		func() error { _, err := ledger.Begin(ctx, s, begun("after")); return err },
		func() error { _, err := s.Page(ctx, ledger.Query{Limit: 1}); return err },
		func() error { _, err := s.Info(ctx); return err },
	} {
		err := do()
		said := (*Error)(nil)
		need.That(t, errors.As(err, &said) && said.Code == Old && strings.HasPrefix(said.Why, "127.0.0.1:"), "%v", err)
	}
	need.Equal(t, psql(t, url, `SELECT count(*) FROM indoubt.op`), "1")
}
