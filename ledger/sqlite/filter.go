package sqlite

import (
	"fmt"
	"strings"
	"time"

	"indoubt/ledger"
)

// filterText is a filter as conditions on the hot table and on operations, each
// beginning with AND.
type filterText struct{ hot, settled string }

// filterSQL translates a filter. It selects what ledger.Filter.Match selects,
// or more where SQLite compares text otherwise; the caller matches again.
func filterSQL(b *binder, f ledger.Filter, now time.Time) filterText {
	var out filterText
	for _, t := range f.Terms {
		hot := termSQL(b, t, now, false)
		if hot == "" {
			continue
		}
		settled := termSQL(b, t, now, true)
		if t.Not {
			hot, settled = "NOT ("+hot+")", "NOT ("+settled+")"
		}
		out.hot += " AND (" + hot + ")"
		out.settled += " AND (" + settled + ")"
	}
	return out
}

// termSQL is one condition, or "" where SQL cannot say it.
func termSQL(b *binder, t ledger.Term, now time.Time, settled bool) string {
	from, lane, state := "h.", laneSQL, stateSQL
	if settled {
		from, lane, state = "o.", "'resolved'", "o.state"
	}
	priced := func(column, none string) string {
		if settled { // beside the list nothing is priced
			return none
		}
		return "h." + column
	}
	contains := func(columns ...string) string {
		if !ascii(t.Value) {
			return ""
		}
		mark := b.bind("%" + likeEscaper.Replace(t.Value) + "%")
		for i, c := range columns {
			columns[i] = fmt.Sprintf(`%s%s LIKE %s ESCAPE '\'`, from, c, mark)
		}
		return strings.Join(columns, " OR ")
	}
	prefix := func(column, p string) string {
		return fmt.Sprintf("substr(%s%s, 1, %d) = %s", from, column, len([]rune(p)), b.bind(p))
	}
	switch t.Field {
	case "text":
		return contains("title", "kind", "key", "id", "source")
	case "id":
		return prefix("id", t.Value)
	case "kind":
		if p, ok := strings.CutSuffix(t.Value, "*"); ok {
			return prefix("kind", p)
		}
		return from + "kind = " + b.bind(t.Value)
	case "state":
		return state + " = " + b.bind(t.Value)
	case "lane":
		return lane + " = " + b.bind(t.Value)
	case "downstream":
		return priced("downstream", "''") + " = " + b.bind(t.Value)
	case "source", "key", "token":
		return contains(t.Field)
	case "by":
		return contains("actor")
	case "error":
		return from + "error_class = " + b.bind(t.Value)
	case "age": // older is smaller
		op := "<"
		if t.Op != ">" {
			op = ">"
		}
		return fmt.Sprintf("%screated_at %s %s", from, op, b.bind(float64(ms(now))-float64(t.Age)/float64(time.Millisecond)))
	case "cost":
		return fmt.Sprintf("max(%s, %s) %s %s", priced("duplicate_value", "0.0"), priced("miss_value", "0.0"), compare(t.Op), b.bind(t.Number))
	case "risk":
		return fmt.Sprintf("%s %s %s", priced("rank", "0.0"), compare(t.Op), b.bind(t.Number))
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

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
