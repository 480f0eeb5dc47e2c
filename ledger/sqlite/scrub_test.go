package sqlite

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/digestkey"
	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
)

// After a redaction no byte of the text is in the files of the ledger.
func TestRedactedTextIsInNoFile(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	long := strings.Repeat("jane", 5000) // on pages of its own
	ledgertest.Redacted(t, s, s.now(), long)
	holds := func() (found []string) {
		for _, side := range []string{"", "-wal", "-shm"} {
			if text, err := os.ReadFile(s.path + side); err == nil && bytes.Contains(text, []byte("jane-of-gone")) {
				found = append(found, "ledger"+side)
			}
		}
		return found
	}
	need.Must(t, len(holds()) != 0, "the text is in none of them before")
	if left := need.Get(s.Scrub(ctx))(t); left != "copies and backups of the ledger" {
		t.Error(left)
	}
	if found := holds(); len(found) > 0 {
		t.Errorf("the text is in %s", found)
	}
	// Someone had the statistics made, which have samples of what is looked for.
	need.Get(rawDB(t, s.path).Exec(`ANALYZE`))(t)
	rec := need.Get(s.Read(ctx, ledger.Locator{ID: "kept"}))(t)
	need.Get(ledger.Decide(ctx, s, ledger.Decision{ChangeID: "once more", ID: "kept", Version: rec.Operation.Version, Verb: ledger.VerbRedact, Reason: "request 8", Actor: ann}))(t)
	need.Get(s.Scrub(ctx))(t)
	for _, side := range []string{"", "-wal"} {
		text, _ := os.ReadFile(s.path + side)
		need.That(t, !bytes.Contains(text, []byte("jane-of-kept")), "a sample is in ledger%s", side)
	}
	if d := need.Get(s.Deviations(ctx))(t); len(d) != 0 {
		t.Errorf("%+v", d)
	}
}

// I11: what is left of a short text cannot be made again without the ledger's key, and who lacks the key neither
// redacts nor begins.
func TestI11_WhatIsLeftNeedsTheKey(t *testing.T) {
	t.Parallel()
	redact := func(s *Store, id string) error {
		rec := need.Get(s.Read(ctx, ledger.Locator{ID: id}))(t)
		_, err := ledger.Decide(ctx, s, ledger.Decision{ChangeID: ledger.NewID(), ID: id, Version: rec.Operation.Version,
			Verb: ledger.VerbRedact, Key: true, Reason: "request 7", Actor: ann})
		return err
	}
	asked := func(key string) ledger.BeginRequest {
		return request(func(r *ledger.BeginRequest) {
			r.Key, r.Fingerprint, r.TTL = key, "f", 0
			r.Target, r.Marks = "invoice 7", ledger.Marks{Rules: "m", Values: []string{"cus_9"}}
		})
	}
	done := func(s *Store, key string) ledger.Operation {
		res := need.Get(ledger.Begin(ctx, s, asked(key)))(t)
		return need.Get(ledger.Settle(ctx, s, ledger.SettleRequest{ChangeID: ledger.NewID(), AttemptID: res.Attempt.ID,
			Outcome: ledger.OutcomeCommitted, Receipt: "pi_1", Actor: billing}))(t).After
	}
	var ledgers [2]*Store
	var left [2]ledger.Operation
	for i := range ledgers {
		ledgers[i], _ = openTest(t)
		left[i] = done(ledgers[i], "order-123")
		need.OK(t, redact(ledgers[i], left[i].ID))
		left[i] = need.Get(ledgers[i].Read(ctx, ledger.Locator{ID: left[i].ID}))(t).Operation
	}
	a, b := left[0], left[1]
	need.That(t, a.Key != b.Key && a.Target != b.Target && a.Receipt() != b.Receipt(), "two ledgers have the same digests: %+v, %+v", a, b)

	s := ledgers[0]
	need.Get(s.Scrub(ctx))(t)
	for _, text := range []string{"order-123", "invoice 7", "pi_1", "cus_9"} {
		sum := sha256.Sum256([]byte(text))
		for _, side := range []string{"", "-wal"} {
			file, _ := os.ReadFile(s.path + side)
			need.That(t, !bytes.Contains(file, []byte(hex.EncodeToString(sum[:]))), "the digest of %q is in ledger%s", text, side)
		}
	}

	kept := done(s, "order-124")
	need.OK(t, s.Close())
	need.OK(t, os.Rename(s.path+".key", s.path+".gone"))
	s = need.Get(Open(ctx, s.path, Options{}))(t)
	defer s.Close()
	before := need.Get(s.Info(ctx))(t).LastSeq
	var no *digestkey.Error
	need.That(t, errors.As(redact(s, kept.ID), &no), "redacted without the key")
	_, err := ledger.Begin(ctx, s, asked("order-123"))
	need.That(t, errors.As(err, &no), "begun without the key: %v", err)
	if ids, err := s.Keyed(ctx, "order-123", 5); err != nil || len(ids) != 0 {
		t.Errorf("found without the key: %v %v", ids, err)
	}
	need.Equal(t, need.Get(s.Info(ctx))(t).LastSeq, before)
	need.OK(t, os.Rename(s.path+".gone", s.path+".key"))
	res := need.Get(ledger.Begin(ctx, s, asked("order-123")))(t)
	need.That(t, res.Answer == ledger.AnswerFinished && res.Operation.ID == a.ID, "begun again: %s %s", res.Answer, res.Operation.ID)
}
