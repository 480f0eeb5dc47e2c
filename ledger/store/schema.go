package store

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

//go:embed ledger.sql
var template string

// sqliteSchema is the ledger's schema in SQLite's words.
var sqliteSchema = sync.OnceValue(func() string {
	text := fill(template)
	// A list of more than two makes SQLite build a table for each row.
	text = inList.ReplaceAllStringFunc(text, func(in string) string {
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
	blocks := strings.Split(text, "\n@")
	out := []string{blocks[0]}
	for _, block := range blocks[1:] {
		out = append(out, trigger(block))
	}
	return strings.Join(out, "\n")
})

var (
	inList = regexp.MustCompile(`\b((?:NEW\.|OLD\.)?\w+) IN \(('\w*'(?:, '\w*'){2,})\)`)
	brace  = regexp.MustCompile(`\{[^{}]+\}`)
	inJSON = regexp.MustCompile(`NEW\.(input|result)`)
)

// words are those that differ, as SQLite says them.
var words = map[string]string{
	"schema": "", "number": "INTEGER", "int": "INTEGER", "real": "REAL", "json": "TEXT", "strict": "STRICT",
	"now":    "(CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER))",
	"random": "(lower(hex(randomblob(16))))",
}

// fill fills the words in, from the inside.
func fill(text string) string {
	for strings.Contains(text, "{") {
		text = brace.ReplaceAllStringFunc(text, func(word string) string {
			word = strings.Trim(word, "{}")
			kind, of, _ := strings.Cut(word, " ")
			switch kind {
			case "is":
				return fmt.Sprintf("CHECK (%[1]s IS NULL OR json_valid(%[1]s))", strings.TrimPrefix(of, "json "))
			case "text", "who":
				return of
			case "numbered":
				return of + " > 0"
			case "int":
				if of != "" {
					return "CAST(" + strings.TrimPrefix(of, "of ") + " AS INTEGER)"
				}
			case "object":
				return "json_object(" + inJSON.ReplaceAllString(of, "json(NEW.$1)") + ")"
			case "array":
				return "json_array(" + of + ")"
			}
			return words[word]
		})
	}
	return text
}

// trigger makes one of a block: its first line says what it does, of which table, at which
// statement, and for 'tell' where. Then come its rules, and what it does where none holds.
func trigger(block string) string {
	head, body, _ := strings.Cut(block, "\n")
	p := strings.SplitN(head+"   ", " ", 4)
	what, table, when, condition := p[0], p[1], p[2], strings.TrimSpace(p[3])
	if when == "" {
		when = "INSERT"
	}
	timing := map[string]string{"refuse": "BEFORE", "tell": "AFTER", "instead": "INSTEAD OF"}[what]
	rules, do := body, ""
	switch i := strings.Index(body, "\n! "); {
	case i >= 0:
		rules, do = body[:i], body[i+2:]
	case !strings.HasPrefix(body, "- "):
		rules, do = "", body
	}
	var out strings.Builder
	fmt.Fprintf(&out, "CREATE TRIGGER %s_%s_%s %s %s ON %s ", table, what, strings.ToLower(when), timing, when, table)
	if condition != "" {
		out.WriteString("WHEN " + condition)
	}
	out.WriteString("\nBEGIN\n")
	for _, rule := range strings.Split("\n"+strings.TrimSpace(rules), "\n- ")[1:] {
		says, holds, _ := strings.Cut(rule, "\n")
		fmt.Fprintf(&out, "  SELECT RAISE(ABORT, '%s')\n   WHERE (%s) IS NOT FALSE;\n", strings.ReplaceAll(says, "'", "''"),
			strings.TrimSpace(holds))
	}
	if do = strings.TrimSpace(do); do != "" {
		out.WriteString("  " + do + ";\n")
	}
	return out.String() + "END;"
}
