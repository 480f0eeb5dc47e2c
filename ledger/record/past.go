package record

import (
	"context"
	"errors"
	"time"

	"indoubt/ledger"
)

// Past is a request that another program sent, or may have, and has given up. Its ID
// is needed: it is the same whenever the request is taken over.
type Past struct {
	Request
	SentAt  time.Time      // the earliest time at which it may have been sent; needed
	Outcome ledger.Outcome // uncertain, or failed with a Proof
	Proof   ledger.Proof
	Error   string
}

// TakenOver says what became of a Past.
type TakenOver string

const (
	TakenNew   TakenOver = "recorded"  // it is in the ledger now
	TakenKnown TakenOver = "known"     // it was, by the same ID
	TakenKey   TakenOver = "known_key" // another operation stands for the request under its key
	TakenReuse TakenOver = "key_reused"
)

// TakeOver records a request that was sent before. Nothing is ever sent: what the key
// stands for already is left as it is, and a permission is not consumed. After a crash
// between begin and settle the same call ends what it began. With rehearse, nothing is
// recorded. Errors: *NoKeyError, those of the store.
func (r *Recorder) TakeOver(ctx context.Context, p Past, rehearse bool) (TakenOver, ledger.Operation, error) {
	if p.ID == "" || p.SentAt.IsZero() {
		return "", ledger.Operation{}, errors.New("what is taken over needs an id and a time")
	}
	p.Sender = ledger.SenderImport
	rule := r.Rule(p.Kind)
	req, secrets, err := r.request(p.Request, rule)
	if err != nil {
		return "", ledger.Operation{}, err
	}
	req.SentAt, req.AwaitsDelivery = p.SentAt, false
	req.ChangeID, req.AttemptID = ledger.DeriveID(p.ID, "begin"), ledger.DeriveID(p.ID, "attempt")
	req.Key = ledger.SenderImport + "-" + p.ID // each row is a request of its own
	if p.Key != "" || len(rule.KeyFrom) > 0 {
		if req, err = r.named(ctx, p.Request, rule, req); err != nil {
			return "", ledger.Operation{}, err
		}
	}
	res, err := r.beginAs(ctx, recording{r.store, rule.Price}, rule, req)
	switch o := res.Operation; {
	case err != nil:
		return "", o, err
	case res.Answer != ledger.AnswerBegun && o.ID == req.OperationID: // rehearsed, or begun elsewhere a moment ago
		return TakenKnown, o, nil
	case res.Answer != ledger.AnswerBegun && o.AsksElse(req):
		return TakenReuse, o, nil
	case res.Answer != ledger.AnswerBegun:
		return TakenKey, o, nil
	case rehearse:
		return TakenNew, o, nil
	}
	r.AddSecrets(req.AttemptID, secrets...)
	defer r.forget(req.AttemptID)
	settled := ledger.SettleRequest{ChangeID: ledger.DeriveID(p.ID, "settle"), AttemptID: req.AttemptID, Outcome: p.Outcome, Proof: p.Proof,
		Error: p.Error, Status: -1}
	applied, err := r.Settle(ctx, settled)
	return TakenNew, applied.After, err
}
