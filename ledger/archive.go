package ledger

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
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
	Removed    int    // of which the ledger has only a stub: the others have moved since they were read
	Before     time.Time
	Actor      Actor
	CreatedAt  time.Time
	Until      time.Time // no other archive is begun before
	ClosedAt   time.Time
}

// Archiver moves settled operations out of the ledger. What it leaves of each is a stub:
// its key, its outcome, its attempts and its marks, so that Change and Read find it as
// before, only without input, answers and history. An operation that is changed returns
// to the ledger as that, with an event.
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
	// many. One that has moved since it was read stays.
	Archive(ctx context.Context, id string, ops []Whole) (removed int, err error)
	// Archives returns the archives, oldest first.
	Archives(ctx context.Context) ([]Archive, error)
}

// Carry reports what becomes of an archive that is recorded: the next one, and the
// event that tells of it, or why it may not.
func (a Archive) Carry(next Archive, now time.Time) (Archive, *Event) {
	sealed := a.Digest == "" && next.Digest != ""
	if a.Digest == "" {
		a.Digest, a.Size, a.Operations = next.Digest, next.Size, next.Operations
	}
	a.Until, a.ClosedAt = next.Until, next.ClosedAt
	if !sealed {
		return a, nil
	}
	return a, &Event{ID: a.ID, At: now, Verb: "archive", Actor: a.Actor,
		Reason: "settled before " + a.Before.UTC().Format(time.RFC3339) + ", moved to " + a.File,
		Detail: detail(map[string]any{"archive": a.ID, "file": a.File, "sha256": a.Digest, "operations": a.Operations, "bytes": a.Size})}
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

// Returned is the event of an archived operation that is in the ledger again.
func Returned(o Operation) Event {
	return Event{ID: NewID(), OperationID: o.ID, Verb: "return", Actor: Actor{Name: o.Actor, Machine: true}, From: o.State, To: o.State, Version: o.Version,
		Reason: "it changes again; its input, answers and history are in " + o.Archive, Detail: detail(map[string]any{"file": o.Archive})}
}

// Pack writes a slim operation as short text.
func (w Whole) Pack() (string, error) {
	text, err := json.Marshal(w)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	p := packers.Get().(*flate.Writer)
	defer packers.Put(p)
	p.Reset(&out)
	_, _ = p.Write(text) // a buffer takes all
	_ = p.Close()
	return base64.RawStdEncoding.EncodeToString(out.Bytes()), nil
}

// Unpack reads what Pack has written.
func Unpack(text string) (w Whole, err error) {
	r := flate.NewReaderDict(base64.NewDecoder(base64.RawStdEncoding, strings.NewReader(text)), packed)
	plain, err := io.ReadAll(r)
	if err == nil {
		err = json.Unmarshal(plain, &w)
	}
	return w, err
}

var packers = sync.Pool{New: func() any {
	w, _ := flate.NewWriterDict(nil, flate.BestCompression, packed) // the level is one
	return w
}}

// packed is what packed texts have in common. It is part of their format.
var packed = []byte(`{"operation":{"id":"","kind":"","scope":"","key":"","token":"indoubt-","mark_rules":"","key_fields":"","token_sent":true,"fingerprint":"","target":"","source":{"pipeline":""},` +
	`"request":{"method":"POST","origin":"https://","lost":"it is archived","callers":{}},"state":"abandoned","state":"failed","state":"committed","version":3,"version":2,"error_class":"timeout","verdict":"absent","verdict":"landed",` +
	`"effects":1,"receipts":[""],"effect_word":"created","actor":"checks","hands":"","reason":"attempt 1: committed, receipt ","acked_receipts":[""],"claimed_receipts":[""],"doubted":true,"hands_off":true,"by_answer":true,"attempt_count":1,"ttl":86400000000000,"key_live":true,` +
	`"created_at":"2026-","updated_at":"2026-","started_at":"2026-","ended_at":"2026-","doubted_at":"2026-","settled_at":"2026-","settled_steady":{"boot":"","at":},"archive":"","incident":"","joined":"error","fault_at":"2026-"},` +
	`"attempts":[{"id":"","operation_id":"","n":1,"basis":"key_safe","grant_id":"","sender":"command","sender":"http","sender":"pipeline","key_works":true,"token_sent":true,"started_at":"2026-","deadline_at":"2026-","ended_at":"2026-",` +
	`"outcome":"uncertain","outcome":"failed","proof":"never_sent","proof":"refused","proof":"absent","error_class":"timeout","outcome":"committed","status":200,"status":-1,"receipt":"","effect_word":"created","late_outcome":"committed","late_at":"2026-","late_receipt":"","tree":"empty","tree_at":"2026-"}]}`)
