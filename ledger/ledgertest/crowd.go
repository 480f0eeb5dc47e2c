package ledgertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
)

// crowdKeys are the keys that a crowd plays with: few, so that they meet.
const crowdKeys = 12

// Mill makes random changes of a few operations, as one of many clients that do, and
// returns the ids of those that the ledger has acknowledged. What others have moved,
// hold is refused; anything else that fails is an error.
func Mill(s ledger.Store, client string, moves int, r *rand.Rand) (acknowledged []string, err error) {
	m := &mill{s: s, client: client, r: r}
	for range moves {
		id, err := m.move()
		var moved *ledger.MovedError
		var refused *ledger.RefusedError
		switch {
		case err == nil && id != "":
			acknowledged = append(acknowledged, id)
		case err == nil, errors.As(err, &moved), errors.As(err, &refused), errors.Is(err, ledger.ErrNotFound):
		default:
			return nil, err
		}
	}
	return acknowledged, nil
}

type mill struct {
	s      ledger.Store
	client string
	r      *rand.Rand
	n      int
}

func (m *mill) id() string {
	m.n++
	return fmt.Sprintf("%s-%d", m.client, m.n)
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// move makes one change, and returns its id where it changed something.
func (m *mill) move() (id string, err error) {
	key, r := fmt.Sprint("key-", m.r.IntN(crowdKeys)), m.r
	rec, err := m.s.Read(ctx, ledger.Locator{Kind: "k", Key: key})
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return "", err
	}
	o, id, actor := rec.Operation, m.id(), maya
	actor.Name = m.client
	changed := func(a ledger.Applied, err error) (string, error) {
		if a.Noop {
			id = ""
		}
		return id, err
	}
	switch move := r.IntN(12); {
	case !rec.Found, move < 2:
		res, err := ledger.Begin(ctx, m.s, ledger.BeginRequest{ChangeID: id, OperationID: m.id(), AttemptID: m.id(), Kind: "k", Key: key, Token: "indoubt-" + key, TokenSent: true,
			Target: pick(r, "", "", "web"), Sender: "pipeline", Deadline: time.Minute, Actor: billing})
		if res.Answer != ledger.AnswerBegun {
			id = ""
		}
		return id, err
	case move < 6 && o.LiveAttempt != "", move < 3 && len(rec.Attempts) > 0:
		attempt := o.LiveAttempt
		if attempt == "" { // a late answer
			attempt = pick(r, rec.Attempts...).ID
		}
		req := ledger.SettleRequest{ChangeID: id, AttemptID: attempt, Actor: billing, Outcome: pick(r, ledger.OutcomeCommitted, ledger.OutcomeFailed, ledger.OutcomeUncertain, ledger.OutcomeUncertain)}
		switch req.Outcome {
		case ledger.OutcomeFailed:
			req.Proof = ledger.Refused
		case ledger.OutcomeCommitted:
			req.Receipt = pick(r, "", "pi_1", "pi_2")
		}
		return changed(ledger.Settle(ctx, m.s, req))
	case move < 8:
		d := ledger.Decision{ChangeID: id, ID: o.ID, Version: o.Version, Reason: "because", Actor: actor, Until: time.Now().Add(time.Hour), Truth: pick(r, ledger.Truths...),
			Verb: pick(r, ledger.VerbConfirm, ledger.VerbDeny, ledger.VerbAbandon, ledger.VerbAck, ledger.VerbPark, ledger.VerbUndo, ledger.VerbNote)}
		if d.Verb != ledger.VerbPark {
			d.Until = time.Time{}
		}
		if d.Verb != ledger.VerbAck {
			d.Truth = ""
		}
		return changed(ledger.Decide(ctx, m.s, d))
	case move < 10:
		g := ledger.AllowRequest{ChangeID: id, AllowID: m.id(), OperationID: o.ID, Version: o.Version, Sender: "http", Basis: pick(r, ledger.BasisProof, ledger.BasisRiskAccepted),
			Actor: actor, Reason: "because", ExpiresAt: time.Now().Add(time.Hour)}
		if r.IntN(2) == 0 {
			g.AttemptID, g.Deadline = m.id(), time.Minute
		}
		for _, other := range rec.Landings() {
			g.Related = append(g.Related, other.ID)
		}
		return changed(ledger.Allow(ctx, m.s, g))
	case move < 11:
		verdict, now := pick(r, ledger.Landed, ledger.NotThere, ledger.Twice, ledger.CannotTell), rec.Now
		receipts := map[ledger.Verdict][]string{ledger.Landed: {"pi_1"}, ledger.Twice: {"pi_1", "pi_2"}}[verdict]
		_, err := ledger.Observe(ctx, m.s, ledger.Observation{ChangeID: id, Version: o.Version, Settles: true, Actor: engine,
			Read: ledger.Read{ID: m.id(), OperationID: o.ID, BeganAt: now, EndedAt: now.Add(time.Millisecond), Verdict: verdict, Reason: "read", Found: len(receipts), Receipts: receipts, Digest: "p1", Actor: "auto"}})
		return "", err // one that moves nothing is no event
	}
	_, err = m.s.Lead(ctx, m.client, ledger.RankEngine, []string{ledger.LeadLedger})
	return "", err
}

// Milled returns an error unless the ledger holds together after its crowd: every
// acknowledged change is in the history once, each operation's history is one line from
// state to state, one attempt of it at most is in flight, and no permission was used twice.
func Milled(s ledger.Store, acknowledged []string) error {
	var wrong []string
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	events, err := s.History(ctx, ledger.HistoryQuery{Limit: 1_000_000})
	if err != nil {
		return err
	}
	times, last := map[string]int{}, map[string]ledger.Event{}
	for _, e := range events {
		times[e.ID]++
		if e.OperationID == "" {
			continue
		}
		if was, ok := last[e.OperationID]; ok && (e.Version < was.Version || e.From != "" && was.To != "" && e.From != was.To) {
			say("%s: %s from %q at version %d, after %s to %q at %d", e.OperationID, e.Verb, e.From, e.Version, was.Verb, was.To, was.Version)
		}
		if e.To == "" { // it left the state as it was
			e.To = last[e.OperationID].To
		}
		last[e.OperationID] = e
	}
	for _, id := range acknowledged {
		if times[id] != 1 {
			say("the change %s was acknowledged, and is %d times in the history", id, times[id])
		}
	}
	for id, e := range last {
		rec, err := s.Read(ctx, ledger.Locator{ID: id})
		if err != nil {
			return err
		}
		var live, used []string
		for _, a := range rec.Attempts {
			if a.Outcome == "" {
				live = append(live, a.ID)
			}
			if a.AllowID != "" {
				used = append(used, a.AllowID)
			}
		}
		slices.Sort(used)
		if o := rec.Operation; o.State != e.To || len(live) > 1 || len(slices.Compact(slices.Clone(used))) != len(used) || strings.Join(live, "") != o.LiveAttempt {
			say("%s is %s, its history ends in %s; in flight are %q, and it says %q; permissions %q", id, o.State, e.To, live, o.LiveAttempt, used)
		}
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, "\n"))
	}
	return nil
}
