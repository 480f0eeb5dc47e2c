package tables

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"indoubt/ledger"
)

// column is a column of a table and the field of its record that it holds.
type column[T any] struct {
	name  string
	use   use
	field func(*T) any
}

// use is what a column is for, beside being read with its operation.
type use uint

const (
	given      use = 1 << iota // the INSERT sets it where it is not empty
	required                   // the INSERT sets it: it has no default, or another one
	changed                    // an UPDATE sets it where it differs
	restated                   // an UPDATE sets it with every change of state, too
	shown                      // a row of a list has it
	listed                     // open_operations copies it, to sort, count or filter by
	redactable                 // a redaction sets it where it differs
)

// columns are the columns of operations: what is selected, inserted, updated and
// listed follows from them. A new column is a field of ledger.Operation, a line
// here, one in the schema of each store and one in ledger/README.md; what a list shows of it is a
// field of ledger.Row.
var columns = []column[ledger.Operation]{
	{"id", given | required | shown, func(o *ledger.Operation) any { return &o.ID }},
	{"kind", given | required | shown | listed, func(o *ledger.Operation) any { return &o.Kind }},
	{"scope", given, func(o *ledger.Operation) any { return &o.Scope }},
	{"key", given | required | shown | redactable, func(o *ledger.Operation) any { return &o.Key }},
	{"sent_key", given | shown | redactable, func(o *ledger.Operation) any { return &o.SentKey }},
	{"gate", given | changed, func(o *ledger.Operation) any { return &o.Gate }},
	{"token", given | shown, func(o *ledger.Operation) any { return &o.Token }},
	{"token_sent", given | changed, func(o *ledger.Operation) any { return &o.TokenSent }},
	{"fingerprint", given, func(o *ledger.Operation) any { return &o.Fingerprint }},
	{"title", given | shown | redactable, func(o *ledger.Operation) any { return &o.Title }},
	{"target", given | shown | redactable, func(o *ledger.Operation) any { return &o.Target }},
	{"mark_rules", given, func(o *ledger.Operation) any { return &o.MarkRules }},
	{"input", given | redactable, func(o *ledger.Operation) any { return &o.Input }},
	{"redacted", given | redactable, func(o *ledger.Operation) any { return &o.Redacted }},
	{"command", given | redactable, func(o *ledger.Operation) any { return &o.Command }},
	{"source", given | shown, func(o *ledger.Operation) any { return &o.Source.Pipeline }},
	{"source_run", given | shown, func(o *ledger.Operation) any { return &o.Source.Run }},
	{"source_host", given | shown, func(o *ledger.Operation) any { return &o.Source.Host }},
	{"source_pid", given | shown, func(o *ledger.Operation) any { return &o.Source.PID }},
	{"trace", given, func(o *ledger.Operation) any { return &o.Source.Trace }},
	{"session", given | redactable, func(o *ledger.Operation) any { return &o.Session }},
	{"request", given | redactable, func(o *ledger.Operation) any { return &o.Request }},
	{"state", given | changed | shown | listed, func(o *ledger.Operation) any { return &o.State }},
	{"fact", changed | shown, func(o *ledger.Operation) any { return &o.Fact }},
	{"version", given | changed | shown, func(o *ledger.Operation) any { return &o.Version }},
	{"error_class", changed | shown | listed, func(o *ledger.Operation) any { return &o.ErrorClass }},
	{"verdict", changed | shown, func(o *ledger.Operation) any { return &o.Verdict }},
	{"effects", changed, func(o *ledger.Operation) any { return &o.Effects }},
	{"receipts", changed | restated | shown, func(o *ledger.Operation) any { return &o.Receipts }},
	{"result", changed | restated, func(o *ledger.Operation) any { return &o.Result }},
	{"effect_word", changed, func(o *ledger.Operation) any { return &o.EffectWord }},
	{"actor", shown | listed, func(o *ledger.Operation) any { return &o.Actor }},
	{"hands", changed | shown | listed, func(o *ledger.Operation) any { return &o.Hands }},
	{"reason", 0, func(o *ledger.Operation) any { return &o.Reason }},
	{"conflict", changed | shown | listed, func(o *ledger.Operation) any { return &o.Conflict }},
	{"conflict_note", changed, func(o *ledger.Operation) any { return &o.ConflictNote }},
	{"acked_receipts", changed, func(o *ledger.Operation) any { return &o.AckedReceipts }},
	{"claimed_receipts", changed, func(o *ledger.Operation) any { return &o.ClaimedReceipts }},
	{"doubted", changed | shown | listed, func(o *ledger.Operation) any { return &o.Doubted }},
	{"hands_off", changed | shown | listed, func(o *ledger.Operation) any { return &o.HandsOff }},
	{"by_answer", changed, func(o *ledger.Operation) any { return &o.ByAnswer }},
	{"undelivered", given | changed, func(o *ledger.Operation) any { return &o.Undelivered }},
	{"awaits", changed, func(o *ledger.Operation) any { return &o.Awaits }},
	{"live_attempt", given | changed, func(o *ledger.Operation) any { return &o.LiveAttempt }},
	{"attempt_count", given | changed | shown, func(o *ledger.Operation) any { return &o.AttemptCount }},
	{"parked_until", changed | shown | listed, func(o *ledger.Operation) any { return &o.ParkedUntil }},
	{"ttl_ms", given, func(o *ledger.Operation) any { return &o.TTL }},
	{"key_live", changed, func(o *ledger.Operation) any { return &o.KeyLive }},
	{"created_at", given | shown | listed, func(o *ledger.Operation) any { return &o.CreatedAt }},
	{"updated_at", given | changed | shown | listed, func(o *ledger.Operation) any { return &o.UpdatedAt }},
	{"started_at", given | changed, func(o *ledger.Operation) any { return &o.StartedAt }},
	{"deadline_at", given | required | changed | shown | listed, func(o *ledger.Operation) any { return &o.DeadlineAt }},
	{"ended_at", changed, func(o *ledger.Operation) any { return &o.EndedAt }},
	{"doubted_at", changed | shown | listed, func(o *ledger.Operation) any { return &o.DoubtedAt }},
	{"settled_at", changed, func(o *ledger.Operation) any { return &o.SettledAt }},
	{"redacted_at", given | redactable, func(o *ledger.Operation) any { return &o.RedactedAt }},
	{"redacted_by", given | redactable, func(o *ledger.Operation) any { return &o.RedactedBy }},
}

// attemptColumns are the columns of attempts, but for whose they are.
var attemptColumns = []column[ledger.Attempt]{
	{"id", given | required, func(a *ledger.Attempt) any { return &a.ID }},
	{"n", given | required, func(a *ledger.Attempt) any { return &a.N }},
	{"basis", given, func(a *ledger.Attempt) any { return &a.Basis }},
	{"grant_id", given, func(a *ledger.Attempt) any { return &a.GrantID }},
	{"sender", given | required, func(a *ledger.Attempt) any { return &a.Sender }},
	{"key_works", given, func(a *ledger.Attempt) any { return &a.KeyWorks }},
	{"token_sent", given | changed, func(a *ledger.Attempt) any { return &a.TokenSent }},
	{"policy", given, func(a *ledger.Attempt) any { return &a.Policy }},
	{"actor", given, func(a *ledger.Attempt) any { return &a.Actor }},
	{"host", given, func(a *ledger.Attempt) any { return &a.Host }},
	{"pid", given, func(a *ledger.Attempt) any { return &a.PID }},
	{"started_at", given | required, func(a *ledger.Attempt) any { return &a.StartedAt }},
	{"deadline_at", given | required | changed, func(a *ledger.Attempt) any { return &a.DeadlineAt }},
	{"ended_at", changed, func(a *ledger.Attempt) any { return &a.EndedAt }},
	{"outcome", changed, func(a *ledger.Attempt) any { return &a.Outcome }},
	{"proof", changed, func(a *ledger.Attempt) any { return &a.Proof }},
	{"error_class", changed, func(a *ledger.Attempt) any { return &a.ErrorClass }},
	{"error", changed, func(a *ledger.Attempt) any { return &a.Error }},
	{"status", changed, func(a *ledger.Attempt) any { return &a.Status }},
	{"receipt", changed, func(a *ledger.Attempt) any { return &a.Receipt }},
	{"result", changed, func(a *ledger.Attempt) any { return &a.Result }},
	{"effect_word", changed, func(a *ledger.Attempt) any { return &a.EffectWord }},
	{"already", changed, func(a *ledger.Attempt) any { return &a.Already }},
	{"late_outcome", changed, func(a *ledger.Attempt) any { return &a.LateOutcome }},
	{"late_at", changed, func(a *ledger.Attempt) any { return &a.LateAt }},
	{"late_receipt", changed, func(a *ledger.Attempt) any { return &a.LateReceipt }},
	{"boot_id", given, func(a *ledger.Attempt) any { return &a.BootID }},
	{"pid_ns", given, func(a *ledger.Attempt) any { return &a.PIDNamespace }},
	{"uid", given | changed, func(a *ledger.Attempt) any { return &a.UID }},
	{"tree", given | changed, func(a *ledger.Attempt) any { return &a.Tree }},
	{"tree_at", changed, func(a *ledger.Attempt) any { return &a.TreeAt }},
}

// pricingColumns are what the list has of a policy, beside an operation.
var pricingColumns = []column[ledger.Pricing]{
	{"digest", 0, func(p *ledger.Pricing) any { return &p.Digest }},
	{"downstream", 0, func(p *ledger.Pricing) any { return &p.Downstream }},
	{"priced_title", 0, func(p *ledger.Pricing) any { return &p.Title }},
	{"priced_target", 0, func(p *ledger.Pricing) any { return &p.Target }},
	{"duplicate_value", 0, func(p *ledger.Pricing) any { return &p.Duplicate.Value }},
	{"duplicate_word", 0, func(p *ledger.Pricing) any { return &p.Duplicate.Word }},
	{"duplicate_guess", 0, func(p *ledger.Pricing) any { return &p.Duplicate.Guess }},
	{"miss_value", 0, func(p *ledger.Pricing) any { return &p.Miss.Value }},
	{"miss_word", 0, func(p *ledger.Pricing) any { return &p.Miss.Word }},
	{"miss_guess", 0, func(p *ledger.Pricing) any { return &p.Miss.Guess }},
	{"odds", 0, func(p *ledger.Pricing) any { return &p.Odds }},
	{"rank", 0, func(p *ledger.Pricing) any { return &p.Rank }},
	{"decide_at", 0, func(p *ledger.Pricing) any { return &p.DecideAt }},
	{"read_at", 0, func(p *ledger.Pricing) any { return &p.ReadAt }},
	{"reads", 0, func(p *ledger.Pricing) any { return &p.Reads }},
}

// used are the columns of a use.
func used[T any](columns []column[T], as use) []column[T] {
	var out []column[T]
	for _, c := range columns {
		if c.use&as == as {
			out = append(out, c)
		}
	}
	return out
}

// of names columns of a table.
func of[T any](table string, columns []column[T]) string {
	return table + strings.Join(ledger.Each(columns, func(c column[T]) string { return c.name }), ", "+table)
}

// listColumns are what the list of open operations copies: columns of operations, and
// what the view open_source makes of grants.
var listColumns = append(used(columns, listed), column[ledger.Operation]{name: "recheck_at"},
	column[ledger.Operation]{name: "granted_at"}, column[ledger.Operation]{name: "grant_until"})

// ListColumns names them, each behind the name of a table.
func ListColumns(table string) string { return of(table, listColumns) }

// newline is one in SQL.
const newline = "'\n'"

// ListNew puts operations that are selected from open_source s into the list.
var ListNew = `INSERT INTO open_operations (seq, ` + of("", listColumns) + `, search, read_at)
	SELECT s.seq, ` + of("s.", listColumns) + `, s.words || ` + newline + ` || ` + newline + `, s.recheck_at FROM open_source s`

var (
	shownColumns     = used(columns, shown)
	operationColumns = of("o.", columns)
)

// scan takes columns of rows, one row after the other.
type scan[T any] struct {
	columns []column[T]
	values  []any
	last    T
}

func (s *scan[T]) dest(to []any) []any {
	if s.values == nil {
		s.values = make([]any, len(s.columns))
	}
	for i := range s.values {
		to = append(to, &s.values[i])
	}
	return to
}

func (s *scan[T]) row() T {
	s.last = *new(T)
	for i, c := range s.columns {
		set(c.field(&s.last), s.values[i])
	}
	return s.last
}

// attemptOf is an operation's attempt, from the columns that were scanned.
func attemptOf(operationID string, a ledger.Attempt) ledger.Attempt {
	a.OperationID = operationID
	return a
}

// pricingOf is the price that was scanned. It names the operation even where it has
// no price yet.
func pricingOf(s *scan[ledger.Pricing], operationID string) ledger.Pricing {
	p := s.row()
	p.OperationID = operationID
	return p
}

// set puts what a column has into the field; NULL is the zero value.
func set(field, v any) {
	s, _ := v.(string)
	n, _ := v.(int64)
	switch f := field.(type) {
	case *string:
		*f = s
	case *bool:
		*f = n != 0
	case *int:
		*f = int(n)
	case *int64:
		*f = n
	case *float64:
		*f, _ = v.(float64)
	case *time.Time:
		*f = At(n)
	case *time.Duration:
		*f = time.Duration(n) * time.Millisecond
	case *[]string:
		*f = unlist(s)
	case *json.RawMessage:
		*f = raw(s)
	// Other writers may put any JSON there. What is no command or request cannot be
	// sent again, and must not keep the operation, and lists with it, from being read.
	case **ledger.Command:
		var c ledger.Command
		if s != "" && json.Unmarshal([]byte(s), &c) == nil && len(c.Argv) > 0 {
			*f = &c
		}
	case **ledger.Request:
		var r ledger.Request
		if s != "" && json.Unmarshal([]byte(s), &r) == nil && r.Method != "" {
			*f = &r
		}
	default: // a word of the ledger's: a state, an outcome, …
		reflect.ValueOf(f).Elem().SetString(s)
	}
}

// value is what a statement binds for the field.
func (d *Dialect) value(field any) any {
	switch f := field.(type) {
	case *time.Time:
		return d.Time(*f)
	case *bool:
		return d.Flag(*f)
	}
	return value(field)
}

// value is what is read of the field: text, a number or NULL.
func value(field any) any {
	switch f := field.(type) {
	case *string:
		return *f
	case *bool:
		return int64(flag(*f))
	case *int:
		return int64(*f)
	case *int64:
		return *f
	case *time.Time:
		return Millis(*f)
	case *time.Duration:
		return f.Milliseconds()
	case *[]string:
		return list(*f)
	case *json.RawMessage:
		return text(*f)
	case **ledger.Command:
		return asJSON(*f)
	case **ledger.Request:
		return asJSON(*f)
	}
	return reflect.ValueOf(field).Elem().String()
}

// asJSON is the text of what is there, or NULL.
func asJSON[T any](v *T) any {
	if v == nil {
		return nil
	}
	b, _ := json.Marshal(v) // texts and numbers always marshal
	return string(b)
}

// round gives a record the precision that the ledger keeps.
func round[T any](columns []column[T], row *T) {
	for _, c := range columns {
		if t, ok := c.field(row).(*time.Time); ok {
			*t = At(Millis(*t))
		}
	}
}

// assignment is what a statement sets, and what to.
type assignment struct {
	names  []string
	values []any
}

// newAssignment has room for what most statements set.
func newAssignment() assignment { return assignment{make([]string, 0, 32), make([]any, 0, 32)} }

func (a *assignment) set(name string, v any) {
	a.names, a.values = append(a.names, name), append(a.values, v)
}

// insert is the statement that makes a row of a table.
func (a *assignment) insert(table string) string {
	return "INSERT INTO " + table + " (" + strings.Join(a.names, ", ") + ") VALUES (?" + strings.Repeat(", ?", len(a.names)-1) + ")"
}

// update is the statement that changes a row of a table.
func (a *assignment) update(table, where string) string {
	return "UPDATE " + table + " SET " + strings.Join(a.names, " = ?, ") + " = ? WHERE " + where
}

// first are the columns that an INSERT sets. Of the others the database knows what
// they are, and each that it need not be told costs less.
func first[T any](d *Dialect, columns []column[T], row *T) assignment {
	a := newAssignment()
	for _, c := range columns {
		if f := c.field(row); c.use&required != 0 || c.use&given != 0 && !empty(f) {
			a.set(c.name, d.value(f))
		}
	}
	return a
}

// empty reports whether a column has nothing of the field.
func empty(field any) bool {
	switch f := field.(type) {
	case *string:
		return *f == ""
	case *bool:
		return !*f
	case *int:
		return *f == 0
	case *int64:
		return *f == 0
	case *time.Time:
		return Millis(*f) == 0
	case *time.Duration:
		return f.Milliseconds() == 0
	case *json.RawMessage:
		return len(*f) == 0
	}
	return reflect.ValueOf(field).Elem().IsZero()
}

// differences are the columns that a change sets, and what to: what need not be
// set costs no check, no trigger and no index.
func differences[T any](d *Dialect, columns []column[T], was, is *T, of use, restate bool) assignment {
	a := newAssignment()
	for _, c := range columns {
		if c.use&of == 0 {
			continue
		}
		if v := c.field(is); !same(c.field(was), v) || restate && c.use&restated != 0 {
			a.set(c.name, d.value(v))
		}
	}
	return a
}

// same reports whether a column would have the same of two fields.
func same(a, b any) bool {
	switch f := a.(type) {
	case *string:
		return *f == *b.(*string)
	case *bool:
		return *f == *b.(*bool)
	case *int:
		return *f == *b.(*int)
	case *time.Time:
		return Millis(*f) == Millis(*b.(*time.Time))
	case *json.RawMessage:
		return bytes.Equal(*f, *b.(*json.RawMessage))
	}
	return empty(a) && empty(b) || value(a) == value(b)
}

// told is what the event of a change is made from. A change sets all of it: what an
// earlier one left there is not this one's.
func (a *assignment) told(d *Dialect, e ledger.Event) {
	a.set("change_id", e.ID)
	a.set("change_of", e.ID)
	a.set("change_verb", e.Verb)
	a.set("actor", named(e.Actor.Name))
	a.set("os_user", e.Actor.OSUser)
	a.set("host", e.Actor.Host)
	a.set("machine", d.Flag(e.Actor.Machine))
	a.set("terminal", d.Flag(e.Actor.Terminal))
	a.set("reason", e.Reason)
	a.set("change_detail", text(e.Detail))
}
