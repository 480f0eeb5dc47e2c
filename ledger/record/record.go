// Package record is how writes get into the ledger. Do is the way in for Go
// programs; beneath it the Recorder begins, settles and keeps keys. Below it stand
// the other ways in: roundtrip for HTTP clients, command for wrapped commands,
// httpproxy and mcpproxy for programs that are not changed (README.md).
//
// It imports ledger, ledger/outcome, ledger/redact and the wires. What a kind's
// policy says, and a reconcile read on demand, come in through the small
// interfaces below; ui/cli wires them.
package record

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
	"indoubt/ledger/wire/carry"
)

// Rules tells what applies to a kind of operation.
type Rules func(kind string) KindRule

// What an identical request is, where its caller gives no other key: while one is in flight
// or in doubt it waits for that. "" is: and once that is finished and delivered, it is new.
const (
	RepeatAllow  = "allow"  // identical requests are normal: each is new
	RepeatReplay = "replay" // one that is finished is answered from the record, until its TTL
)

// KindRule is what a kind's policy says about recording it. The zero rule is
// usable: nil functions are skipped and zero durations mean "not stated".
type KindRule struct {
	Deadline  time.Duration // of one attempt; DefaultDeadline when 0
	Looks     ledger.Looks  // when it is looked for again after it was settled
	TTL       time.Duration // how long a finished operation keeps its key; 0: for ever
	Remembers time.Duration // how long the downstream remembers a key; 0: not at all
	KeyFrom   []string      // fields of the input that name a request, whatever else differs
	Match     string        // the HTTP requests that are of the kind: with KeyFrom they name one, whatever the kind is called
	// Covers reports whether a Match, this rule's or an earlier policy's, has a request of a
	// Place; nil: no other one has.
	Covers func(match, place string) bool
	Named  bool // the policy names the kind
	// Input is the path of what stands for the whole input, of an HTTP request: the
	// paths of this rule begin there ("body"). "" is the request as it is recorded.
	Input         string
	TokenArgument bool   // the wrapped command is meant to carry the token; whether it does is seen in its arguments
	TokenInto     string // path in the input that senders set to the token
	TokenAppend   string // path of a list in the input that senders add the token to, or of a text that it ends
	Policy        int64  // number of the policy in force that says all this; 0: none is
	Redact        []string
	Access        string          // read, write or "" when not stated
	WhenLost      ledger.WhenLost // of a request that the ledger may have lost
	Repeat        string          // one of the Repeat… constants, or ""
	// Supersedes: what is finished or given up gives its key up once a later one on its target
	// landed or may have.
	Supersedes bool
	Safe       bool // a repeat cannot act twice, unless something else acted on its target since
	// Downstream is its name, "" where the policy knows none. Callers are the headers of its
	// requests that say who asks, nil where the policy does not say; SameAccount: its
	// credentials do not.
	Downstream  string
	Callers     []string
	SameAccount bool
	KeyHeader   string // the HTTP header in which the downstream takes a key; "" when it takes none
	Retry       outcome.Retry

	Title, Target func(ledger.Operation) string
	Marks         func(ledger.Operation) ledger.Marks // names its effect may show under
	Price         func(ledger.Record) ledger.Pricing
	// RepeatUntil is until when a repeat under the operation's key is answered with the
	// first answer, because the other side remembers the key; the zero time: never.
	RepeatUntil func(ledger.Record) time.Time
	Judge       outcome.Rules
}

// TokenPlace is where senders put the token in an input, or in the member of it that is named;
// ok is false where the policy names no place.
func (rule KindRule) TokenPlace(within string) (at carry.Place, ok bool) {
	path := cmp.Or(rule.TokenAppend, rule.TokenInto)
	if path == "" {
		return at, false
	}
	if within != "" {
		path = within + "." + strings.TrimPrefix(path, "input.")
	}
	at, err := carry.At(path, rule.TokenAppend != "")
	return at, err == nil
}

// Reader asks the downstream about one operation now.
type Reader interface {
	ReadNow(ctx context.Context, operationID string) (ledger.Operation, error)
}

// DefaultDeadline is an attempt's deadline where none is stated.
const DefaultDeadline = 2 * time.Minute

// Options are what a Recorder needs beside its store. The zero value works.
type Options struct {
	Actor  ledger.Actor
	Source ledger.Source
	Clock  ledger.Clock // time.Now when nil; needs a monotonic reading
	Log    func(string) // takes what the user should know; dropped when nil
	// Elsewhere opens the place to which the ledger has moved, by its name, for an answer
	// that comes after that; nil: such an answer is kept, and told of.
	Elsewhere func(ctx context.Context, name string) (ledger.Store, error)
	Reader    Reader // nil: a Request with Reconcile is answered as it stands
	// Renew reads the rules anew: a begin was refused, because another policy is in force by
	// now. nil: the refusal is the answer.
	Renew func(context.Context)
}

// Request is what a pipeline wants done once.
type Request struct {
	Kind, Scope, Key, Session string
	Remark                    string // see ledger.BeginRequest
	Client                    string // the program that asks, by its own word; kept with the session, and in no key
	Input                     json.RawMessage
	Asked                     string                   // what is asked and where, as it came, of a sender that knows; see Recorder.gate
	Caller                    string                   // what the headers hold that the kind's Callers names, of a recorder of HTTP
	Counts                    func(header string) bool // see ledger.BeginRequest
	Command                   *ledger.Command
	HTTP                      *ledger.Request // as it is sent, of a recorder of HTTP
	Source                    ledger.Source
	Sender                    string        // who transmits; pipeline when empty
	Wrapped                   bool          // a command that this process starts does
	Deadline                  time.Duration // 0: the kind's
	TokenSent                 bool          // the token is inside this transmission
	KeySent                   bool          // the key is; see Recorder.Begin
	ID, Token                 string        // made when empty
	StandIn                   string        // stands in HTTP for the token that is made
	Secret                    []string      // paths of the input that are redacted beside the kind's
	// AwaitsDelivery: the caller says with ledger.Deliver when it has passed the
	// final answer on. Until then a fresh request of the same input gets that answer.
	AwaitsDelivery bool
	// Place is the method, host and path by which a policy finds the kind of an HTTP request:
	// its name stands for it whatever the kind was called when it was recorded. "": the
	// caller said the kind.
	Place string
	// Replaces is what the request sets, where no policy names its kind: a repeat cannot act
	// twice, until another request has acted on it.
	Replaces string
	// Follows is an operation that was waited for: what became of it is the answer to this
	// request as well, where it has the same name.
	Follows string
	// Repeats is the attempt that it repeats inside its caller's call; see Recorder.Again.
	Repeats string
	// Wait waits while another attempt is in flight; Reconcile reads the
	// downstream once when the operation is in doubt, and asks again.
	Wait, Reconcile bool
}
