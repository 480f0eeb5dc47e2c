package postgres

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"indoubt/ledger/lazyregexp"
)

// text is a statement as PostgreSQL takes it, and which values it has: the n-th is
// $n. A value that the statement does not name has no type, and is left out.
type text struct {
	query  string
	values []int
}

// written is a statement and what it depends on, another one that is sent with it where it
// has written something, with what that depends on, and what both give.
type written struct{ query, tie, behind, behindTie, gives string }

// rewritten keeps what rewrite made of each statement. Filters are many: one for each
// way of putting one together, so no more than these are kept.
var rewritten = struct {
	sync.RWMutex
	texts map[written]text
}{texts: map[written]text{}}

const keptTexts = 2000

// numbered is the statement as PostgreSQL takes it.
func numbered(query string) text { return written{query: query}.text() }

func (w written) text() text {
	rewritten.RLock()
	t, ok := rewritten.texts[w]
	rewritten.RUnlock()
	if ok {
		return t
	}
	t = rewrite(w.sql())
	rewritten.Lock()
	defer rewritten.Unlock()
	if len(rewritten.texts) >= keptTexts {
		clear(rewritten.texts)
	}
	rewritten.texts[w] = t
	return t
}

// sql is one statement. PostgreSQL takes in a statement for about what a row costs it.
func (w written) sql() string {
	if w.behind == "" {
		return conditional(w.query, "", w.tie, w.gives)
	}
	return "WITH first AS (" + onTable(conditional(w.query, "", w.tie, "1")) + ") " + onTable(conditional(w.behind, " FROM first", w.behindTie, w.gives))
}

// conditional has a statement that writes depend on rows and on a condition, and give
// something.
func conditional(query, from, where, gives string) string {
	if where != "" {
		where += " = 1"
	}
	head, tail, inserts := strings.Cut(query, ") VALUES (")
	switch {
	case from+where == "":
	case inserts:
		query = head + ") SELECT " + strings.TrimSuffix(tail, ")") + from
		if where != "" {
			query += " WHERE " + where
		}
	default:
		i := max(0, strings.LastIndex(query, " WHERE "))
		query = query[:i] + from + query[i:]
		if where != "" {
			query += " AND " + where
		}
	}
	if gives != "" {
		query += " RETURNING " + gives
	}
	return query
}

// parcel is memory for statements and their values until they have been sent.
type parcel struct {
	queue  []statement
	room   []byte
	values [][]byte
}

var parcels = sync.Pool{New: func() any { return new(parcel) }}

// largestParcel is how much text one may have had room for to be used again.
const largestParcel = 64 << 10

// again gives it to who needs one next.
func (p *parcel) again() {
	if cap(p.room) > largestParcel {
		return
	}
	clear(p.queue[:cap(p.queue)])
	clear(p.values)
	p.queue, p.room, p.values = p.queue[:0], p.room[:0], p.values[:0]
	parcels.Put(p)
}

// bind gives the values of the statement as text, in the room of the parcel. NULL is nil.
func (t text) bind(p *parcel, args []any) ([][]byte, error) {
	size := 0
	for _, n := range t.values {
		if n >= len(args) {
			return nil, fmt.Errorf("value %d of %d", n+1, len(args))
		}
		size += roomFor(args[n])
	}
	first := len(p.values)
	p.room = slices.Grow(p.room, size)
	for _, n := range t.values {
		from := len(p.room)
		room, null, err := bound(p.room, args[n])
		if err != nil {
			return nil, fmt.Errorf("value %d: %w", n+1, err)
		}
		p.room = room
		if null {
			p.values = append(p.values, nil)
		} else {
			p.values = append(p.values, room[from:len(room):len(room)])
		}
	}
	return p.values[first:len(p.values):len(p.values)], nil
}

// rewrite numbers SQLite's placeholders (? is the one after the highest, ?3 the third)
// and takes out its hints: INDEXED BY x, NOT INDEXED, and the + 0 that follows a
// placeholder. CROSS JOIN, which has a condition in SQLite, is a JOIN. What a statement
// writes is the table of that name, not the view. Quotes and comments stay.
func rewrite(query string) (t text) {
	var out strings.Builder
	out.Grow(len(query) + 16)
	query = onTable(query)
	highest := 0
	for i := 0; i < len(query); {
		switch c := query[i]; {
		case c == '\'' || c == '"':
			end := closing(query, i+1, string(c))
			out.WriteString(query[i:end])
			i = end
		case strings.HasPrefix(query[i:], "--"):
			end := closing(query, i, "\n")
			out.WriteString(query[i:end])
			i = end
		case strings.HasPrefix(query[i:], "/*"):
			end := closing(query, i+2, "*/")
			out.WriteString(query[i:end])
			i = end
		case c == '?':
			end := i + 1
			for end < len(query) && '0' <= query[end] && query[end] <= '9' {
				end++
			}
			n := highest + 1
			if end > i+1 {
				n, _ = strconv.Atoi(query[i+1 : end])
			}
			highest = max(highest, n)
			at := slices.Index(t.values, n-1)
			if at < 0 {
				at, t.values = len(t.values), append(t.values, n-1)
			}
			out.WriteString("$" + strconv.Itoa(at+1))
			i = end
			if strings.HasPrefix(query[i:], "+0") {
				i += len("+0")
			}
		case letter(c):
			end := i
			for end < len(query) && (letter(query[end]) || '0' <= query[end] && query[end] <= '9') {
				end++
			}
			kept, next := hint(query, query[i:end], end)
			out.WriteString(kept)
			i = next
		default:
			out.WriteByte(c)
			i++
		}
	}
	t.query = out.String()
	return t
}

// onTable names the table that a statement writes, and not the view.
func onTable(query string) string {
	into := writes.FindString(query)
	if into == "" {
		return query
	}
	return into + "indoubt." + query[len(into):]
}

// writes is how a statement begins that writes, up to the name of the table.
var writes = lazyregexp.New(`^\s*(?:INSERT INTO|UPDATE|DELETE FROM)\s+`)

// hint returns what stands in place of a word that may begin a hint, and where the
// text goes on.
func hint(query, word string, end int) (kept string, next int) {
	after := func(from int) (string, int) {
		for from < len(query) && strings.IndexByte(" \t\n", query[from]) >= 0 {
			from++
		}
		to := from
		for to < len(query) && (letter(query[to]) || '0' <= query[to] && query[to] <= '9') {
			to++
		}
		return query[from:to], to
	}
	second, next := after(end)
	switch {
	case word == "INDEXED" && second == "BY":
		_, next = after(next)
		return "", next
	case word == "NOT" && second == "INDEXED":
		return "", next
	case word == "CROSS" && second == "JOIN":
		return "JOIN", next
	}
	return word, end
}

func letter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
}

// closing is the place behind the mark that ends a quote or a comment.
func closing(query string, from int, mark string) int {
	if i := strings.Index(query[from:], mark); i >= 0 {
		return from + i + len(mark)
	}
	return len(query)
}
