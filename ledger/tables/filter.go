package tables

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"indoubt/ledger"
)

// filterText is a filter as conditions on the hot table, on operations in flight
// and on settled operations, each beginning with AND.
type filterText struct{ hot, flight, settled string }

// place is where a condition looks, and how what time moves is asked there.
type place struct {
	lane, state, group, failed, needsYou string
	column                               func(string) string
}

var (
	inHot     = place{laneSQL, stateSQL, groupSQL, errorSQL("h"), tabSQL + " = 'needs_you'", hotColumn}
	inFlight  = place{flightLane, flightState, flightGroup, errorSQL("o"), flight(ledger.TabNeedsYou), flightColumn}
	inSettled = place{"'resolved'", "o.state", settledGroup, "o.error_class", "1 = 0", settledColumn}
)

// filterSQL translates a filter. It selects what ledger.Filter.Match selects,
// or more where the database compares text otherwise; the caller matches again.
func filterSQL(b *binder, filter ledger.Filter, kinds []string, now time.Time) filterText {
	f, out := asked{filter, kinds}, filterText{}
	for _, t := range f.Terms {
		out.hot += inHot.condition(b, f, t, now)
		out.flight += inFlight.condition(b, f, t, now)
		out.settled += inSettled.condition(b, f, t, now)
	}
	return out
}

// asked is a filter, with what kindsFor gives for it.
type asked struct {
	ledger.Filter
	kinds []string
}

// kindsFor reads the kinds that the ledger has, where the filter asks a policy about them.
func kindsFor(ctx context.Context, db Database, f ledger.Filter) ([]string, error) {
	if f.DownstreamOf == nil || !f.Has(func(t ledger.Term) bool { return t.Field == "downstream" }) {
		return nil, nil
	}
	return Gather(ctx, db, word, `SELECT DISTINCT kind FROM totals`)
}

func (p *place) condition(b *binder, f asked, t ledger.Term, now time.Time) string {
	text := p.term(b, f, t, now)
	switch {
	case text == "":
		return ""
	case t.Not:
		return " AND NOT (" + text + ")"
	}
	return " AND (" + text + ")"
}

// aside is the condition that a row is parked, or that it is not, that it is in an
// outage, or that it needs a person.
func (p *place) aside(b *binder, t ledger.Term) string {
	switch {
	case t.Field == "needs":
		return p.needsYou
	case t.Value == ledger.AnyOutage:
		return inOutage("i.id <> ''")
	case t.Field == "outage":
		return inOutage(begins(b, "i.id", t.Value))
	case t.Value == "yes":
		return "?1 < " + p.column("parked_until")
	}
	return "?1 >= " + p.column("parked_until")
}

// begins is the condition that a column begins so.
func begins(b *binder, column, start string) string {
	return fmt.Sprintf("%s >= %s AND %s < %s", column, b.bind(start), column, b.bind(start+"\U0010FFFF"))
}

// words is the text of a column; of an actor's, what ledger.Signer says.
func (p *place) words(column string) string {
	name := p.column(column)
	if column == "actor" {
		return fmt.Sprintf("CASE WHEN substr(%[1]s, 1, 7) = 'checks,' THEN 'checks' ELSE %[1]s END", name)
	}
	return name
}

// oneOf is the condition that a name is one of a term's values.
func (p *place) oneOf(b *binder, f asked, t ledger.Term) string {
	var column string
	switch t.Field {
	case "state":
		column = p.state
	case "lane":
		column = p.lane
	case "group":
		column = p.group
	case "error":
		column = p.failed
	default:
		column = p.column(t.Field)
	}
	var whole, out []string
	for _, value := range t.OneOf() {
		if strings.Contains(value, "*") {
			out = append(out, b.d.Glob(column, b.bind(b.d.Pattern(strings.Split(value, "*")...))))
		} else {
			whole = append(whole, b.bind(value))
		}
	}
	if len(whole) > 0 {
		out = append(out, column+" IN ("+strings.Join(whole, ", ")+")")
	}
	if sent := f.KindsSentTo(t, f.kinds); t.Field == "downstream" && len(sent) > 0 {
		out = append(out, p.column("kind")+" IN ("+strings.Join(ledger.Each(sent, func(k string) string { return b.bind(k) }), ", ")+")")
	}
	return "(" + strings.Join(out, " OR ") + ")"
}

// term is one condition, or "" where SQL cannot say it.
func (p *place) term(b *binder, f asked, t ledger.Term, now time.Time) string {
	contains := func(columns ...string) string {
		if !ascii(t.Value) {
			return ""
		}
		mark := b.bind("%" + likeEscaper.Replace(t.Value) + "%")
		for i, c := range columns {
			columns[i] = b.d.Contains(p.words(c), mark)
		}
		return strings.Join(columns, " OR ")
	}
	prefix := func(column, start string) string {
		return fmt.Sprintf("substr(%s, 1, %s) = %s", column, b.bind(len([]rune(start))), b.bind(start))
	}
	// inWords is a condition that the list answers by itself, before one that asks its
	// operations.
	inWords := func(part string) string {
		if p != &inHot || !ascii(part) {
			return ""
		}
		return b.d.Glob("h.search", b.bind(b.d.Pattern("", strings.ToLower(part), ""))) + " AND "
	}
	moment := ""
	if t.Field == "since" || t.Field == "until" || t.Field == "age" {
		moment = "CAST(" + b.bind(float64(t.Moment(now).UnixMicro())/1000) + " AS DOUBLE PRECISION)"
	}
	switch t.Field {
	case "text":
		if words := inWords(t.Value); words != "" {
			return strings.TrimSuffix(words, " AND ")
		}
		return contains("title", "target", "priced_title", "priced_target", "kind", "key", "id", "source", "receipt")
	case "id", "key", "token", "receipt", "named":
		var names []string
		for _, name := range t.Columns() {
			begins := prefix(p.column(name), t.Value)
			if !slices.Contains([]string{"token", "sent_key"}, name) {
				begins = inWords(t.Value) + begins
			}
			names = append(names, begins)
		}
		return strings.Join(names, " OR ")
	case "source":
		if strings.ContainsAny(t.Value, ",*") {
			return p.oneOf(b, f, t)
		}
		return inWords(t.Value) + p.oneOf(b, f, t)
	case "kind", "state", "lane", "group", "downstream", "error":
		return p.oneOf(b, f, t)
	case "by":
		return contains("actor", "hands")
	case "or":
		return p.oneOfAll(b, f, t.Any, now)
	case "needs", "parked", "outage":
		return p.aside(b, t)
	case "since":
		return fmt.Sprintf("%s <> 'resolved' OR %s > %s", p.lane, p.column("created_at"), moment)
	case "until":
		return fmt.Sprintf("%s <> 'resolved' OR %s < %s", p.lane, p.column("created_at"), moment)
	case "age": // older is smaller
		op := "<"
		if t.Op != ">" {
			op = ">"
		}
		return fmt.Sprintf("%s %s %s", p.column("created_at"), op, moment)
	case "cost":
		twice, never := p.column("duplicate_value"), p.column("miss_value")
		return fmt.Sprintf("CASE WHEN %[1]s > %[2]s THEN %[1]s ELSE %[2]s END %[3]s %[4]s", twice, never, compare(t.Op), b.bind(t.Number))
	case "risk":
		return fmt.Sprintf("%s %s %s", p.column("rank"), compare(t.Op), b.bind(t.Number))
	}
	return "1 = 0"
}

// oneOfAll is the condition that all terms of one alternative hold, where SQL can say each.
func (p *place) oneOfAll(b *binder, f asked, any [][]ledger.Term, now time.Time) string {
	var out []string
	for _, one := range any {
		if !inSQL(ledger.Filter{Terms: one}) {
			return ""
		}
	}
	for _, one := range any {
		all := "1 = 1"
		for _, t := range one {
			all += p.condition(b, f, t, now)
		}
		out = append(out, "("+all+")")
	}
	return strings.Join(out, " OR ")
}

func compare(op string) string {
	if op == ">" {
		return ">"
	}
	return "<"
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
