package store

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
)

// row is a row of op.
type row struct {
	seq int64
	o   *ledger.Operation

	n, abandoned          int
	state                 string
	unproven              int
	allowUntil, allowedAt time.Time
	begun                 time.Time
	mark                  string
	moved                 int64
	policy                string
	rank                  float64
	byWord                bool
	personAt              time.Time
}

// column is a column of op and where it is in a row.
type column struct {
	name  string
	field func(*row) any
}

// columns are those of op, but for its number and its newest change. To have a new one is a line
// here and one in ledger.sql.
var columns = []column{
	{"id", func(r *row) any { return &r.o.ID }},
	{"kind", func(r *row) any { return &r.o.Kind }},
	{"scope", func(r *row) any { return &r.o.Scope }},
	{"name", func(r *row) any { return &r.o.Key }},
	{"n", func(r *row) any { return &r.n }},
	{"live", func(r *row) any { return &r.o.KeyLive }},
	{"key", func(r *row) any { return &r.o.SentKey }},
	{"input", func(r *row) any { return &r.o.Fingerprint }},
	{"gate", func(r *row) any { return &r.o.Gate }},
	{"token", func(r *row) any { return &r.o.Token }},
	{"token_sent", func(r *row) any { return &r.o.TokenSent }},
	{"mark", func(r *row) any { return &r.mark }},
	{"target", func(r *row) any { return &r.o.Target }},
	{"title", func(r *row) any { return &r.o.Title }},
	{"source", func(r *row) any { return &r.o.Source.Pipeline }},
	{"created_at", func(r *row) any { return &r.o.CreatedAt }},
	{"ttl_ms", func(r *row) any { return &r.o.TTL }},
	{"state", func(r *row) any { return &r.state }},
	{"abandoned", func(r *row) any { return &r.abandoned }},
	{"version", func(r *row) any { return &r.o.Version }},
	{"attempt", func(r *row) any { return &r.o.AttemptCount }},
	{"unproven", func(r *row) any { return &r.unproven }},
	{"allow_until", func(r *row) any { return &r.allowUntil }},
	{"allowed_at", func(r *row) any { return &r.allowedAt }},
	{"started_at", func(r *row) any { return &r.o.StartedAt }},
	{"begun_at", func(r *row) any { return &r.begun }},
	{"deadline_at", func(r *row) any { return &r.o.DeadlineAt }},
	{"ended_at", func(r *row) any { return &r.o.EndedAt }},
	{"doubted", func(r *row) any { return &r.o.Doubted }},
	{"doubted_at", func(r *row) any { return &r.o.DoubtedAt }},
	{"settled_at", func(r *row) any { return &r.o.SettledAt }},
	{"parked_until", func(r *row) any { return &r.o.ParkedUntil }},
	{"undelivered", func(r *row) any { return &r.o.Undelivered }},
	{"awaits", func(r *row) any { return &r.o.Awaits }},
	{"class", func(r *row) any { return &r.o.ErrorClass }},
	{"verdict", func(r *row) any { return &r.o.Verdict }},
	{"conflict", func(r *row) any { return &r.o.Conflict }},
	{"person_only", func(r *row) any { return &r.o.PersonOnly }},
	{"by_answer", func(r *row) any { return &r.o.ByAnswer }},
	{"effects", func(r *row) any { return &r.o.Effects }},
	{"receipts", func(r *row) any { return &r.o.Receipts }},
	{"policy", func(r *row) any { return &r.policy }},
	{"rank", func(r *row) any { return &r.rank }},
	{"by_word", func(r *row) any { return &r.byWord }},
	{"person_at", func(r *row) any { return &r.personAt }},
}

// changeColumns are read as well; they are written with each change.
var changeColumns = []column{
	{"moved", func(r *row) any { return &r.moved }},
	{"changed_at", func(r *row) any { return &r.o.UpdatedAt }},
	{"actor", func(r *row) any { return &r.o.Actor }},
	{"reason", func(r *row) any { return &r.o.Reason }},
}

var allColumns = append(columns[:len(columns):len(columns)], changeColumns...)

// fewColumns are those that tell what is true of an operation, and what it costs.
var fewColumns = func() (few []column) {
	for _, name := range strings.Fields(`id kind title source state abandoned version attempt allow_until deadline_at ended_at doubted
		parked_until conflict person_only effects policy rank person_at actor`) {
		few = append(few, allColumns[slices.IndexFunc(allColumns, func(c column) bool { return c.name == name })])
	}
	return few
}()

// rowColumns are what a rowScan of these columns reads of op o.
func rowColumns(columns []column) string {
	names := []string{"o.seq"}
	for _, c := range columns {
		names = append(names, "o."+c.name)
	}
	return bare(names...)
}

// bare are columns of a query without their names and types, which SQLite's driver else copies each
// time, and nobody reads.
func bare(columns ...string) string {
	return "{bare " + strings.Join(columns, "}, {bare ") + "}"
}

// rowScan takes rows one after another, each with what is selected after it.
type rowScan struct {
	columns []column
	values  []any
	seq     int64
	dest    []any
}

func newRowScan(columns []column, more ...any) *rowScan {
	s := &rowScan{columns: columns, values: make([]any, len(columns)), dest: make([]any, 1, 1+len(columns)+len(more))}
	s.dest[0] = &s.seq
	for i := range s.values {
		s.dest = append(s.dest, &s.values[i])
	}
	s.dest = append(s.dest, more...)
	return s
}

func (s *rowScan) row(rows Rows, r *row) error {
	if err := rows.Scan(s.dest...); err != nil {
		return err
	}
	r.seq = s.seq
	for i, c := range s.columns {
		set(c.field(r), s.values[i])
	}
	r.o.State = ledger.State(r.state)
	if r.abandoned == 1 { // what is known of it is Fact; of one whose effect was taken back, nothing
		if r.o.Fact, r.o.State = r.o.State, ledger.Abandoned; r.o.Fact == ledger.Committed {
			r.o.Fact = ""
		}
	}
	return nil
}

// belongs fills in whose all is that was folded, and what a writer in plain SQL leaves out.
func (r *row) belongs(s *state) {
	for i := range s.attempts {
		a := &s.attempts[i]
		a.OperationID = r.o.ID
		if a.ID == "" {
			a.ID, a.TokenSent = r.o.ID+"."+decimal(a.N), r.o.TokenSent
		}
		if r.o.State == ledger.Pending && a.N == r.o.AttemptCount {
			r.o.LiveAttempt = a.ID
		}
	}
	for i := range s.reads {
		s.reads[i].OperationID = r.o.ID
	}
	for i := range s.allowed {
		s.allowed[i].OperationID = r.o.ID
	}
}

// landed is the only attempt of an operation whose history was moved, unless an event of it that stays says otherwise.
func (r *row) landed() ledger.Attempt {
	a := ledger.Attempt{N: 1, StartedAt: r.o.StartedAt, EndedAt: r.o.EndedAt, Outcome: ledger.OutcomeCommitted, KeyWorks: true}
	if len(r.o.Receipts) > 0 {
		a.Receipt = r.o.Receipts[0]
	}
	return a
}

// keep takes an operation with what belongs to it into the row.
func (r *row) keep(s *state) {
	o := s.op
	r.o = o
	r.state, r.abandoned = string(o.State), 0
	if o.State == ledger.Abandoned {
		r.state, r.abandoned = nonEmpty(string(o.Fact), string(ledger.Committed)), 1
	}
}

// mayHaveActed is 1 for an attempt that ended without a proof that it had no effect.
func mayHaveActed(a ledger.Attempt) int { return number(a.Outcome != "" && !a.NoEffect()) }

func nonEmpty(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// set puts what a column has into the field.
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
		real, _ := v.(float64)
		*f = real
	case *time.Time:
		*f = at(n)
	case *time.Duration:
		*f = time.Duration(n) * time.Millisecond
	case *[]string:
		*f = unlist(s)
	default: // a word of the ledger's: a state, a class, …
		reflect.ValueOf(f).Elem().SetString(s)
	}
}

// value is what a statement binds for the field.
func value(field any) any {
	switch f := field.(type) {
	case *string:
		return *f
	case *bool:
		return int64(number(*f))
	case *int:
		return int64(*f)
	case *int64:
		return *f
	case *float64:
		return *f
	case *time.Time:
		return millis(*f)
	case *time.Duration:
		return f.Milliseconds()
	case *[]string:
		return list(*f)
	}
	return reflect.ValueOf(field).Elem().String()
}

// same reports whether two fields of a column hold the same.
func same(a, b any) bool {
	switch a := a.(type) {
	case *string:
		return *a == *b.(*string)
	case *bool:
		return *a == *b.(*bool)
	case *int:
		return *a == *b.(*int)
	case *int64:
		return *a == *b.(*int64)
	case *float64:
		return *a == *b.(*float64)
	case *time.Time:
		return millis(*a) == millis(*b.(*time.Time))
	case *time.Duration:
		return a.Milliseconds() == b.(*time.Duration).Milliseconds()
	case *[]string:
		return slices.Equal(*a, *b.(*[]string))
	}
	return reflect.ValueOf(a).Elem().String() == reflect.ValueOf(b).Elem().String()
}

// millis is a time as the ledger keeps it: Unix milliseconds, 0 for none.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return min(t.UnixMilli(), ledger.Never.UnixMilli())
}

// at is a time read from the ledger.
func at(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// JSON is a value that is bound to a column of JSON.
type JSON string

// list is a JSON array.
func list(items []string) JSON {
	if len(items) == 0 {
		return "[]"
	}
	return JSON(ledger.EncodeJSON(items))
}

func unlist(s string) (items []string) {
	if s == "" || s == "[]" {
		return nil
	}
	_ = json.Unmarshal([]byte(s), &items) // the database keeps it valid JSON
	return items
}

// finite keeps sums over the column finite.
func finite(f float64) float64 {
	const most = 1e15
	if math.IsNaN(f) {
		return 0
	}
	return max(-most, min(most, f))
}
