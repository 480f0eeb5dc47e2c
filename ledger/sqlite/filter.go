package sqlite

import (
	"fmt"
	"strings"
	"time"

	"indoubt/ledger"
)

// filterText is a filter as conditions on the hot table, on operations in flight
// and on settled operations, each beginning with AND.
type filterText struct{ hot, flight, settled string }

// place is where a condition looks.
type place struct {
	from        string
	lane, state string
	column      func(string) string
}

var (
	inHot     = place{"h.", laneSQL, stateSQL, hotColumn}
	inFlight  = place{"o.", flightLane, flightState, flightColumn}
	inSettled = place{"o.", "'resolved'", "o.state", notPriced}
)

// notPriced is a column of what is in no list: beside it nothing is priced.
func notPriced(column string) string {
	switch column {
	case "downstream", "priced_title", "priced_target":
		return "''"
	case "duplicate_value", "miss_value", "rank":
		return "0.0"
	}
	return "o." + column
}

// filterSQL translates a filter. It selects what ledger.Filter.Match selects,
// or more where SQLite compares text otherwise; the caller matches again.
func filterSQL(b *binder, f ledger.Filter, now time.Time) filterText {
	var out filterText
	for _, t := range f.Terms {
		out.hot += inHot.condition(b, t, now)
		out.flight += inFlight.condition(b, t, now)
		out.settled += inSettled.condition(b, t, now)
	}
	return out
}

func (p *place) condition(b *binder, t ledger.Term, now time.Time) string {
	text := p.term(b, t, now)
	switch {
	case text == "":
		return ""
	case t.Not:
		return " AND NOT (" + text + ")"
	}
	return " AND (" + text + ")"
}

// term is one condition, or "" where SQL cannot say it.
func (p *place) term(b *binder, t ledger.Term, now time.Time) string {
	from := p.from
	contains := func(columns ...string) string {
		if !ascii(t.Value) {
			return ""
		}
		mark := b.bind("%" + likeEscaper.Replace(t.Value) + "%")
		for i, c := range columns {
			columns[i] = fmt.Sprintf(`%s LIKE %s ESCAPE '\'`, p.column(c), mark)
		}
		return strings.Join(columns, " OR ")
	}
	prefix := func(column, p string) string {
		return fmt.Sprintf("substr(%s%s, 1, %s) = %s", from, column, b.bind(len([]rune(p))), b.bind(p))
	}
	switch t.Field {
	case "text":
		if p == &inHot && ascii(t.Value) {
			return "h.search GLOB " + b.bind("*"+globEscaper.Replace(strings.ToLower(t.Value))+"*")
		}
		return contains("title", "target", "priced_title", "priced_target", "kind", "key", "id", "source", "receipt")
	case "id":
		return prefix("id", t.Value)
	case "kind":
		if p, ok := strings.CutSuffix(t.Value, "*"); ok {
			return prefix("kind", p)
		}
		return from + "kind = " + b.bind(t.Value)
	case "state":
		return p.state + " = " + b.bind(t.Value)
	case "lane":
		return p.lane + " = " + b.bind(t.Value)
	case "downstream":
		return p.column("downstream") + " = " + b.bind(t.Value)
	case "source", "key", "token":
		return contains(t.Field)
	case "by":
		return contains("actor")
	case "error":
		return from + "error_class = " + b.bind(t.Value)
	case "parked":
		if t.Value == "yes" {
			return "?1 < " + from + "parked_until"
		}
		return "?1 >= " + from + "parked_until"
	case "since":
		return fmt.Sprintf("%s <> 'resolved' OR %screated_at > %s", p.lane, from, b.bind(float64(ms(now))-float64(t.Age)/float64(time.Millisecond)))
	case "age": // older is smaller
		op := "<"
		if t.Op != ">" {
			op = ">"
		}
		return fmt.Sprintf("%screated_at %s %s", from, op, b.bind(float64(ms(now))-float64(t.Age)/float64(time.Millisecond)))
	case "cost":
		return fmt.Sprintf("max(%s, %s) %s %s", p.column("duplicate_value"), p.column("miss_value"), compare(t.Op), b.bind(t.Number))
	case "risk":
		return fmt.Sprintf("%s %s %s", p.column("rank"), compare(t.Op), b.bind(t.Number))
	}
	return "0"
}

func compare(op string) string {
	if op == ">" {
		return ">"
	}
	return "<"
}

var likeEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

var globEscaper = strings.NewReplacer("*", "[*]", "?", "[?]", "[", "[[]")

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
