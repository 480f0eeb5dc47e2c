package ledger

import (
	"encoding/json"
	"slices"
	"time"
)

// State is where an operation stands.
type State string

// Open reports whether an attempt is in flight, or what became of one is not known.
func (s State) Open() bool { return s == Pending || s == Uncertain }

const (
	// Pending: one attempt is in flight. Ends by that attempt's outcome or its deadline.
	Pending State = "pending"
	// Committed: the effect exists. Only a person's undo leads back.
	Committed State = "committed"
	// Failed: known not to have landed. Leads to Pending by a permission, to Abandoned
	// by a person, back to Uncertain by undo.
	Failed State = "failed"
	// Uncertain: in doubt. Ends by a read, a late answer, a person or a allowed attempt.
	Uncertain State = "uncertain"
	// Abandoned: a person decided that no one sends it any more. That changes no fact:
	// Operation.Fact keeps the state it was in, and an undo leads back there.
	Abandoned State = "abandoned"
)

// Outcome is what became of one attempt. Empty while it is in flight.
type Outcome string

const (
	OutcomeCommitted Outcome = "committed"
	OutcomeFailed    Outcome = "failed" // known to have had no effect
	OutcomeUncertain Outcome = "uncertain"
)

// Verdict is what a reconcile read found.
type Verdict string

const (
	Landed     Verdict = "landed"      // exactly one effect
	Twice      Verdict = "twice"       // two or more
	Different  Verdict = "different"   // one, but not what was asked
	NotThere   Verdict = "not_there"   // none, and the check was shown to see this time (I6)
	NotSeen    Verdict = "not_seen"    // none, by a check that sees others
	CannotTell Verdict = "cannot_tell" // the read's reason says why
)

// Tells reports whether a verdict says what became of an operation.
func (v Verdict) Tells() bool { return v == Landed || v == Twice || v == Different || v == NotThere }

// Proof says why an attempt is known to have had no effect.
type Proof string

const (
	NeverSent     Proof = "never_sent" // no byte of the request was written
	Refused       Proof = "refused"    // the downstream said no to this attempt
	ProofNotThere Proof = "not_there"  // a read earned it (I6)
)

// OfAttempt reports whether the proof is one that an attempt's own sender can
// give: it sent nothing, or it was refused.
func (p Proof) OfAttempt() bool { return p == NeverSent || p == Refused }

// Basis says why another attempt is allowed.
type Basis string

const (
	BasisProof        Basis = "proof"         // every earlier attempt is known to have had no effect
	BasisKeySafe      Basis = "key_safe"      // a second send cannot act twice
	BasisNotSeen      Basis = "not_seen"      // a check sees others, and not this one; see Unseen
	BasisRiskAccepted Basis = "risk_accepted" // a person took the risk
)

// Cause is why a read cannot tell, for programs; its Reason says so to people.
type Cause string

const (
	CauseNone         Cause = "none_found"    // a good read showed nothing, which proves nothing (yet)
	CauseBlind        Cause = "blind"         // the same, by a check that finds no other operation either
	CauseGone         Cause = "not_there_now" // nothing is there of what was said to have landed; also with NotThere
	CauseNotSo        Cause = "not_so"        // the state that was wanted is not there now
	CauseRunning      Cause = "running"       // nothing is there, and a process of an attempt may still write
	CauseNoAnswer     Cause = "no_answer"     // no answer, or one that says nothing
	CauseNotAsked     Cause = "not_asked"     // the question was not put: a secret, an input or a turn is missing
	CauseStale        Cause = "stale"         // the answer may be older than the question
	CauseIncomplete   Cause = "incomplete"    // the answer is not the whole truth
	CauseUnidentified Cause = "unidentified"  // something is there, and nothing in the check says whose it is
	CauseShared       Cause = "shared"        // another operation has the same mark
	CauseOlder        Cause = "older"         // it looks older than the first attempt
	CauseUnfinished   Cause = "unfinished"    // it is there, but not finished
	CauseEcho         Cause = "echo"          // the check finds what was never sent as well
	CauseUnchecked    Cause = "unchecked"     // whether it does is not known
)

// ErrorClass groups the ways an answer fails to come; the odds
// depend on it. A value a writer made up is kept and gets the odds of "".
type ErrorClass string

const (
	ClassTimeout   ErrorClass = "timeout"
	ClassReset     ErrorClass = "reset"
	ClassEOF       ErrorClass = "eof"
	Class3xx       ErrorClass = "3xx" // see Attempt.Redirected
	Class5xx       ErrorClass = "5xx"
	ClassConflict  ErrorClass = "conflict"
	ClassThrottled ErrorClass = "throttled"
	ClassKilled    ErrorClass = "killed"
	ClassExit      ErrorClass = "exit"
	ClassToolError ErrorClass = "tool_error"
	ClassDeadline  ErrorClass = "deadline"
)

// Conflict is a flag on an operation, raised until a person acknowledges it.
type Conflict string

const (
	NoConflict         Conflict = ""
	ConflictTwice      Conflict = "twice"       // two or more effects are known
	ConflictDisputed   Conflict = "disputed"    // an answer or verdict disagrees with what is recorded
	ConflictDifferent  Conflict = "different"   // one effect, but not what was asked
	ConflictMaybeTwice Conflict = "maybe_twice" // committed while an earlier attempt without a working key is unknown
)

// rank orders conflicts: a graver flag is never replaced by a lesser one.
func (c Conflict) rank() int {
	return slices.Index([]Conflict{NoConflict, ConflictMaybeTwice, ConflictDifferent, ConflictDisputed, ConflictTwice}, c)
}

// Source is the pipeline or agent that wants an operation, and its run.
type Source struct {
	Pipeline string `json:"pipeline,omitempty"`
	Run      string `json:"run,omitempty"`
	Host     string `json:"host,omitempty"`
	PID      int    `json:"pid,omitempty"`
}

// Command is a recorded command line (I11: argv, no shell). Arguments may hold
// {{key}}, {{token}} and ${NAME} for the variables named in Expand, which are
// read from the environment at each run. Of their values only keyed digests are kept: a
// variable with another value may be another account's.
type Command struct {
	Argv   []string          `json:"argv"`
	Dir    string            `json:"dir,omitempty"`
	Expand map[string]string `json:"expand,omitempty"` // names to digests
}

// Request is an HTTP request as it was recorded and sent, so that it can be sent
// again byte for byte. No credential is in it. Where Lost says why, it is not whole
// and cannot be sent from here.
type Request struct {
	Method   string              `json:"method"`
	Origin   string              `json:"origin"`           // scheme, host and port
	Target   string              `json:"target,omitempty"` // path and query, as they were written
	Header   map[string][]string `json:"header,omitempty"`
	Withheld []string            `json:"withheld,omitempty"` // names of headers that are not kept and may matter
	Body     string              `json:"body,omitempty"`
	Binary   []byte              `json:"binary,omitempty"` // the body, where it is no UTF-8
	Lost     string              `json:"lost,omitempty"`
	// Callers has a digest of each header that says who asked, or may: another one of
	// them may be another one, whose answer this is not.
	Callers map[string]string `json:"callers,omitempty"`
}

// OtherCaller are the names of the headers in which two requests differ that say who
// asks, or may, and that count; nil: all do.
func (r *Request) OtherCaller(other *Request, counts func(header string) bool) (names []string) {
	if r == nil || other == nil {
		return nil
	}
	for _, pair := range [][2]map[string]string{{r.Callers, other.Callers}, {other.Callers, r.Callers}} {
		for name, digest := range pair[0] {
			if pair[1][name] != digest && !slices.Contains(names, name) && (counts == nil || counts(name)) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// Bytes is the body.
func (r *Request) Bytes() []byte {
	if len(r.Binary) > 0 {
		return r.Binary
	}
	return []byte(r.Body)
}

// Operation is one intended effect on an outside system.
type Operation struct {
	ID          string          `json:"id,omitzero"` // UUIDv7
	Kind        string          `json:"kind,omitzero"`
	Scope       string          `json:"scope,omitzero"`       // partitions keys (a proxy's server, a credential's digest); usually empty
	Key         string          `json:"key,omitzero"`         // names it in its kind and scope: the caller's, or a made one
	SentKey     string          `json:"sent_key,omitzero"`    // the caller's key, where others name it; see KeyToSend
	Gate        string          `json:"gate,omitzero"`        // digest of what is asked, and where; one under it is open at most. "": none
	Token       string          `json:"token,omitzero"`       // correlation token, the same on every attempt (I4)
	MarkRules   string          `json:"mark_rules,omitzero"`  // of the policy, under which its marks were made
	TokenSent   bool            `json:"token_sent,omitzero"`  // the token is known to have been inside at least one transmission
	Fingerprint string          `json:"fingerprint,omitzero"` // of the input
	Title       string          `json:"title,omitzero"`
	Target      string          `json:"target,omitzero"`
	Input       json.RawMessage `json:"input,omitzero"`
	Redacted    bool            `json:"redacted,omitzero"` // parts of the input are stored as digests: indoubt cannot send it again
	Command     *Command        `json:"command,omitzero"`  // what `run` executed, nil otherwise
	Source      Source          `json:"source,omitzero"`
	Session     string          `json:"session,omitzero"`
	Request     *Request        `json:"request,omitzero"` // what a recorder of HTTP sent, nil otherwise

	State      State           `json:"state,omitzero"`
	Version    int64           `json:"version,omitzero"`     // moves with state, attempt, verdict and decision (I7)
	ErrorClass ErrorClass      `json:"error_class,omitzero"` // of the newest answer that did not come; kept when it is settled
	Verdict    Verdict         `json:"verdict,omitzero"`     // newest conclusive verdict, empty before
	Effects    int             `json:"effects,omitzero"`     // distinct effects known
	Receipts   []string        `json:"receipts,omitzero"`    // receipts known, in order of discovery
	Fact       State           `json:"fact,omitzero"`        // of an abandoned one: what is known of it, Failed or Uncertain; empty where its effect was taken back
	Result     json.RawMessage `json:"result,omitzero"`
	Actor      string          `json:"actor,omitzero"`  // who made the newest change
	Hands      string          `json:"hands,omitzero"`  // people who ever acted on it, one a line
	Reason     string          `json:"reason,omitzero"` // why

	Conflict      Conflict `json:"conflict,omitzero"`
	ConflictNote  string   `json:"conflict_note,omitzero"`  // one sentence: what disagrees
	AckedReceipts []string `json:"acked_receipts,omitzero"` // receipts an acknowledgement has covered
	// ClaimedReceipts are those that a person named and no answer and no check has shown.
	ClaimedReceipts []string `json:"claimed_receipts,omitzero"`
	Doubted         bool     `json:"doubted,omitzero"`     // was ever in doubt
	PersonOnly      bool     `json:"person_only,omitzero"` // only a person settles it (I12)
	ByAnswer        bool     `json:"by_answer,omitzero"`   // committed by its own answer, not by a read or a person

	// Undelivered: the caller that waits for the answer has not been given a final
	// one. Only a caller that says when it was (Deliver) has it set.
	Undelivered bool `json:"undelivered,omitzero"`
	// Awaits names where the rest of a live attempt's answer is to be asked for,
	// after an answer that was none yet (Suspend); empty otherwise.
	Awaits string `json:"awaits,omitzero"`

	LiveAttempt  string        `json:"live_attempt,omitzero"` // id of the attempt in flight
	AttemptCount int           `json:"attempt_count,omitzero"`
	ParkedUntil  time.Time     `json:"parked_until,omitzero"`
	TTL          time.Duration `json:"ttl,omitzero"`      // how long a finished operation keeps its key; 0 for ever
	KeyLive      bool          `json:"key_live,omitzero"` // holds its key; false once a newer operation took it

	CreatedAt  time.Time `json:"created_at,omitzero"`
	UpdatedAt  time.Time `json:"updated_at,omitzero"`
	StartedAt  time.Time `json:"started_at,omitzero"`  // first attempt's start
	DeadlineAt time.Time `json:"deadline_at,omitzero"` // live attempt's deadline
	EndedAt    time.Time `json:"ended_at,omitzero"`    // latest end of any attempt
	DoubtedAt  time.Time `json:"doubted_at,omitzero"`  // when it first came into doubt; its age counts from then
	SettledAt  time.Time `json:"settled_at,omitzero"`  // when it last left doubt or flight

	Moved string `json:"moved,omitzero"` // the file that a prune moved its history to; "": it is here
	// RedactedAt, by RedactedBy: a person had its text taken out. Zero: no one did.
	RedactedAt time.Time `json:"redacted_at,omitzero"`
	RedactedBy string    `json:"redacted_by,omitzero"`
}

// Receipt is the first receipt known, or "".
func (o Operation) Receipt() string {
	if len(o.Receipts) == 0 {
		return ""
	}
	return o.Receipts[0]
}

// StateAt is the state every reader must assume at now: a pending operation
// whose deadline has passed is uncertain, whether or not that is written down.
func (o Operation) StateAt(now time.Time) State {
	if o.State == Pending && now.After(o.DeadlineAt) {
		return Uncertain
	}
	return o.State
}

// SenderImport transmits nothing: another program did, before it was recorded.
const SenderImport = "import"

// Attempt is one transmission of an operation.
type Attempt struct {
	ID          string    `json:"id,omitzero"`
	OperationID string    `json:"operation_id,omitzero"`
	N           int       `json:"n,omitzero"`         // 1 for the first
	Basis       Basis     `json:"basis,omitzero"`     // empty for the first
	AllowID     string    `json:"allow_id,omitzero"`  // the permission it consumed
	Sender      string    `json:"sender,omitzero"`    // pipeline, http, command, …
	KeyWorks    bool      `json:"key_works,omitzero"` // the downstream is known to treat a repeat under this key as the same request
	TokenSent   bool      `json:"token_sent,omitzero"`
	Policy      int64     `json:"policy,omitzero"` // number of the policy in force that it was begun under; 0: none was named
	Actor       string    `json:"actor,omitzero"`
	Host        string    `json:"host,omitzero"`
	PID         int       `json:"pid,omitzero"`
	StartedAt   time.Time `json:"started_at,omitzero"`
	DeadlineAt  time.Time `json:"deadline_at,omitzero"`
	EndedAt     time.Time `json:"ended_at,omitzero"` // zero while in flight

	Outcome    Outcome         `json:"outcome,omitzero"`
	Proof      Proof           `json:"proof,omitzero"`       // why a failed attempt had no effect
	ErrorClass ErrorClass      `json:"error_class,omitzero"` // of the newest answer that did not come; kept when it is settled
	Error      string          `json:"error,omitzero"`       // bounded, redacted
	Status     int             `json:"status,omitzero"`      // HTTP status or exit code; -1 when there was none
	Receipt    string          `json:"receipt,omitzero"`
	Result     json.RawMessage `json:"result,omitzero"`
	Already    bool            `json:"already,omitzero"` // the answer said that an earlier attempt's effect is there

	LateOutcome Outcome   `json:"late_outcome,omitzero"` // the answer that came after the attempt had ended uncertain
	LateAt      time.Time `json:"late_at,omitzero"`
	LateReceipt string    `json:"late_receipt,omitzero"`

	Place
	Tree   Tree      `json:"tree,omitzero"`    // whether a process that it started may still write
	TreeAt time.Time `json:"tree_at,omitzero"` // when its processes were seen to be gone; zero before
}

// Redirected reports whether the attempt is in doubt after an answer that was a redirect.
// Whoever made the request may have followed it past its recorder, without the token and
// unseen, so that no check proves its absence.
func (a Attempt) Redirected() bool {
	return a.Final() == OutcomeUncertain && (a.ErrorClass == Class3xx || a.Status >= 300 && a.Status < 400)
}

// Final is what is known of the attempt now: its late answer if one came.
func (a Attempt) Final() Outcome {
	if a.LateOutcome != "" {
		return a.LateOutcome
	}
	return a.Outcome
}

// Read is one reconcile read.
type Read struct {
	ID          string          `json:"id,omitzero"`
	OperationID string          `json:"operation_id,omitzero"`
	BeganAt     time.Time       `json:"began_at,omitzero"`
	EndedAt     time.Time       `json:"ended_at,omitzero"`
	Verdict     Verdict         `json:"verdict,omitzero"`
	Cause       Cause           `json:"cause,omitzero"`  // why it cannot tell, for programs; or CauseGone
	Reason      string          `json:"reason,omitzero"` // one sentence that says why, for people
	Found       int             `json:"found,omitzero"`
	Receipts    []string        `json:"receipts,omitzero"`
	Evidence    json.RawMessage `json:"evidence,omitzero"` // redacted, bounded
	ProofAt     time.Time       `json:"proof_at,omitzero"` // when absence becomes provable; zero: never
	Digest      string          `json:"digest,omitzero"`   // policy in force
	Actor       string          `json:"actor,omitzero"`
	Seen        Steady          `json:"seen,omitzero"` // when it was written down, by the clock that nobody sets
	Over        int             `json:"over,omitzero"` // how many attempts were over then, from the first
}

// FoundNone reports whether the read was a good one that showed nothing, whatever
// that proves.
func (r Read) FoundNone() bool {
	return r.Cause == CauseNone || r.Cause == CauseBlind || r.Cause == CauseGone || r.Verdict == NotThere || r.Verdict == NotSeen
}

// Lag is how long after its attempt ended a check still missed the effect that a later one found:
// it took longer than this to land and to show. 0: no check missed it. Reads are newest first.
func Lag(reads []Read, ended time.Time) (lag time.Duration) {
	found := false
	for _, r := range reads {
		found = found || r.Verdict == Landed
		if found && r.FoundNone() {
			lag = max(lag, r.BeganAt.Sub(ended))
		}
	}
	return lag
}

// Allowed is one-shot permission for one more attempt.
type Allowed struct {
	ID          string    `json:"id,omitzero"`
	OperationID string    `json:"operation_id,omitzero"`
	Version     int64     `json:"version,omitzero"` // the operation's version it is bound to
	Basis       Basis     `json:"basis,omitzero"`
	Sender      string    `json:"sender,omitzero"`
	KeyWorks    bool      `json:"key_works,omitzero"`
	Actor       string    `json:"actor,omitzero"`
	Reason      string    `json:"reason,omitzero"`
	CreatedAt   time.Time `json:"created_at,omitzero"`
	ExpiresAt   time.Time `json:"expires_at,omitzero"` // no later than its basis lapses
	Related     []string  `json:"related,omitzero"`    // for a risk: the related operations that had landed or may have when it was taken
	ConsumedAt  time.Time `json:"consumed_at,omitzero"`
	AttemptID   string    `json:"attempt_id,omitzero"` // who consumed it
	VoidedAt    time.Time `json:"voided_at,omitzero"`
	VoidReason  string    `json:"void_reason,omitzero"`
}

// Open reports whether the permission can be consumed at now.
func (g Allowed) Open(now time.Time) bool {
	return g.ConsumedAt.IsZero() && g.VoidedAt.IsZero() && now.Before(g.ExpiresAt)
}

// Event is one line of the append-only history.
type Event struct {
	Seq         int64           `json:"seq,omitzero"`
	ID          string          `json:"id,omitzero"` // the change id
	OperationID string          `json:"operation_id,omitzero"`
	Outage      string          `json:"outage,omitzero"` // that it is about
	Run         string          `json:"run,omitzero"`    // that it is about
	At          time.Time       `json:"at,omitzero"`
	Verb        string          `json:"verb,omitzero"` // begin, settle, expire, read, confirm, deny, allow, void, retry, abandon, ack, park, undo, note, late, wait, tree, hold, release, adopt, standby, clock, redact, run, run_over, left_out, and those of an OutageChange
	Actor       Actor           `json:"actor,omitzero"`
	Reason      string          `json:"reason,omitzero"`
	From        State           `json:"from,omitzero"`
	To          State           `json:"to,omitzero"`
	Version     int64           `json:"version,omitzero"`
	Detail      json.RawMessage `json:"detail,omitzero"`   // attempt, read, receipts, reference, basis, …
	Conflict    Conflict        `json:"conflict,omitzero"` // the flag that this change raised, if it raised one
}
