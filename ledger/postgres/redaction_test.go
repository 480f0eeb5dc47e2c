//go:build soak

package postgres

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

func TestRedaction(t *testing.T) {
	t.Run("I8_AsTheHistorySays", redactedAsTheHistorySays)
	t.Run("I4_Key", redactedKey)
}

// A redaction leaves the ledger as its history says.
func redactedAsTheHistorySays(t *testing.T) {
	s := keyed(t, made(t), Options{})
	ledgertest.Redacted(t, s, time.Now(), "")
	if d, err := s.Deviations(ctx); err != nil || len(d) != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if left, err := s.Scrub(ctx); err != nil || !strings.Contains(left, "WAL") {
		t.Errorf("%q %v", left, err)
	}
}

// I4, I11: a key that was redacted is answered as before to who has the ledger's key; who has not begins nothing,
// also where the ledger was given its key later.
func redactedKey(t *testing.T) {
	url := made(t)
	bare := opened(t, url, Options{})
	maya := ledger.Actor{Name: "maya"}
	done := func(key string) ledger.Operation {
		res := need.Get(ledger.Begin(ctx, bare, begun(key)))(t)
		return need.Get(ledger.Settle(ctx, bare, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: res.Attempt.ID,
			Outcome: ledger.OutcomeCommitted, Status: -1, Actor: begun("").Actor}))(t).After
	}
	redact := func(s *Store, o ledger.Operation) error {
		_, err := ledger.Decide(ctx, s, ledger.Decision{ChangeID: ledger.NewID(), ID: o.ID, Version: o.Version, Verb: ledger.VerbRedact,
			Key: true, Reason: "request 7", Actor: maya})
		return err
	}
	o, other := done("order-123"), done("order-124")
	need.That(t, errors.Is(redact(bare, o), ledger.ErrNoKey), "redacted in a ledger that has no key")
	s := keyed(t, url, Options{})
	need.OK(t, redact(s, o))
	res := need.Get(ledger.Begin(ctx, s, begun("order-123")))(t)
	need.That(t, res.Answer == ledger.AnswerFinished && res.Operation.ID == o.ID, "begun again: %s %s", res.Answer, res.Operation.ID)

	var no *digestkey.Error
	need.That(t, errors.As(redact(bare, other), &no), "redacted without the key")
	_, err := ledger.Begin(ctx, bare, begun("order-123"))
	need.That(t, errors.As(err, &no), "begun without the key: %v", err)
	res = need.Get(ledger.Begin(ctx, bare, begun("order-124")))(t)
	need.Equal(t, res.Answer, ledger.AnswerFinished)
	sum := sha256.Sum256([]byte("order-123"))
	rows := psql(t, url, `SELECT o::text FROM indoubt.op o; SELECT e::text FROM indoubt.ev e`)
	need.That(t, !strings.Contains(rows, "order-123") && !strings.Contains(rows, hex.EncodeToString(sum[:])), "%s", rows)
}
