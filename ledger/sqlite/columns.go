package sqlite

import (
	"encoding/json"
	"strings"
	"time"

	"indoubt/ledger"
)

// column is a column of operations and the field that it holds.
type column struct {
	name  string
	use   use
	field func(*ledger.Operation) any
}

// use is what a column is for, beside being read with its operation.
type use uint

const (
	given    use = 1 << iota // the INSERT sets it
	changed                  // an UPDATE sets it where it differs
	restated                 // an UPDATE sets it with every change of state, too
	shown                    // a row of a list has it
	listed                   // open_operations copies it, to sort, count or filter by
)

// columns are the columns of operations: what is selected, inserted, updated and
// listed follows from them. A new column is a field of ledger.Operation, a line
// here, one in schema.sql and one in ledger/README.md; what a list shows of it is a
// field of ledger.Row.
var columns = []column{
	{"id", given | shown, func(o *ledger.Operation) any { return &o.ID }},
	{"kind", given | shown | listed, func(o *ledger.Operation) any { return &o.Kind }},
	{"scope", given, func(o *ledger.Operation) any { return &o.Scope }},
	{"key", given | shown, func(o *ledger.Operation) any { return &o.Key }},
	{"token", given | shown, func(o *ledger.Operation) any { return &o.Token }},
	{"token_sent", given | changed, func(o *ledger.Operation) any { return &o.TokenSent }},
	{"fingerprint", given, func(o *ledger.Operation) any { return &o.Fingerprint }},
	{"title", given | shown, func(o *ledger.Operation) any { return &o.Title }},
	{"target", given | shown, func(o *ledger.Operation) any { return &o.Target }},
	{"mark_rules", given, func(o *ledger.Operation) any { return &o.MarkRules }},
	{"key_fields", given, func(o *ledger.Operation) any { return &o.KeyFields }},
	{"input", given, func(o *ledger.Operation) any { return &o.Input }},
	{"redacted", given, func(o *ledger.Operation) any { return &o.Redacted }},
	{"command", given, func(o *ledger.Operation) any { return &o.Command }},
	{"source", given | shown, func(o *ledger.Operation) any { return &o.Source.Pipeline }},
	{"source_run", given | shown, func(o *ledger.Operation) any { return &o.Source.Run }},
	{"source_host", given | shown, func(o *ledger.Operation) any { return &o.Source.Host }},
	{"source_pid", given | shown, func(o *ledger.Operation) any { return &o.Source.PID }},
	{"session", given, func(o *ledger.Operation) any { return &o.Session }},
	{"request", given, func(o *ledger.Operation) any { return &o.Request }},
	{"state", given | changed | shown | listed, func(o *ledger.Operation) any { return &o.State }},
	{"version", given | changed | shown, func(o *ledger.Operation) any { return &o.Version }},
	{"error_class", changed | shown | listed, func(o *ledger.Operation) any { return &o.ErrorClass }},
	{"verdict", changed | shown, func(o *ledger.Operation) any { return &o.Verdict }},
	{"effects", changed, func(o *ledger.Operation) any { return &o.Effects }},
	{"receipts", changed | restated | shown, func(o *ledger.Operation) any { return &o.Receipts }},
	{"result", changed, func(o *ledger.Operation) any { return &o.Result }},
	{"effect_word", changed, func(o *ledger.Operation) any { return &o.EffectWord }},
	{"actor", shown | listed, func(o *ledger.Operation) any { return &o.Actor }},
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
	{"key_live", 0, func(o *ledger.Operation) any { return &o.KeyLive }},
	{"created_at", given | shown | listed, func(o *ledger.Operation) any { return &o.CreatedAt }},
	{"updated_at", given | changed | shown | listed, func(o *ledger.Operation) any { return &o.UpdatedAt }},
	{"started_at", given | changed, func(o *ledger.Operation) any { return &o.StartedAt }},
	{"deadline_at", given | changed | shown | listed, func(o *ledger.Operation) any { return &o.DeadlineAt }},
	{"ended_at", changed, func(o *ledger.Operation) any { return &o.EndedAt }},
	{"doubted_at", changed | shown | listed, func(o *ledger.Operation) any { return &o.DoubtedAt }},
	{"settled_at", changed, func(o *ledger.Operation) any { return &o.SettledAt }},
	{"settled_boot", changed, func(o *ledger.Operation) any { return &o.SettledSteady.Boot }},
	{"settled_steady", changed, func(o *ledger.Operation) any { return &o.SettledSteady.At }},
	{"incident", changed | shown, func(o *ledger.Operation) any { return &o.Incident }},
	{"joined", changed | shown, func(o *ledger.Operation) any { return &o.Joined }},
	{"fault_at", changed, func(o *ledger.Operation) any { return &o.FaultAt }},
}

// used are the columns of a use.
func used(as use) []column {
	var out []column
	for _, c := range columns {
		if c.use&as == as {
			out = append(out, c)
		}
	}
	return out
}

// of names columns of a table.
func of(table string, columns []column) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = table + c.name
	}
	return strings.Join(names, ", ")
}

// listColumns are what the list of open operations copies: columns of operations, and
// what the view open_source makes of grants.
var listColumns = append(used(listed), column{name: "recheck_at"}, column{name: "granted_at"}, column{name: "grant_until"})

// searchOf is the text of a search: the words of open_source s, and what a policy
// calls the operation in a row of open_operations.
func searchOf(row string) string {
	return `s.words || lower(char(10) || ` + row + `.priced_title || char(10) || ` + row + `.priced_target)`
}

// listNew puts operations that are selected from open_source s into the list.
var listNew = `INSERT INTO open_operations (seq, ` + of("", listColumns) + `, search, read_at)
	SELECT s.seq, ` + of("s.", listColumns) + `, s.words || char(10) || char(10), s.recheck_at FROM open_source s`

// withColumns fills the columns of the list into derived.sql.
func withColumns() *strings.Replacer {
	return strings.NewReplacer("o.*", of("o.", used(listed)), "s.*", of("s.", listColumns), "NEW.*", of("NEW.", listColumns), "OLD.*", of("OLD.", listColumns),
		"{columns}", of("", listColumns), "{search of NEW}", searchOf("NEW"), "{search of open_operations}", searchOf("open_operations"),
		"{insert from open_source s}", listNew, "{add NEW to incident_sums}", summed("+", "NEW"), "{take OLD from incident_sums}", summed("-", "OLD"))
}

var (
	givenColumns = used(given)
	shownColumns = used(shown)

	operationColumns = of("o.", columns)

	insertOperation = `INSERT INTO operations (` + of("", givenColumns) + `, ` + strings.Join(toldColumns, ", ") + `)
		VALUES (?` + strings.Repeat(", ?", len(givenColumns)+len(toldColumns)-1) + `)`
)

// operationScan takes columns of an operation, which it may be used for again.
type operationScan struct {
	columns []column
	values  [64]any
}

func (s *operationScan) dest(to []any) []any {
	for i := range s.columns {
		to = append(to, &s.values[i])
	}
	return to
}

func (s *operationScan) operation() (o ledger.Operation) {
	for i, c := range s.columns {
		set(c.field(&o), s.values[i])
	}
	if o.SettledSteady.Boot == "" || o.SettledSteady.At == 0 {
		o.SettledSteady = ledger.Steady{}
	}
	return o
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
	case *time.Time:
		*f = at(n)
	case *time.Duration:
		*f = time.Duration(n) * time.Millisecond
	case *[]string:
		*f = unlist(s)
	case *json.RawMessage:
		*f = raw(s)
	case *ledger.State:
		*f = ledger.State(s)
	case *ledger.ErrorClass:
		*f = ledger.ErrorClass(s)
	case *ledger.Verdict:
		*f = ledger.Verdict(s)
	case *ledger.Conflict:
		*f = ledger.Conflict(s)
	case *ledger.Membership:
		*f = ledger.Membership(s)
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
	}
}

// value is what a column has of the field: text, a number or NULL.
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
		return ms(*f)
	case *time.Duration:
		return f.Milliseconds()
	case *[]string:
		return list(*f)
	case *json.RawMessage:
		return text(*f)
	case *ledger.State:
		return string(*f)
	case *ledger.ErrorClass:
		return string(*f)
	case *ledger.Verdict:
		return string(*f)
	case *ledger.Conflict:
		return string(*f)
	case *ledger.Membership:
		return string(*f)
	case **ledger.Command:
		return asJSON(*f)
	case **ledger.Request:
		return asJSON(*f)
	}
	return nil
}

// asJSON is the text of what is there, or NULL.
func asJSON[T any](v *T) any {
	if v == nil {
		return nil
	}
	b, _ := json.Marshal(v) // texts and numbers always marshal
	return string(b)
}

// kept is an operation in the precision the ledger keeps.
func kept(o ledger.Operation) ledger.Operation {
	for _, c := range columns {
		if t, ok := c.field(&o).(*time.Time); ok {
			*t = at(ms(*t))
		}
	}
	return o
}

// differences are the columns that a change sets, and what to: what SQLite need not
// set costs no check, no trigger and no index.
func differences(was, is *ledger.Operation) (names []string, values []any) {
	names, values = make([]string, 0, len(columns)), make([]any, 0, len(columns))
	for _, c := range columns {
		if c.use&changed == 0 {
			continue
		}
		v := value(c.field(is))
		if v == value(c.field(was)) && (c.use&restated == 0 || was.State == is.State) {
			continue
		}
		names, values = append(names, c.name), append(values, v)
		if c.name == "receipts" {
			names, values = append(names, "receipt"), append(values, is.Receipt())
		}
	}
	return names, values
}

// toldColumns are what the event of a change is made from, set all of them: what an
// earlier change left there is not this one's.
var toldColumns = []string{"change_id", "change_of", "change_verb", "actor", "os_user", "host", "machine", "terminal", "reason", "change_detail"}

func told(e ledger.Event) []any {
	return []any{e.ID, e.ID, e.Verb, named(e.Actor.Name), e.Actor.OSUser, e.Actor.Host,
		flag(e.Actor.Machine), flag(e.Actor.Terminal), e.Reason, text(e.Detail)}
}

// updateOperation is the statement that sets columns, if the operation is still at
// the version it was; its values end with the id and that version.
func updateOperation(names []string) string {
	return "UPDATE operations SET " + strings.Join(names, " = ?, ") + " = ? WHERE id = ? AND version = ?"
}
