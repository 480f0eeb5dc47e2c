package store

import (
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"indoubt/ledger"
)

//go:embed ledger.sql
var template string

// SQLiteSchema is the ledger's schema in SQLite's words: its tables, and their guards.
var SQLiteSchema = sync.OnceValues(func() (tables, rules string) {
	// A list of more than two makes SQLite build a table for each row.
	text := inList.ReplaceAllStringFunc(fill(template, inSQLite), func(in string) string {
		m := inList.FindStringSubmatch(in)
		if strings.HasPrefix(in, "NOT ") {
			return in
		}
		var or []string
		for _, value := range strings.Split(m[2], ", ") {
			or = append(or, m[1]+" = "+value)
		}
		return "(" + strings.Join(or, " OR ") + ")"
	})
	head, guards := guards(text)
	return head, strings.Join(ledger.Each(guards, guard.sqlite), "\n")
})

var (
	inList = regexp.MustCompile(`\b((?:NEW\.|OLD\.)?\w+) IN \(('\w*'(?:, '\w*'){2,})\)`)
	brace  = regexp.MustCompile(`\{[^{}]+\}`)
	inJSON = regexp.MustCompile(`NEW\.(input|result)`)
)

// fill fills the words in, from the inside.
func fill(text string, say func(kind, of string) string) string {
	for strings.Contains(text, "{") {
		text = brace.ReplaceAllStringFunc(text, func(word string) string {
			kind, of, _ := strings.Cut(strings.Trim(word, "{}"), " ")
			return say(kind, of)
		})
	}
	return text
}

// inSQLite is a word as SQLite says it.
func inSQLite(kind, of string) string {
	switch kind {
	case "number":
		return "INTEGER"
	case "int":
		if of != "" {
			return "CAST(" + strings.TrimPrefix(of, "of ") + " AS INTEGER)"
		}
		return "INTEGER"
	case "real":
		return "REAL"
	case "json":
		return "TEXT"
	case "strict":
		return "STRICT"
	case "now":
		return "(CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER))"
	case "random":
		return "(lower(hex(randomblob(16))))"
	case "is":
		return fmt.Sprintf("CHECK (%[1]s IS NULL OR json_valid(%[1]s))", strings.TrimPrefix(of, "json "))
	case "text", "who":
		return of
	case "covers": // an index has more than it finds by; PostgreSQL takes no more than 2,700 bytes
		return ", " + of
	case "numbered":
		return of + " > 0"
	case "object":
		return "json_object(" + inJSON.ReplaceAllString(of, "json(NEW.$1)") + ")"
	case "array":
		return "json_array(" + of + ")"
	}
	return "" // schema, xid
}

// guard is one of the blocks of the schema: a trigger. Its first line says what it does, of which
// table, at which statement, and for 'tell' where. Then come its rules, and what it does where none holds.
type guard struct {
	what, table, when, condition string
	rules                        []rule
	do                           string
}

// rule refuses where its condition holds, or is NULL. Where 'where' is false it would not, nor would those after it:
// SQLite leaves them out then, for to ask them is most of what a small change costs.
type rule struct{ says, holds, where string }

// guards takes the schema apart.
func guards(text string) (head string, all []guard) {
	blocks := strings.Split(text, "\n@")
	for _, block := range blocks[1:] {
		first, body, _ := strings.Cut(block, "\n")
		p := strings.SplitN(first+"   ", " ", 4)
		g := guard{what: p[0], table: p[1], when: p[2], condition: strings.TrimSpace(p[3])}
		if g.when == "" {
			g.when = "INSERT"
		}
		rules := body
		switch i := strings.Index(body, "\n! "); {
		case i >= 0:
			rules, g.do = body[:i], strings.TrimSpace(body[i+2:])
		case !strings.HasPrefix(body, "- "):
			rules, g.do = "", strings.TrimSpace(body)
		}
		where := ""
		for _, text := range strings.Split("\n"+strings.TrimSpace(rules), "\n- ")[1:] {
			says, holds, _ := strings.Cut(text, "\n")
			holds, below, _ := strings.Cut(holds, "\nwhere ")
			g.rules = append(g.rules, rule{strings.ReplaceAll(says, "'", "''"), strings.TrimSpace(holds), where})
			where = cmp.Or(strings.TrimSpace(below), where)
		}
		all = append(all, g)
	}
	return blocks[0], all
}

// name is that of the trigger.
func (g guard) name() string { return g.table + "_" + g.what + "_" + strings.ToLower(g.when) }

// timing is when it runs.
func (g guard) timing() string {
	return map[string]string{"refuse": "BEFORE", "tell": "AFTER", "instead": "INSTEAD OF"}[g.what]
}

func (g guard) sqlite() string {
	var out strings.Builder
	fmt.Fprintf(&out, "CREATE TRIGGER %s %s %s ON %s ", g.name(), g.timing(), g.when, g.table)
	if g.condition != "" {
		out.WriteString("WHEN " + g.condition)
	}
	out.WriteString("\nBEGIN\n")
	for i, r := range g.rules { // one statement, in which a rule is asked only where those before it let the change pass
		if i == 0 {
			out.WriteString("  SELECT CASE\n")
		} else if r.where != g.rules[i-1].where {
			fmt.Fprintf(&out, "    WHEN (%s) IS FALSE THEN NULL\n", r.where)
		}
		fmt.Fprintf(&out, "    WHEN (%s) IS NOT FALSE\n      THEN RAISE(ABORT, '%s')\n", r.holds, r.says)
	}
	if len(g.rules) > 0 {
		out.WriteString("  END;\n")
	}
	if g.do != "" {
		out.WriteString("  " + g.do + ";\n")
	}
	return out.String() + "END;"
}
