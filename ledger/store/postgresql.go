package store

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// PostgreSQLSchema are the tables and guards of a ledger as PostgreSQL reads them, in the schema
// indoubt. It is several statements, for one transaction.
var PostgreSQLSchema = sync.OnceValue(func() string {
	text, bounds := unbounded(fill(template, inPostgreSQL))
	head, guards := guards(text)
	asText := regexp.MustCompile(`\bTEXT\b`) // they are compared by their bytes, in whatever language the database is
	out := []string{"CREATE SCHEMA indoubt; SET LOCAL search_path = indoubt; CREATE SEQUENCE op_seq; CREATE SEQUENCE ev_seq;",
		asText.ReplaceAllString(head, `text COLLATE "C"`)}
	for _, g := range guards {
		if g.what == "refuse" && g.when != "DELETE" && bounds[g.table] != nil {
			within := "(" + strings.Join(bounds[g.table], " AND ") + ") IS FALSE"
			g.rules = append([]rule{{"a value of " + g.table + " is out of its bounds", within}}, g.rules...)
		}
		out = append(out, g.postgreSQL())
	}
	return strings.Join(out, "\n")
})

// feedPlace is where an event is in the feed: its transaction, and before that the timeline of the log. On a
// standby that is promoted numbers of transactions are given again.
const feedPlace = "(('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint << 40)" +
	" + pg_current_xact_id()::text::bigint"

// inPostgreSQL is a word as PostgreSQL says it.
func inPostgreSQL(kind, of string) string {
	switch kind {
	case "schema":
		return "indoubt."
	case "number":
		return "bigint"
	case "int":
		if of != "" {
			return "(" + strings.TrimPrefix(of, "of ") + ")::bigint"
		}
		return "bigint"
	case "real":
		return "double precision"
	case "json":
		return "json"
	case "now":
		return "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
	case "random":
		return "(gen_random_uuid()::text)"
	case "text":
		return of + "::text"
	case "who":
		return "session_user::text" // it knows who writes
	case "numbered":
		return of + " IS NOT NULL"
	case "object":
		return "json_build_object(" + of + ")"
	case "array":
		return "json_build_array(" + of + ")"
	case "place": // of a follower: numbers of events are given before their transactions end
		return ",\n  place    bigint NOT NULL DEFAULT " + feedPlace + ",\n  db_user  TEXT NOT NULL DEFAULT session_user"
	case "by":
		return "CREATE INDEX ev_by_place ON ev (place, seq);"
	}
	return "" // strict, is
}

// unbounded takes the bounds of columns out of op and ev: PostgreSQL reads the text of each anew in
// every statement, a quarter of a begin and a settle. They are the first rule of their guards.
func unbounded(text string) (string, map[string][]string) {
	bounds := map[string][]string{}
	tableOf := regexp.MustCompile(`(?s)CREATE TABLE (op|ev) \(.*?\n\)`)
	columnOf := regexp.MustCompile(`(?m)^  (\w+) `)
	checkOf := regexp.MustCompile(` CHECK \(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)`)
	text = tableOf.ReplaceAllStringFunc(text, func(table string) string {
		name := tableOf.FindStringSubmatch(table)[1]
		var names []string
		for _, m := range columnOf.FindAllStringSubmatch(table, -1) {
			names = append(names, m[1])
		}
		column := regexp.MustCompile(`'[^']*'|\b(?:` + strings.Join(names, "|") + `)\b`)
		return checkOf.ReplaceAllStringFunc(table, func(check string) string {
			of := checkOf.FindStringSubmatch(check)[1]
			bounds[name] = append(bounds[name], "("+column.ReplaceAllStringFunc(of, func(word string) string {
				if word[0] == '\'' {
					return word
				}
				return "NEW." + word
			})+")")
			return ""
		})
	})
	return text, bounds
}

func (g guard) postgreSQL() string {
	var body strings.Builder
	for _, r := range g.rules {
		refuse := fmt.Sprintf("IF (%s) IS NOT FALSE THEN RAISE EXCEPTION USING ERRCODE = 'IN001', MESSAGE = '%s'; END IF;", r.holds, r.says)
		if c := cheap(r.holds); c != "" {
			refuse = "IF (" + c + ") IS NOT FALSE THEN " + refuse + " END IF;"
		}
		body.WriteString("  " + refuse + "\n")
	}
	if g.what == "refuse" && g.when == "INSERT" { // without guards, as in a dump that is being restored, nothing has a number
		fmt.Fprintf(&body, "  NEW.seq := nextval('indoubt.%s_seq');\n", g.table)
	}
	switch {
	case g.do != "" && g.condition != "":
		fmt.Fprintf(&body, "  IF %s THEN %s; END IF;\n", g.condition, g.do)
	case g.do != "":
		body.WriteString("  " + g.do + ";\n")
	}
	if g.table == "settle" { // another writer may have ended the attempt since the rules were asked
		fmt.Fprintf(&body, "  IF NOT FOUND THEN RAISE EXCEPTION USING ERRCODE = 'IN001', MESSAGE = '%s'; END IF;\n", g.rules[1].says)
	}
	rights, result := " SET search_path = pg_catalog, pg_temp", "NEW"
	if g.what != "refuse" { // what a change tells, and what the two views write, is for no one to write by itself
		rights = " SECURITY DEFINER" + rights
	}
	if g.when == "DELETE" {
		result = "OLD"
	}
	return fmt.Sprintf(`CREATE FUNCTION %[1]s() RETURNS trigger LANGUAGE plpgsql%[2]s AS $$ BEGIN
%[3]s  RETURN %[4]s; END $$;
CREATE TRIGGER %[1]s %[5]s %[6]s ON %[7]s FOR EACH ROW EXECUTE FUNCTION %[1]s();`,
		g.name(), rights, body.String(), result, g.timing(), g.when, g.table)
}

// cheap is what PostgreSQL asks first of a condition, because it runs no query: where that is
// false, so is the whole. "" where there is no such part.
func cheap(condition string) string {
	if len(parts(condition, " OR ")) > 1 {
		return ""
	}
	var first []string
	for _, part := range parts(condition, " AND ") {
		if strings.Contains(part, "SELECT") {
			return strings.Join(first, " AND ")
		}
		first = append(first, part)
	}
	return ""
}

// parts are what stands between the words at the top of a condition.
func parts(condition, word string) (out []string) {
	depth, from := 0, 0
	for i := 0; i < len(condition); i++ {
		switch c := condition[i]; {
		case c == '\'':
			i++
			for i < len(condition) && condition[i] != '\'' {
				i++
			}
		case c == '(':
			depth++
		case c == ')':
			depth--
		case depth == 0 && strings.HasPrefix(condition[i:], word):
			out, from = append(out, condition[from:i]), i+len(word)
			i = from - 1
		}
	}
	return append(out, condition[from:])
}

// PostgreSQL is a statement of this package as PostgreSQL reads it. Values have the types that
// they have in Go, so that none has to be guessed. The last one stands in the text where it is how
// many rows are wanted, and is not bound then.
func PostgreSQL(query string, args []any) string {
	types := make([]byte, 0, 256)
	for _, arg := range args {
		types = append(append(types, typeOf(arg)...), ',')
	}
	key := asked{query, string(types)}
	if text, known := translations.Load(key); known {
		return text.(string)
	}
	text, whole := translated(query, args)
	if whole {
		translations.Store(key, text)
	}
	return text
}

// asked is a statement with the types of its values. A program has few, for values are bound: each is read once.
type asked struct{ query, types string }

var translations sync.Map // by asked

// translated is the text of a statement, and whether it has none of the values.
func translated(query string, args []any) (text string, whole bool) {
	whole = true
	query = fill(strings.ReplaceAll(query, "CROSS JOIN ", "JOIN "), func(kind, of string) string {
		cut := max(0, strings.LastIndex(of, ", "))
		switch kind {
		case "int":
			return "bigint"
		case "by":
			return ""
		case "arm": // of a UNION; else each is sorted as a whole
			first, all, _ := strings.Cut(of, "; ")
			return "(" + all + first + ")"
		case "likely": // else it is guessed that it holds for one row in two hundred
			return "CASE WHEN " + of + " THEN true END"
		case "place":
			return "e.place"
		case "ended": // what is below has ended
			return "(" + strings.Replace(feedPlace, "pg_current_xact_id()", "pg_snapshot_xmin(pg_current_snapshot())", 1) + " - 1)"
		case "take": // to delete is a right over the whole table
			return "UPDATE " + of + " SET looks = -1"
		case "text":
			return "(" + of + ")::text"
		case "in":
			first, text, _ := strings.Cut(of, ", ")
			return "strpos((" + text + ")::text, " + first + ") > 0"
		case "quoted":
			return `'"' || ` + of + ` || '"'`
		case "like":
			return of[:cut] + " ILIKE " + of[cut+2:] + ` ESCAPE '\'`
		case "glob":
			return of[:cut] + " LIKE " + of[cut+2:] + ` ESCAPE '\'`
		}
		return of
	})
	var out strings.Builder
	highest := 0
	for {
		before, rest, more := strings.Cut(query, "?")
		out.WriteString(before)
		if !more {
			return out.String(), whole
		}
		end := 0
		for end < len(rest) && '0' <= rest[end] && rest[end] <= '9' {
			end++
		}
		n, err := strconv.Atoi(rest[:end])
		if err != nil {
			n = highest + 1
		}
		highest = max(highest, n)
		// Else it is guessed that a tenth of all rows is wanted.
		if n == len(args) && (strings.HasSuffix(before, "LIMIT ") || strings.HasSuffix(before, "OFFSET ")) {
			fmt.Fprint(&out, args[n-1])
			whole = false
			query = rest[end:]
			continue
		}
		out.WriteString("$" + strconv.Itoa(n))
		if n <= len(args) {
			out.WriteString(typeOf(args[n-1]))
		}
		query = rest[end:]
	}
}

// typeOf is the type of a value, as a cast.
func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return ""
	case JSON:
		return "::json"
	}
	switch reflect.TypeOf(v).Kind() {
	case reflect.String:
		return "::text"
	case reflect.Float64:
		return "::double precision"
	default:
		return "::bigint"
	}
}
