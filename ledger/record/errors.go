package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"indoubt/ledger"
)

// AnswerError is what the ledger says of a request that is not sent, or whose answer settles
// nothing. By its Answer, with what BeginResult says of it,
//   - in_doubt: it may have landed, and must not be sent again by the caller. A read or a person
//     settles it, and the same request is answered with what they find. Err is why no answer came,
//     nil where another caller recorded that
//   - in_progress: an attempt is in flight elsewhere, until Operation.DeadlineAt at the latest.
//     Request.Wait waits for it
//   - key_reused: the key belongs to a request with another input (I4)
//   - held: begins are held. Nothing was sent; the same request may come again, after Until where that is said
//   - refused: it was abandoned, a repeat is held, or is said to have failed without a proof
//   - other_caller: it may have been another caller's, by the headers that Why names
//   - finished: it is done, and there is no answer to repeat
type AnswerError struct {
	ledger.BeginResult
	Err error
}

func (e *AnswerError) Error() string {
	if e.Answer == ledger.AnswerHeld {
		return Held(e.BeginResult)
	}
	return about(e.Operation, map[ledger.BeginAnswer]string{
		ledger.AnswerInDoubt:    "in doubt, it may have landed",
		ledger.AnswerInProgress: "in progress until " + e.Operation.DeadlineAt.UTC().Format(time.RFC3339) + " at the latest",
		ledger.AnswerKeyReused:  "its key was used with another input",
		ledger.AnswerRefused:    "refused: " + e.Why,
		ledger.AnswerNotYours:   "it is recorded with another " + e.Why + ", which may be another caller's",
		ledger.AnswerFinished:   "it is done, and there is no answer to repeat",
	}[e.Answer], e.Err)
}

// Held says that nothing was sent because begins are held, and until when.
func Held(res ledger.BeginResult) string {
	said := "begins are " + res.Why + "; nothing was sent, come again"
	if !res.Until.IsZero() {
		said += " after " + res.Until.UTC().Format(time.RFC3339)
	}
	return said
}

func (e *AnswerError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ledger.ErrKeyReused) or errors.Is(err, ledger.ErrRefused) true.
func (e *AnswerError) Is(target error) bool {
	return target == ledger.ErrKeyReused && e.Answer == ledger.AnswerKeyReused ||
		target == ledger.ErrRefused && e.Answer == ledger.AnswerRefused
}

// In is the AnswerError in an error: one of no Answer where there is none.
func In(err error) *AnswerError {
	if e, ok := errors.AsType[*AnswerError](err); ok {
		return e
	}
	return &AnswerError{}
}

func doubt(o ledger.Operation, why error) error {
	return &AnswerError{ledger.BeginResult{Answer: ledger.AnswerInDoubt, Operation: o}, why}
}

// UnknownError: the store was lost while it recorded the intent, and nothing was sent.
// If it is recorded, this process marks it as never sent once it reaches the ledger
// again; a process that ends before leaves it in doubt, at its deadline.
type UnknownError struct{ Err error }

func (e *UnknownError) Error() string { return e.Trouble(ledger.InFull).Error() }

// Trouble says that the same key may be tried again: it is answered by what is recorded.
func (e *UnknownError) Trouble(func(string) string) ledger.Trouble {
	return ledger.Trouble{Code: "unknown_commit", Message: fmt.Sprintf("cannot tell whether the intent is recorded; nothing was sent (%v)", e.Err), Do: "try again with the same key; if that is in doubt, the attempt of this process was never sent, and another one may have been"}
}

func (e *UnknownError) Unwrap() error { return e.Err }

// FailedError: the write is known to have had no effect, and no further attempt
// is due. The same request may be asked for again.
type FailedError struct {
	Operation ledger.Operation
	Proof     ledger.Proof // why that is known
	Err       error
}

func (e *FailedError) Error() string { return about(e.Operation, "it had no effect", e.Err) }

func (e *FailedError) Unwrap() error { return e.Err }

func about(o ledger.Operation, what string, err error) string {
	text := fmt.Sprintf("%s %s: %s", o.Kind, o.ID, what)
	if err != nil {
		text += ": " + err.Error()
	}
	return text
}

// NotBegun is the error for an answer that does not let the caller send, nil for
// one that is no error.
func NotBegun(res ledger.BeginResult) error {
	switch {
	case res.Answer == ledger.AnswerBegun || res.Answer == ledger.AnswerFinished:
		return nil
	case res.Answer == ledger.AnswerInDoubt && res.Why != "":
		return &AnswerError{res, errors.New(res.Why)}
	}
	return &AnswerError{BeginResult: res}
}

// proven is an error that carries proof that the attempt had no effect.
type proven struct {
	proof ledger.Proof
	err   error
}

func (p *proven) Error() string { return p.err.Error() }
func (p *proven) Unwrap() error { return p.err }

// NotSent says of an error that nothing of the write had left when it occurred:
// the input could not be encoded, a lock was not had, no connection was made.
// The error of an http.Client does not tell that, not even "connection refused";
// HTTP does.
func NotSent(err error) error { return claim(ledger.NeverSent, err) }

// Refused says of an error that the other side did not act: it said so in an
// answer. A timeout, a reset and a 5xx say nothing of the kind.
func Refused(err error) error { return claim(ledger.Refused, err) }

func claim(proof ledger.Proof, err error) error {
	err = cmp.Or(err, errors.New(string(proof)))
	return &proven{proof, err}
}

// proofOf is what an error claims to prove. One that is joined from several
// proves nothing: another of them may be the one that counts.
func proofOf(err error) ledger.Proof {
	for ; err != nil; err = errors.Unwrap(err) {
		if p, ok := err.(*proven); ok { //nolint:errorlint // errors.As would look into joined ones
			return p.proof
		}
	}
	return ""
}

// ToCaller is what of an error a proxy tells the one who asked. Where the ledger is and
// who writes to it goes to the proxy's log alone.
func ToCaller(err error) string {
	var (
		key      *NoKeyError
		refused  *ledger.RefusedError
		unknown  *UnknownError
		troubled ledger.Troubled
	)
	switch {
	case errors.As(err, &key):
		return key.Error()
	case errors.As(err, &refused):
		return refused.Why
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "it took too long"
	case errors.As(err, &unknown):
		return "cannot tell whether the intent is recorded; nothing was sent; " + unknown.Trouble(ledger.InFull).Do
	case errors.As(err, &troubled):
		return fmt.Sprintf("the ledger cannot be used (%s); indoubt's log says more", troubled.Trouble(ledger.InFull).Code)
	}
	return "the ledger cannot be used; indoubt's log says more"
}

// Facts are what every error that a recorder makes says to programs beside its code: the same
// for the HTTP proxy, the MCP proxy and the command line.
type Facts struct {
	Operation  string `json:"operation,omitempty"` // its id
	SafeNewKey bool   `json:"safe_new_key"`        // the same under a new key acts once: nothing of it was sent, or is open
	Reconcile  any    `json:"reconcile,omitempty"` // how to ask what became of it
}

// SafeNewKey are the codes, with that fact. Any other code is of what kept a request from
// being recorded, and so from being sent.
var SafeNewKey = map[string]bool{
	"in_doubt":        false, // an earlier one may have landed
	"outcome_unknown": false, // this one may have
	"not_settled":     false, // it was sent, and what became of it is not recorded
	"in_progress":     false,
	"finished":        false,
	"refused":         false, // a person or a hold stands against it
	"other_caller":    false,
	"unknown_commit":  false, // nothing of it was sent here, and it may be open
	"committed":       false, // by another attempt than this one
	"abandoned":       false,
	"pending":         false,

	"held":          true, // nothing of it is recorded
	"key_missing":   true,
	"key_malformed": true,
	"key_reused":    true, // that is another request's
	"bad_request":   true,
	"not_passed":    true,
	"too_large":     true,
	"busy":          true,
	"not_recorded":  true,
	"never_sent":    true,
	"failed":        true, // it is known to have had no effect
	"unreachable":   true, // a read
}

// FactsOf are the facts of an error. ask is how its caller asks what became of an operation.
func FactsOf(code, operationID string, ask any) Facts {
	safe, known := SafeNewKey[code]
	f := Facts{Operation: operationID, SafeNewKey: safe || !known}
	if operationID != "" && !f.SafeNewKey {
		f.Reconcile = ask
	}
	return f
}
