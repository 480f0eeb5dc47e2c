package ledgertest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"indoubt/ledger/need"
)

const lately, year = 1_790_000_000_000, 366 * 24 * 3600_000

// born is the statement that begins an operation in plain SQL. or is what SQLite may be told to
// do instead of refusing; more are further columns with their values: a=1, b='x'.
func born(id, name, more string, or ...string) string {
	names := []string{"id", "kind", "name", "deadline_at", "created_at", "changed_at", "actor", "facts"}
	values := []string{"'" + id + "'", "'x'", "'" + name + "'", fmt.Sprint(lately + 60000), fmt.Sprint(lately), fmt.Sprint(lately), "'n'",
		`'{"sender":"http"}'`}
	for _, set := range splitSets(more) {
		column, value, _ := strings.Cut(set, "=")
		if i := slices.Index(names, column); i >= 0 {
			values[i] = value
		} else {
			names, values = append(names, column), append(values, value)
		}
	}
	return fmt.Sprintf("INSERT %s INTO op (%s) VALUES (%s)", strings.Join(or, ""), strings.Join(names, ", "), strings.Join(values, ", "))
}

// splitSets takes a=1; b='x' apart.
func splitSets(sets string) (out []string) {
	for _, set := range strings.Split(sets, ";") {
		if set = strings.TrimSpace(set); set != "" {
			out = append(out, set)
		}
	}
	return out
}

var changeNo int

// moved is the statement that changes an operation: with a change id, a reason and a version.
func moved(id, sets string, or ...string) string {
	changeNo++
	all := fmt.Sprintf("version=version+1, change_id='c%d', changed_at=%d", changeNo, lately)
	if !strings.Contains(sets, "reason=") {
		all += ", reason='r'"
	}
	for _, set := range []string{"machine=1", "facts=NULL"} {
		if !strings.Contains(sets, set[:5]) {
			all += ", " + set
		}
	}
	return fmt.Sprintf("UPDATE %s op SET %s, %s WHERE id = '%s'", strings.Join(or, ""), all, strings.Join(splitSets(sets), ", "), id)
}

// thinned is the statement that moves an operation to the file of a prune.
func thinned(id, to, more string) string {
	return fmt.Sprintf("UPDATE op SET moved=%s, payload=NULL, change_id=''%s WHERE id = '%s'", to, more, id)
}

// set is the statement that changes an operation without a word.
func set(id, sets string) string { return "UPDATE op SET " + sets + " WHERE id = '" + id + "'" }

func event(columns, values string) string {
	return "INSERT INTO ev (op, id, verb, actor" + columns + ") VALUES (" + values + ")"
}

const (
	lost     = `facts='{"outcome":"uncertain"}'`
	refused  = `state='failed'; verb='settle'; facts='{"outcome":"failed","proof":"refused"}'`
	itsSeq   = `(SELECT seq FROM op WHERE id = '%s')`
	person   = `; machine=0`
	thePrune = `(SELECT seq FROM ev WHERE id = 'p1')`
)

func of(id string) string { return fmt.Sprintf(itsSeq, id) }

// refusedStep is a statement that is refused, and a part of what is said, or what is not refused.
type refusedStep struct {
	name, says string
	sql        []string
}

// Foreign is the connection of a writer that is not indoubt.
type Foreign struct {
	Postgres bool
	Exec     func(statement string) error
	Close    func()
	Rows     func(query string) []map[string]any // numbers are int64, texts are strings
}

// constraints are what a database says of the bounds of a column, by a word for both.
var constraints = map[string][]string{
	"bounds":     {"CHECK constraint failed", "is out of its bounds"},
	"json":       {"CHECK constraint failed", "invalid input syntax for type json"},
	"number":     {"an outcome, a proof and a basis are said by", "invalid input syntax for type bigint"},
	"constraint": {"constraint failed", "violates"},
}

var (
	onlySQLite = regexp.MustCompile(`^(INSERT|UPDATE) OR `)
	guardSays  = regexp.MustCompile(`(?:RAISE\(ABORT,|MESSAGE =) '((?:[^']|'')+)'`)
)

// Refused plays the attacks and the walks. Each rule of the guards refuses one of them at least.
func Refused(t *testing.T, db Foreign) {
	var said []string
	for _, step := range refusedSteps {
		wrong := step.name[0] == '!'
		first := slices.Index(step.sql, "!") // what is before it makes room for the attack
		for i, statement := range step.sql {
			if i == first || db.Postgres && onlySQLite.MatchString(statement) {
				continue
			}
			err := db.Exec(statement)
			switch {
			case i < first:
			case !wrong:
				need.That(t, err == nil, "%s: wrongly refused: %v\n%s", step.name, err, statement)
			case err == nil || step.says == "":
				t.Errorf("%s: not refused\n%s", step.name, statement)
			default:
				said = append(said, err.Error())
				in := func(words string) bool { return strings.Contains(err.Error(), words) }
				need.That(t, slices.ContainsFunc(append(constraints[step.says], step.says), in),
					"%s: refused with %q, want %q\n%s", step.name, err, step.says, statement)
			}
		}
	}
	rules := 0
	query := `SELECT sql AS text FROM sqlite_schema WHERE type = 'trigger'`
	if db.Postgres {
		query = `SELECT prosrc AS text FROM pg_proc WHERE pronamespace = 'indoubt'::regnamespace AND prosrc LIKE '%IN001%'`
	}
	for _, guard := range db.Rows(query) {
		for _, rule := range guardSays.FindAllStringSubmatch(guard["text"].(string), -1) {
			says := strings.ReplaceAll(rule[1], "''", "'")
			rules++
			need.That(t, slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, says) }),
				"nothing is refused with %q", says)
		}
	}
	need.That(t, rules >= 40, "only %d rules were found", rules)
	left := db.Rows(`SELECT count(*) AS n FROM ev WHERE op = ` + of("f1"))[0]["n"]
	need.That(t, left == int64(5), "%d events of what was moved, and five came since: two notes less one, a receipt, and three of a person",
		left)
}
