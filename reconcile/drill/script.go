package drill

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"indoubt/ledger"
)

// script is the history of the night: what happens when, told in any order and
// played in the order of time. Between two steps nothing happens, so that a
// world comes out the same each time it is made from the same seed.
type script struct {
	w      *World
	steps  []step
	random *rand.Rand
	wishes int
	stay   []Trouble // troubles that outlast the history
}

type step struct {
	at time.Duration // before the history ends; negative
	do func(ctx context.Context) error
}

func (s *script) at(at time.Duration, do func(ctx context.Context) error) {
	s.steps = append(s.steps, step{at, do})
}

// play makes the history happen.
func (s *script) play(ctx context.Context) error {
	slices.SortStableFunc(s.steps, func(a, b step) int { return int(a.at/time.Millisecond) - int(b.at/time.Millisecond) })
	rebased := false
	for i, step := range s.steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if step.at > -time.Minute && !rebased && s.w.options.Now.IsZero() {
			// Making the history took a while. What is to be seconds old on the
			// screen must be so on a slow machine too.
			s.w.start, rebased = time.Now().Truncate(time.Millisecond), true
		}
		now := s.w.start.Add(step.at)
		s.w.set.Store(&now)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("making the history, %s before its end: %w", -step.at, err)
		}
		s.w.options.Progress("living through the night", float64(i+1)/float64(len(s.steps)))
	}
	s.w.Downstream.Recover()
	s.w.Downstream.Meet(s.stay...)
	return nil
}

// The pipelines. Those with a number are killed in the course of the night.
var staff = []string{"billing", "signup", "news", "release", "release-1", "billing-2"}

// pipeline is one of them, at the time it is.
func (s *script) pipeline(name string) *pipeline {
	p := s.w.pipelines[name]
	p.setClock(s.w.now())
	return p
}

// wish makes something to want. Ids and tokens follow from the seed.
func (s *script) wish(kind string, at time.Duration, input []byte) wish {
	s.wishes++
	name := fmt.Sprintf("%s-%d", kind, s.wishes)
	return wish{Name: name, Kind: kind, Key: fmt.Sprintf("k-%05x", digest(s.w.options.Seed, "key", name)>>44),
		ID: s.id(at, name), Token: s.token(name), Input: input}
}

// id is a UUIDv7 of a moment in the history.
func (s *script) id(at time.Duration, name string) string {
	var id uuid.UUID
	binary.BigEndian.PutUint64(id[8:], digest(s.w.options.Seed, "id", name))
	binary.BigEndian.PutUint64(id[:], uint64(s.w.start.Add(at).UnixMilli())<<16|digest(s.w.options.Seed, "id7", name)&0xffff)
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

func (s *script) token(name string) string {
	const letters = "ABCDEFGHJKMNPQRSTVWXYZ0123456789"
	token := []byte("indoubt-")
	for x, i := digest(s.w.options.Seed, "token", name), 0; i < 12; i++ {
		token = append(token, letters[x&31])
		x >>= 5
	}
	return string(token)
}

// write lets a pipeline write things one after the other and get its answers.
func (s *script) write(at, took time.Duration, name string, wishes ...wish) {
	for i, w := range wishes {
		s.at(at+time.Duration(i)*took, func(context.Context) error {
			f := s.pipeline(name).send(w, s.w.now().Add(took))
			<-f.done
			return f.err
		})
	}
}

// lose lets a pipeline write and give up waiting after a while. What became of
// it is the fault's affair.
func (s *script) lose(at, took time.Duration, name string, fault Fault, wishes ...wish) {
	if len(wishes) == 0 {
		return
	}
	s.send(at, name, fault, 0, wishes...)
	s.at(at+took, func(context.Context) error { return s.pipeline(name).giveUp(wishes) })
}

// send lets a pipeline send and wait: so long, or without end.
func (s *script) send(at time.Duration, name string, fault Fault, long time.Duration, wishes ...wish) {
	s.at(at, func(ctx context.Context) error {
		for _, w := range wishes {
			s.w.Downstream.Meet(Trouble{Fault: fault, Match: w.shows(), Times: 1, For: long})
		}
		s.w.hanging += len(wishes)
		p := s.pipeline(name)
		for _, w := range wishes {
			p.send(w, time.Time{})
		}
		return s.w.hungAll(ctx)
	})
}

// crash lets a pipeline be killed between sending and hearing the answer.
func (s *script) crash(at time.Duration, name string, fault Fault, w wish) {
	s.send(at, name, fault, 0, w)
	s.at(at, func(context.Context) error { s.w.pipelines[name].kill(); return nil })
}

// hungAll waits until every request that is to hang has come so far: then its
// effect is there, if it has one.
func (w *World) hungAll(ctx context.Context) error {
	for limit := time.Now().Add(15 * time.Second); w.Downstream.Hung() < w.hanging; {
		if time.Now().After(limit) {
			return fmt.Errorf("%d of %d requests came", w.Downstream.Hung(), w.hanging)
		}
		select {
		case <-time.After(500 * time.Microsecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// check makes the engine's due reads once.
func (s *script) check(at time.Duration) {
	s.at(at, func(ctx context.Context) error {
		_, err := s.w.engine.Once(ctx, nil)
		return err
	})
}

// expire notices deadlines that have passed, as any reader of the ledger does.
func (s *script) expire(at time.Duration) {
	s.at(at, func(ctx context.Context) error {
		_, err := s.w.store.Expire(ctx, 100)
		return err
	})
}

// decide lets a person decide about the operation of a wish, as it stands.
func (s *script) decide(at time.Duration, who string, verb ledger.Verb, w wish, d ledger.Decision) {
	s.at(at, func(ctx context.Context) error {
		rec, err := s.w.store.Read(ctx, ledger.Locator{ID: w.ID})
		if err != nil {
			return err
		}
		d.ChangeID, d.ID, d.Version, d.Verb, d.Actor = ledger.NewID(), w.ID, rec.Operation.Version, verb, person(who)
		if verb == ledger.VerbConfirm && d.Receipts == nil {
			d.Receipts = s.w.receipts(w)
		}
		_, err = ledger.Decide(ctx, s.w.store, d)
		return err
	})
}

// allow lets a person hand one more attempt to the pipeline.
func (s *script) allow(at time.Duration, who string, w wish, basis ledger.Basis, reason string) {
	s.at(at, func(ctx context.Context) error {
		rec, err := s.w.store.Read(ctx, ledger.Locator{ID: w.ID})
		if err != nil {
			return err
		}
		_, err = ledger.Allow(ctx, s.w.store, ledger.AllowRequest{ChangeID: ledger.NewID(), AllowID: ledger.NewID(), OperationID: w.ID,
			Version: rec.Operation.Version, Basis: basis, Sender: "pipeline", Actor: person(who), Reason: reason,
			ExpiresAt: s.w.now().Add(4 * time.Hour)})
		return err
	})
}

// receipts are what a person finds when they look the wish up at the downstream.
func (w *World) receipts(wanted wish) []string {
	return ledger.Each(w.Downstream.Effects(wanted.shows()), func(e Effect) string { return e.ID })
}
