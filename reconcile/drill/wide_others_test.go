package drill

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"indoubt/ledger"
	"indoubt/reconcile"
)

var someone = ledger.Actor{Name: "maya", Host: "desk", Terminal: true}

// decide lets a person settle an operation, rightly or wrongly.
func (u *wide) decide(w *wideWish) {
	rec := u.read(w)
	verbs := []ledger.Verb{ledger.VerbConfirm, ledger.VerbDeny, ledger.VerbAbandon}
	switch rec.Operation.StateAt(rec.Now) {
	case ledger.Uncertain:
	case ledger.Committed, ledger.Failed, ledger.Abandoned:
		verbs = []ledger.Verb{ledger.VerbUndo}
		if rec.Operation.Conflict != ledger.NoConflict {
			verbs = []ledger.Verb{ledger.VerbAck}
		}
	default:
		return
	}
	d := ledger.Decision{ChangeID: ledger.NewID(), ID: w.op, Version: rec.Operation.Version, Verb: one(u.random, verbs...), Reason: "by hand", Actor: someone,
		Looks: u.policy.Load().Kind(w.name).Looks}
	if d.Verb == ledger.VerbAck {
		d.Truth, d.Reference = one(u.random, slices.DeleteFunc(slices.Clone(ledger.Truths), func(t ledger.Truth) bool { return rec.Untrue(t) != "" })...), "refund"
		if d.Truth == ledger.LandedOnce && len(rec.Operation.Receipts) > 1 {
			d.Receipts = rec.Operation.Receipts[:1]
		}
	}
	applied, err := ledger.Decide(u.ctx, u.store, d)
	u.tell("maya %ss %s: %v", d.Verb, w.op, err)
	if err == nil {
		w.words++
		switch w.word = d.Verb; d.Truth {
		case ledger.NotLanded:
			w.word = ledger.VerbDeny
		case ledger.TakenBack, ledger.BothWanted, ledger.LandedOnce:
			w.word = map[ledger.State]ledger.Verb{ledger.Committed: ledger.VerbConfirm, ledger.Abandoned: ledger.VerbAbandon}[applied.After.State]
		}
	}
}

// again lets a person send once more, at their risk if need be, or the pipeline
// come for it by itself.
func (u *wide) again(w *wideWish) {
	if odds(u.random, 2) {
		u.send(w, u.fate())
		return
	}
	rec := u.read(w)
	u.plan(w)
	u.down.fillTable(u)
	defer u.down.takeTable(u)
	plan, err := u.engine.Plan(u.ctx, w.op)
	if err != nil {
		u.tell("maya is shown nothing of %s: %v", w.op, err)
		return
	}
	res, err := u.engine.Retry(u.ctx, reconcile.RetryRequest{ID: w.op, Version: rec.Operation.Version, Basis: ledger.BasisRiskAccepted, Reason: "it must go out",
		Showing: plan.Showing, Actor: someone, LossTyped: true})
	u.tell("maya retries %s: %s, %s (%s) %v", w.op, res.Did, res.Attempt.Basis, res.Why, err)
	if res.Did == reconcile.DidSend && res.Attempt.Basis == ledger.BasisRiskAccepted {
		w.risks++
	}
	if res.Did == reconcile.DidAllow && odds(u.random, 2) {
		u.send(w, u.fate())
	}
}

// plan says what becomes of the engine's own sends of an operation.
func (u *wide) plan(w *wideWish) {
	u.down.mu.Lock()
	defer u.down.mu.Unlock()
	if w.op != "" && len(u.down.plans[w.op]) == 0 {
		u.down.plans[w.op] = []string{one(u.random, "", "cut", "commit and cut", "commit and 502", "late"), one(u.random, "", "cut")}
	}
}

// meddle is what others do at the market.
func (u *wide) meddle() {
	w := u.any()
	switch u.random.IntN(6) {
	case 4:
		if w == nil {
			return
		}
		// It is of its name and amount, and older than every attempt.
		at := u.now().Add(-24 * time.Hour)
		u.down.book(thing{Op: "somebody's", Ref: "older-" + strconv.Itoa(u.random.IntN(1e6)), Key: "older " + strconv.Itoa(u.random.IntN(1e6)), To: w.to, Amount: w.amount, At: at}, 0)
		for _, x := range u.wishes {
			x.rivalled = x.rivalled || x.to == w.to
		}
		u.tell("something older of the name of %s is there", w.op)
	case 5:
		if w == nil || w.token == "" {
			return
		}
		u.down.book(thing{Op: "somebody's", Ref: w.token + "X", Key: w.key + "X", To: "acct of theirs", Amount: 1, Note: "see " + w.token + " for more"}, 0)
		u.tell("somebody quotes the token of %s", w.op)
	case 0, 1:
		t := thing{Op: "somebody's", Ref: "their-" + strconv.Itoa(u.random.IntN(1e6)), Key: "theirs " + strconv.Itoa(u.random.IntN(1e6)), To: "acct of theirs", Amount: 1}
		if u.loose && w != nil {
			t.To, t.Amount = w.to, w.amount
		}
		u.down.book(t, 0)
		u.tell("somebody makes something")
	case 2:
		if w == nil || len(u.read(w).Attempts) == 0 || u.read(w).Operation.State == ledger.Uncertain || u.read(w).Operation.State == ledger.Pending {
			return // what is in doubt stays there to be found: the policy promises it
		}
		u.down.mu.Lock()
		for _, t := range u.down.things {
			if t.Op == w.op && !t.Deleted && !t.Shown.After(u.now()) {
				t.Deleted = true
				w.touched, u.deleted = true, true
				break
			}
		}
		u.down.mu.Unlock()
		u.tell("somebody deletes what %s made: %v", w.op, w.touched)
	case 3:
		if w == nil || w.idempotent {
			return
		}
		u.down.mu.Lock()
		for _, t := range u.down.things {
			if t.Op == w.op {
				t.Were = append(t.Were, t.Amount)
				t.Amount, t.Edited = t.Amount+20_000, true // which no operation wants
				w.touched = true
			}
		}
		u.down.mu.Unlock()
		u.tell("somebody edits what %s made", w.op)
	}
}

// meanwhile is another operation or a late effect that comes while a question is on its way.
func (u *wide) meanwhile() func() {
	before := u.any()
	if before == nil {
		return nil
	}
	w := u.made(before.form)
	w.key = fmt.Sprint("order-meanwhile-", len(u.wishes), u.random.IntN(1000))
	w.to, w.amount, w.fingerprint = before.to, before.amount, fmt.Sprint(before.to, before.amount)
	return func() { u.beginAnother(w) }
}

// beginAnother begins and commits an operation whose answer is not known yet.
func (u *wide) beginAnother(w *wideWish) {
	begun, err := ledger.Begin(u.ctx, u.store, ledger.BeginRequest{ChangeID: ledger.NewID(), OperationID: ledger.NewID(), AttemptID: ledger.NewID(),
		Kind: w.name, Key: w.key, Token: w.token, Fingerprint: w.fingerprint, Sender: "pipeline", TokenSent: true, KeyWorks: w.keys,
		Input: json.RawMessage(fmt.Sprintf(`{"to":%q,"amount":%d}`, w.to, w.amount)), Target: map[bool]string{true: w.to}[w.target],
		Deadline: 5 * time.Second, Actor: ledger.Actor{Name: "billing", Machine: true}})
	if err != nil || begun.Answer != ledger.AnswerBegun {
		u.Errorf("begin meanwhile: %s %v", begun.Answer, err)
		return
	}
	w.op = begun.Operation.ID
	t := wideTry{id: begun.Attempt.ID}
	t.made = []string{u.down.book(thing{Op: w.op, Ref: w.token, Key: w.key, To: w.to, Amount: w.amount}, 0)}
	w.attempts = []wideTry{t}
	u.mu.Lock()
	u.wishes = append(u.wishes, w)
	u.mu.Unlock()
	u.tell("meanwhile %s %s begins", w.name, w.op)
}
