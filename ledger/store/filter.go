package store

import (
	"database/sql/driver"
	"fmt"
	"math"
	"strings"
	"time"

	"indoubt/ledger"
)

// The expressions below say in SQL what ledger.Row says in Go, of op o and its price p; a test
// compares them. ?1 is now.
const (
	overdue  = `(o.state = 'pending' AND o.deadline_at < ?1)`
	stateSQL = `CASE WHEN o.abandoned = 1 THEN 'abandoned' WHEN ` + overdue + ` THEN 'uncertain' ELSE o.state END`
	doubtful = `(o.state = 'uncertain' AND o.abandoned = 0 OR ` + overdue + `)`
	errorSQL = `CASE WHEN ` + overdue + ` THEN 'deadline' ELSE o.class END`
)

var (
	laneSQL = laneIs("'conflict'", "'in_flight'", "'unfetched'", "'decide'", "'reading'", "'not_landed'", "'resolved'")
	// A tab is told without its lane: to compare the name of one with seven costs more than all else.
	tabSQL = `CASE WHEN o.parked_until > ?1 THEN 'parked' ELSE ` + laneIs("'needs_you'", "'in_flight'", fmt.Sprintf(
		`CASE WHEN ?1 - o.allowed_at >= %d THEN 'needs_you' ELSE 'in_flight' END`, ledger.FetchPatience.Milliseconds()),
		"'needs_you'", "'checking'", "'needs_you'", "'settled'") + ` END`
)

// laneIs is one of the values, by the lane.
func laneIs(conflict, inFlight, unfetched, decide, reading, notLanded, resolved string) string {
	return `CASE WHEN o.conflict <> '' THEN ` + conflict + `
		WHEN o.state = 'pending' AND o.deadline_at >= ?1 THEN ` + inFlight + `
		WHEN o.allow_until > ?1 AND (` + doubtful + ` OR o.state = 'failed' AND o.abandoned = 0) THEN ` + unfetched + `
		WHEN ` + doubtful + ` AND (o.person_only = 1 OR o.person_at <= ?1) THEN ` + decide + `
		WHEN ` + doubtful + ` THEN ` + reading + `
		WHEN o.state = 'failed' AND o.abandoned = 0 AND o.doubted = 1 THEN ` + notLanded + `
		ELSE ` + resolved + ` END`
}

// binder numbers bound values; the first is now.
type binder struct{ args []any }

func (b *binder) bind(v any) string {
	b.args = append(b.args, v)
	return fmt.Sprintf("?%d", len(b.args))
}

// fields are where the fields of a filter are that compare names.
var fields = map[string]string{
	"kind": "o.kind", "state": stateSQL, "lane": laneSQL, "downstream": "coalesce(p.downstream, '')", "source": "o.source",
	"error": errorSQL,
	"id":    "o.id", "key": "o.name", "sent_key": "o.key", "token": "o.token", "receipt": receiptSQL,
}

const receiptSQL = "coalesce(o.receipts ->> 0, '')"

// exact reports whether SQL can say a filter whole. It cannot compare letters beyond ASCII without
// regard to case, and what a group is is asked of records.
func exact(terms []ledger.Term) bool {
	return !ledger.Filter{Terms: terms}.Has(func(t ledger.Term) bool { return t.Field == "group" || !ascii(t.Value) })
}

func ascii(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 }) }

// filterSQL is a filter as conditions, each beginning with AND. It selects what
// ledger.Filter.Match selects, or more where it is not exact. kinds are those of the ledger.
func filterSQL(b *binder, f ledger.Filter, kinds []string, now time.Time) (out string) {
	for _, t := range f.Terms {
		text := termSQL(b, f, t, kinds, now)
		switch {
		case text == "":
		case t.Not:
			out += " AND NOT (" + text + ")"
		default:
			out += " AND (" + text + ")"
		}
	}
	return out
}

// termSQL is one condition, or "" where SQL cannot say it.
func termSQL(b *binder, f ledger.Filter, t ledger.Term, kinds []string, now time.Time) string {
	if !exact([]ledger.Term{t}) {
		return ""
	}
	contains := func(columns ...string) string {
		mark := b.bind("%" + likeEscaper.Replace(t.Value) + "%")
		return strings.Join(ledger.Each(columns, func(c string) string { return "{like " + c + ", " + mark + "}" }), " OR ")
	}
	begins := func(column string) string {
		return fmt.Sprintf("substr(%s, 1, CAST(%s AS INTEGER)) = %s", column, b.bind(len([]rune(t.Value))), b.bind(t.Value))
	}
	compare := func(what string, than any) string {
		op := "<"
		if t.Op == ">" {
			op = ">"
		}
		return what + " " + op + " " + b.bind(than)
	}
	moment := func() float64 { return float64(t.Moment(now).UnixMicro()) / 1000 }
	switch t.Field {
	case "text":
		return contains("o.title", "o.target", "o.kind", "o.name", "o.id", "o.source") + ` OR {text o.receipts} <> '[]' AND (` +
			contains(receiptSQL) + `) OR o.seq IN (SELECT q.op FROM price q WHERE ` + contains("q.title", "q.target") + `)`
	case "id", "key", "token", "receipt", "named":
		return strings.Join(ledger.Each(t.Columns(), func(c string) string { return begins(fields[c]) }), " OR ")
	case "kind", "state", "lane", "downstream", "source", "error":
		return oneOf(b, f, t, kinds)
	case "by":
		return contains("CASE WHEN substr(o.actor, 1, 7) = 'checks,' THEN 'checks' ELSE o.actor END") +
			" OR EXISTS (SELECT 1 FROM ev h WHERE h.op = o.seq AND " + contains("coalesce(h.facts -> 'op' ->> 'hands', '')") + ")"
	case "needs":
		return tabSQL + " = 'needs_you'"
	case "parked":
		return map[bool]string{true: "?1 < o.parked_until", false: "?1 >= o.parked_until"}[t.Value == "yes"]
	case "outage":
		return `o.seq IN (` + inOutageSQL(b, t.Value) + `)`
	case "since":
		return laneSQL + " <> 'resolved' OR o.created_at > " + b.bind(moment())
	case "until":
		return laneSQL + " <> 'resolved' OR o.created_at < " + b.bind(moment())
	case "age": // older is smaller
		t.Op = map[bool]string{true: "<", false: ">"}[t.Op == ">"]
		return compare("o.created_at", moment())
	case "cost":
		return compare("CASE WHEN coalesce(p.duplicate, 0) > coalesce(p.miss, 0) THEN p.duplicate ELSE coalesce(p.miss, 0) END", t.Number)
	case "risk":
		return compare("o.rank", t.Number)
	}
	return "1 = 0"
}

// oneOf is the condition that a name is one of a term's values.
func oneOf(b *binder, f ledger.Filter, t ledger.Term, kinds []string) string {
	column := fields[t.Field]
	var whole, out []string
	for _, value := range t.OneOf() {
		if strings.Contains(value, "*") {
			out = append(out, "{glob "+column+", "+b.bind(Pattern(value))+"}")
		} else {
			whole = append(whole, b.bind(value))
		}
	}
	if len(whole) > 0 {
		// No index has it, and a planner that guesses few rows would sort them.
		out = append(out, column+" || '' IN ("+strings.Join(whole, ", ")+")")
	}
	if sent := f.KindsSentTo(t, kinds); t.Field == "downstream" && len(sent) > 0 {
		out = append(out, "o.kind IN ("+strings.Join(ledger.Each(sent, func(k string) string { return b.bind(k) }), ", ")+")")
	}
	return strings.Join(out, " OR ")
}

var (
	likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)
	globEscaper = strings.NewReplacer("?", "[?]", "[", "[[]")
)

// Pattern is a text with stars, bound where a statement has glob.
type Pattern string

// Value is how SQLite writes it.
func (p Pattern) Value() (driver.Value, error) { return globEscaper.Replace(string(p)), nil }

// kindsFor reads the kinds that the ledger has, where the filter asks a policy about them.
func kindsFor(tx Tx, f ledger.Filter) ([]string, error) {
	if f.DownstreamOf == nil || !f.Has(func(t ledger.Term) bool { return t.Field == "downstream" }) {
		return nil, nil
	}
	sums, err := sumsOf(tx, math.MaxInt64)
	return sums.kinds(), err
}

// mostNamed is up to how many operations with a name are read one by one.
const mostNamed = 5000

// names are columns, each with how its name begins.
type names [][2]string

// few is the condition that an operation has one of the names, found by their indexes, or nil where
// there are none or too many have them.
func (of names) few(tx Tx) (few func(*binder) string, err error) {
	if of == nil {
		return nil, nil
	}
	found := func(b *binder) string {
		return strings.Join(ledger.Each(of, func(n [2]string) string {
			return fmt.Sprintf(`SELECT n.seq FROM op n WHERE %[1]s >= %[2]s AND %[1]s < %[3]s%[4]s`, byName[n[0]][0], b.bind(n[1]),
				b.bind(n[1]+"\U0010ffff"), byName[n[0]][1])
		}), " UNION ALL ")
	}
	var many int
	b := &binder{}
	err = One(tx, []any{&many}, `SELECT count(*) FROM (`+found(b)+` LIMIT `+b.bind(mostNamed+1)+`) AS few`, b.args...)
	if err != nil || many > mostNamed {
		return nil, err
	}
	return func(b *binder) string { return `o.seq IN (` + found(b) + `)` }, nil
}

// byName are the columns that names begin, each with what its index asks for beside.
var byName = map[string][2]string{
	"id": {"n.id", ""}, "key": {"n.name", ""}, "sent_key": {"n.key", " AND n.key <> ''"}, "token": {"n.token", " AND n.token <> ''"},
	"receipt": {"(n.receipts ->> 0)", " AND {text n.receipts} <> '[]'"},
}

// namedIn are names of which what the terms hold for has one.
func namedIn(terms []ledger.Term) (of names) {
	for _, t := range terms {
		if t.Not || len(of) > 0 {
			continue
		}
		for _, c := range t.Columns() {
			of = append(of, [2]string{c, t.Value})
		}
	}
	return of
}
