package ledger

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// Whole is an operation with everything that the ledger has of it: a line of an archive.
type Whole struct {
	Operation Operation `json:"operation"`
	Attempts  []Attempt `json:"attempts,omitempty"`
	Reads     []Read    `json:"reads,omitempty"`
	Grants    []Grant   `json:"grants,omitempty"`
	Events    []Event   `json:"events,omitempty"` // in their order
	Marks     []string  `json:"marks,omitempty"`
}

// Record is what a caller that looks at the operation sees.
func (w Whole) Record(now time.Time) Record {
	return Record{Found: true, Operation: w.Operation, Attempts: w.Attempts, Reads: w.Reads, Grants: w.Grants, Now: now}
}

// Archive is a file that settled operations are moved to. It is written down before the
// file is begun, sealed with the file's digest when that was read back, and only then
// are operations taken from the ledger.
type Archive struct {
	ID         string // made by the one who writes it
	File       string // its name, without a directory
	Digest     string // SHA-256 (hex) of the file; "" until it is sealed
	Size       int64  // of the file, in bytes
	Operations int    // in the file
	Removed    int    // which have left the ledger: the others have moved since they were read
	Before     time.Time
	Oldest     time.Time // when what it holds was begun: the first and the last
	Newest     time.Time
	Actor      Actor
	CreatedAt  time.Time
	Until      time.Time // no other archive is begun before
	ClosedAt   time.Time
}

// Archiver moves settled operations out of the ledger. What it leaves of each is a stub:
// its key, its outcome, its attempts and its marks, so that Change and Read find it as
// before, only without input, answers and history. An operation that is changed returns
// to the ledger as that, with an event. From ForgetAt on there is no stub.
type Archiver interface {
	// Archivable returns operations that settled before a time and that nothing waits for,
	// in the order they came, behind a place in that order (0: from the beginning), and the
	// place where it stopped; 0, at the end. It looks at no more than limit operations.
	// These stay: what is not settled, in conflict, parked, undelivered or leased; that has
	// a grant, a read to come, an open incident or a run; the newest control of its kind;
	// the newest on a target that others have; what an operation in doubt asks for, too.
	Archivable(ctx context.Context, before time.Time, after int64, limit int) (ops []Whole, place int64, err error)
	// ChangeArchive begins an archive, extends its time, seals or closes it. Beginning and
	// extending it give *LeasedError while another one is being made.
	ChangeArchive(ctx context.Context, a Archive) error
	// Archive takes operations from the ledger that are in a sealed archive, and returns how
	// many, and for how long others may have waited for that. One that has moved since it
	// was read stays.
	Archive(ctx context.Context, id string, ops []Whole) (removed int, held time.Duration, err error)
	// Reseal seals an archive with the digest of a file in which operations are redacted, and
	// that is going to take the place of its file. Errors: ErrNotFound, *RefusedError.
	Reseal(ctx context.Context, r Resealing) error
	// Archives returns the archives, oldest first.
	Archives(ctx context.Context) ([]Archive, error)
}

// Carry reports what becomes of an archive that is recorded: the next one, and the
// event that tells of it, or why it may not.
func (a Archive) Carry(next Archive, now time.Time) (Archive, *Event) {
	sealed := a.Digest == "" && next.Digest != ""
	if a.Digest == "" {
		a.Digest, a.Size, a.Operations, a.Oldest, a.Newest = next.Digest, next.Size, next.Operations, next.Oldest, next.Newest
	}
	a.Until, a.ClosedAt = next.Until, next.ClosedAt
	if !sealed {
		return a, nil
	}
	return a, &Event{ID: a.ID, At: now, Verb: "archive", Actor: a.Actor,
		Reason: "settled before " + a.Before.UTC().Format(time.RFC3339) + ", moved to " + a.File,
		Detail: detail(map[string]any{"archive": a.ID, "file": a.File, "sha256": a.Digest, "operations": a.Operations, "bytes": a.Size})}
}

// Resealing is a file of an archive that was written anew, without what operations said
// that were redacted.
type Resealing struct {
	ID         string // of the archive
	Was        string // the digest of its file until then
	Digest     string
	Size       int64
	Operations []string
	Actor      Actor
	Reason     string
}

// Apply reports what becomes of an archive, and the event that allows it, by its id: the
// seal is no other than one that the history tells of. It is nil where that is done.
func (r Resealing) Apply(a Archive, now time.Time) (Archive, *Event, error) {
	no := func(code, why, hint string) (Archive, *Event, error) {
		return a, nil, &RefusedError{Verb: "redact", Code: code, Why: why, Hint: hint}
	}
	switch {
	case a.Digest == r.Digest:
		return a, nil, nil
	case r.Actor.Machine:
		return no("no_person", "a person decides it", "")
	case strings.TrimSpace(r.Reason) == "":
		return no("incomplete", "it needs a reason", "add --reason TEXT")
	case a.Digest == "" || a.Digest != r.Was:
		return no("moved", a.File+" was written anew meanwhile", "run it again")
	}
	a.Digest, a.Size = r.Digest, r.Size
	return a, &Event{ID: a.ID + "." + a.Digest, At: now, Verb: string(VerbRedact), Actor: r.Actor, Reason: r.Reason + ", in " + a.File,
		Detail: detail(map[string]any{"archive": a.ID, "file": a.File, "was": r.Was, "sha256": a.Digest, "bytes": a.Size, "redacted": r.Operations})}, nil
}

// Slim is what the ledger remembers of an archived operation: all that a rule asks, and
// nothing that only people read.
func (w Whole) Slim(file string) Whole {
	o := w.Operation
	o.Archive = file
	o.Input, o.Result, o.Command, o.Title, o.Session = nil, nil, nil, "", ""
	o.Source = Source{Pipeline: o.Source.Pipeline}
	if o.State == Committed {
		o.Reason = ""
	}
	if o.TTL == 0 {
		o.SettledSteady = Steady{}
	}
	if r := o.Request; r != nil {
		o.Request = &Request{Method: r.Method, Origin: r.Origin, Callers: r.Callers, Lost: "it is archived"}
	}
	attempts := make([]Attempt, len(w.Attempts))
	for i, a := range w.Attempts {
		a.Error, a.Result, a.Actor, a.Host, a.PID, a.Place = "", nil, "", "", 0, Place{}
		a.StartedSteady, a.EndedSteady = Steady{}, Steady{}
		attempts[i] = a
	}
	return Whole{Operation: o, Attempts: attempts}
}

// ForgetAt is when the ledger needs to remember nothing of an archived operation: its key
// is given up, and its one attempt was answered, so that no late answer is to come and no
// doubt was. Zero: never, as for a key that a recorder made, or may have: the next request
// is found by counting on from it.
func (w Whole) ForgetAt(m Moment) time.Time {
	o := w.Operation
	if MadeKey(o.Key) || IsMasked(o.Key) || o.TTL == 0 || o.State != Committed || o.Doubted || o.AttemptCount != 1 || o.Incident != "" || o.Archive != "" || len(w.Marks) > 0 ||
		slices.ContainsFunc(w.Attempts, func(a Attempt) bool { return a.Outcome != OutcomeCommitted || a.LateOutcome != "" }) {
		return time.Time{}
	}
	if o.SettledSteady.Boot == m.Steady.Boot {
		o.SettledAt = m.Latest(Moment{o.SettledAt, o.SettledSteady})
	}
	return o.SettledAt.Add(o.TTL)
}

// Returned is the event of an archived operation that is in the ledger again.
func Returned(o Operation) Event {
	return Event{ID: NewID(), OperationID: o.ID, Verb: "return", Actor: Actor{Name: o.Actor, Machine: true}, From: o.State, To: o.State, Version: o.Version,
		Reason: "it changes again; its input, answers and history are in " + o.Archive, Detail: detail(map[string]any{"file": o.Archive})}
}

// Stub is an operation of a sheaf, by its number in the ledger.
type Stub struct {
	Seq int64 `json:"seq"`
	Whole
}

// Over reports whether the key of the operation is given up, by both clocks.
func (s Stub) Over(now Moment) bool {
	rec := Record{Operation: s.Operation, Now: now.Wall, Steady: now.Steady}
	return rec.Over(s.Operation.TTL)
}

// Pack writes a sheaf of slim operations as short text.
func Pack(sheaf []Stub) (string, error) {
	text, err := json.Marshal(sheaf)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	p := packers.Get().(*flate.Writer)
	defer packers.Put(p)
	p.Reset(&out)
	_, _ = p.Write(squeeze(text)) // a buffer takes all
	_ = p.Close()
	return base64.RawStdEncoding.EncodeToString(out.Bytes()), nil
}

// Unpack reads what Pack has written.
func Unpack(text string) (sheaf []Stub, err error) {
	r := flate.NewReaderDict(base64.NewDecoder(base64.RawStdEncoding, strings.NewReader(text)), packed)
	plain, err := io.ReadAll(r)
	if err == nil {
		plain, err = expand(plain)
	}
	if err == nil {
		err = json.Unmarshal(plain, &sheaf)
	}
	return sheaf, err
}

// What is long in a stub is random, and flate makes little of its digits: an id, a digest
// and a time are written as bytes, behind one that JSON never has. A time is its distance
// from the one before, and so is the time that an id begins with.
const (
	asID byte = iota + 1
	asDigest
	asTime
	asTimedID

	stubTime = "2006-01-02T15:04:05.000Z"
)

// wide is how many bytes a form has.
var wide = map[byte]int{asID: 16, asDigest: 32, asTimedID: 10}

func squeeze(text []byte) []byte {
	last := int64(0)
	since := func(form byte, at int64) []byte {
		last, at = at, at-last
		return binary.AppendVarint([]byte{form}, at)
	}
	parts := bytes.Split(text, []byte(`"`))
	for i, part := range parts {
		switch form := map[int]byte{36: asID, 64: asDigest, len(stubTime): asTime}[len(part)]; form {
		case asTime:
			if at, err := time.Parse(stubTime, string(part)); err == nil && at.Format(stubTime) == string(part) { // a comma counts as a point
				parts[i] = since(form, at.UnixMilli())
			}
		case asID, asDigest:
			raw, err := hex.DecodeString(strings.ReplaceAll(string(part), "-", ""))
			switch {
			case err != nil || len(raw) != wide[form] || string(long(form, raw)) != string(part):
			case form == asID && raw[6]>>4 == 7:
				parts[i] = append(since(asTimedID, int64(binary.BigEndian.Uint64(raw)>>16)), raw[6:]...)
			default:
				parts[i] = append([]byte{form}, raw...)
			}
		}
	}
	return bytes.Join(parts, []byte(`"`))
}

// long is an id or a digest as text.
func long(form byte, raw []byte) []byte {
	text := hex.EncodeToString(raw)
	if form == asID && len(raw) == 16 {
		text = text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
	}
	return []byte(text)
}

func expand(short []byte) ([]byte, error) {
	out, last := make([]byte, 0, 2*len(short)), int64(0)
	for i := 0; i < len(short); i++ {
		form, rest := short[i], short[i+1:]
		if form == asTime || form == asTimedID {
			since, n := binary.Varint(rest)
			if n <= 0 {
				return nil, io.ErrUnexpectedEOF
			}
			last, rest, i = last+since, rest[n:], i+n
		}
		switch n := wide[form]; {
		case n > len(rest):
			return nil, io.ErrUnexpectedEOF
		case form == asTimedID:
			raw := append(binary.BigEndian.AppendUint64(nil, uint64(last)<<16)[:6], rest[:n]...)
			out, i = append(out, long(asID, raw)...), i+n
		case n > 0:
			out, i = append(out, long(form, rest[:n])...), i+n
		case form == asTime:
			out = time.UnixMilli(last).UTC().AppendFormat(out, stubTime)
		default:
			out = append(out, form)
		}
	}
	return out, nil
}

var packers = sync.Pool{New: func() any {
	w, _ := flate.NewWriterDict(nil, flate.BestCompression, packed) // the level is one
	return w
}}

// packed is what packed texts have in common, the most frequent last. It is part of their format.
var packed = []byte(strings.NewReplacer("^0", "\x00", "^1", "\x01", "^2", "\x02", "^3", "\x03", "^4", "\x04").Replace(`"scope":"","mark_rules":"","gate":"","target":"","request":{"method":"POST","origin":"https://","lost":"it is archived","callers":{}},"state":"abandoned","state":"failed",` +
	`"version":3,"error_class":"timeout","verdict":"absent","verdict":"landed","effect_word":"created","actor":"checks","hands":"","reason":"attempt 1: committed, receipt ","acked_receipts":[""],"claimed_receipts":[""],` +
	`"doubted":true,"attempt_count":2,"doubted_at":"^3","archive":"","incident":"","joined":"error","fault_at":"^3","basis":"key_safe","grant_id":"^4","sender":"command","sender":"http","sender":"pipeline","key_works":true,` +
	`"outcome":"uncertain","outcome":"failed","proof":"never_sent","proof":"refused","proof":"absent","error_class":"timeout","status":-1,"late_outcome":"committed","late_at":"^3","late_receipt":"","tree":"empty","tree_at":"^3",` +
	`"settled_steady":{"boot":"^1","at":},"ttl":86400000000000,` +
	`{"seq":1,"operation":{"id":"","kind":"","key":"","token":"^4","token_sent":true,"fingerprint":"^2","source":{"pipeline":""},"state":"","version":2,"effects":1,"receipts":[""],"actor":"","hands_off":true,"by_answer":true,"attempt_count":1,` +
	`"created_at":"^3","updated_at":"^3","started_at":"^3^0","ended_at":"^3^0","settled_at":"^3^0"},"attempts":[{"id":"^4","operation_id":"","n":1,"token_sent":true,"started_at":"^3^0","deadline_at":"^3","ended_at":"^3","outcome":"committed","status":200,"receipt":""}]}`))
