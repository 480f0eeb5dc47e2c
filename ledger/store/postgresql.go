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
	head, guards := postgreSQLGuards()
	asText := regexp.MustCompile(`\bTEXT\b`) // they are compared by their bytes, in whatever language the database is
	out := []string{"CREATE SCHEMA indoubt; SET LOCAL search_path = indoubt; CREATE SEQUENCE op_seq; CREATE SEQUENCE ev_seq;",
		asText.ReplaceAllString(head, `text COLLATE "C"`)}
	for _, g := range guards {
		out = append(out, g.function(), fmt.Sprintf("CREATE TRIGGER %[1]s %[2]s %[3]s ON %[4]s FOR EACH ROW EXECUTE FUNCTION %[1]s();",
			g.name(), g.timing(), g.when, g.table))
	}
	return strings.Join(out, "\n")
})

// Roles are the statements of a text in the language of ledger.sql: first plain ones, then rules, which the
// guards ask for after their own.
func Roles(text string) string {
	head, further := guards(fill(text, inPostgreSQL))
	_, guards := postgreSQLGuards()
	out := []string{head}
	for _, g := range guards {
		for _, f := range further {
			if f.name() == g.name() {
				g.rules = append(g.rules, f.rules...)
				out = append(out, g.function())
			}
		}
	}
	return strings.Join(out, "\n")
}

// postgreSQLGuards are the tables, and the guards with the bounds of their columns.
func postgreSQLGuards() (head string, all []guard) {
	text, bounds := unbounded(fill(template, inPostgreSQL))
	head, all = guards(text)
	for i, g := range all {
		if g.what == "refuse" && g.when != "DELETE" && bounds[g.table] != nil {
			within := "(" + strings.Join(bounds[g.table], " AND ") + ") IS FALSE"
			all[i].rules = append([]rule{{says: "a value of " + g.table + " is out of its bounds", holds: within}}, g.rules...)
		}
	}
	return head, all
}

// feedPlace is where an event is in the feed: its transaction, and before that the timeline of the log. On a
// standby that is promoted numbers of transactions are given again.
const feedPlace = "(('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint << 40)" +
	" + pg_current_xact_id()::text::bigint"

// acting is the role that a session acts as, whoever's rights it has in a function.
const acting = "CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END"

// roles are the roles that may do something. The owner of the ledger may all.
var roles = map[string][]string{
	"record": {"operator", "engine", "writer"}, "check": {"operator", "engine"}, "decide": {"operator"},
}

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
	case "acting":
		return acting
	case "differs":
		column := regexp.MustCompile(`\w+(?:::text)?`)
		return "(" + column.ReplaceAllString(of, "NEW.$0") + ") IS DISTINCT FROM (" + column.ReplaceAllString(of, "OLD.$0") + ")"
	case "may":
		var who []string
		for _, role := range roles[of] {
			who = append(who, "pg_has_role(acting, 'indoubt_"+role+"', 'USAGE')")
		}
		return "(" + strings.Join(append(who, "pg_has_role(acting, indoubt.owner(), 'USAGE')"), " OR ") + ")"
	case "began": // by + 0 it is not looked for along all of the history; what was moved to a file is anyone's
		op, n, _ := strings.Cut(of, ", ")
		return "session_user = coalesce((SELECT e.db_user FROM indoubt.ev e WHERE e.op = " + op + " AND e.n = " + n +
			" AND e.verb IN ('begin', 'retry') ORDER BY e.seq + 0 LIMIT 1), session_user)"
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

// declared are what a guard works out once, where it asks for it.
var declared = [][2]string{
	{"new_facts", "jsonb := NEW.facts"},
	{"acting", "name := " + acting},
}

// inFacts is where a member of the facts is asked for. They are read once.
var inFacts = regexp.MustCompile(`\bNEW\.facts( ->|\) f\b)`)

// function is what the trigger of a guard runs.
func (g guard) function() string {
	var text string
	var questions []string
	each, at := "", 0
	for _, r := range g.rules {
		refusal := r.refusal()
		steps, asks := refuses(r.holds, refusal)
		if len(asks) > 0 && len(questions) == 0 {
			at = len(text)
		}
		for _, q := range asks {
			questions, each = append(questions, "("+q+")"), each+ifHolds(q, refusal)
		}
		text += steps
	}
	switch len(questions) {
	case 0:
	case 1:
		text = text[:at] + each + text[at:]
	default: // all of them in one take as long as one
		text = text[:at] + ifHolds(strings.Join(questions, " OR "), "\n"+each) + text[at:]
	}
	if g.what == "refuse" && g.when == "INSERT" { // without guards, as in a dump that is being restored, nothing has a number
		text += fmt.Sprintf("  NEW.seq := nextval('indoubt.%s_seq');\n", g.table)
	}
	do := g.do + ";\n"
	for _, r := range g.rules {
		if strings.Contains(r.holds, "SELECT") && g.what == "instead" { // another writer may have come first since it was asked
			do += "  IF NOT FOUND THEN " + r.refusal() + " END IF;\n"
		}
	}
	switch {
	case g.do != "" && g.condition != "":
		text += "  IF " + g.condition + " THEN " + do + " END IF;\n"
	case g.do != "":
		text += "  " + do
	}
	rights, result := " SET search_path = pg_catalog, pg_temp", "NEW"
	if g.what != "refuse" { // what a change tells, and what the two views write, is for no one to write by itself
		rights = " SECURITY DEFINER" + rights
	}
	if g.when == "DELETE" {
		result = "OLD"
	}
	text = inFacts.ReplaceAllString(strings.ReplaceAll(text, "json_each(", "jsonb_each("), "new_facts$1")
	var declare string
	for _, d := range declared {
		if strings.Contains(text, d[0]) {
			declare += d[0] + " CONSTANT " + d[1] + "; "
		}
	}
	return "CREATE OR REPLACE FUNCTION indoubt." + g.name() + "() RETURNS trigger LANGUAGE plpgsql" + rights + " AS $$ DECLARE " + declare +
		"BEGIN\n" + text + "  RETURN " + result + "; END $$;"
}

func (r rule) refusal() string {
	return "RAISE EXCEPTION USING ERRCODE = 'IN001', MESSAGE = '" + r.says + "';"
}

// refuses are the steps that refuse where a condition holds, or is NULL, and the questions to the tables that do.
// Of what AND joins each part is asked if those before it hold: what a rule begins with saves the rest.
func refuses(condition, refusal string) (steps string, questions []string) {
	var plain []string
	for _, either := range parts(condition, " OR ") {
		switch all := parts(either, " AND "); {
		case len(all) == 1 && closes(either) == len(either)-1:
			inner, asks := refuses(either[1:len(either)-1], refusal)
			steps, questions = steps+inner, append(questions, asks...)
		case strings.Contains(all[0], "SELECT"):
			questions = append(questions, either)
		case len(all) == 1:
			plain = append(plain, either)
		default:
			inner, asks := refuses(strings.Join(all[1:], " AND "), refusal)
			for _, q := range asks {
				inner += ifHolds(q, refusal)
			}
			steps += ifHolds(all[0], inner)
		}
	}
	if len(plain) > 0 {
		steps = ifHolds(strings.Join(plain, " OR "), refusal) + steps
	}
	return steps, questions
}

func ifHolds(condition, do string) string {
	return "  IF (" + condition + ") IS NOT FALSE THEN " + do + " END IF;\n"
}

// closes is where the bracket is closed that a condition begins with, or 0.
func closes(condition string) int {
	depth := 0
	for i := range len(condition) {
		switch condition[i] {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth == 0 {
			return i
		}
	}
	return 0
}

// parts are what stands between the words at the top of a condition.
func parts(condition, word string) (out []string) {
	depth, from, between := 0, 0, false
	for i := 0; i < len(condition); i++ {
		rest := condition[i:]
		switch {
		case rest[0] == '\'':
			i++
			for i < len(condition) && condition[i] != '\'' {
				i++
			}
		case rest[0] == '(', strings.HasPrefix(rest, "CASE "):
			depth++
		case rest[0] == ')', strings.HasPrefix(rest, " END"):
			depth--
		case depth == 0 && strings.HasPrefix(rest, "BETWEEN "):
			between = true
		case depth == 0 && strings.HasPrefix(rest, " AND ") && between:
			between = false
		case depth == 0 && strings.HasPrefix(rest, word):
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
		case "object":
			return "json_build_object(" + of + ")::text"
		case "columns":
			return `SELECT attname::text FROM pg_attribute WHERE attrelid = to_regclass('indoubt.' || ?) AND attnum > 0
				AND NOT attisdropped ORDER BY attnum`
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
