package postgres

import (
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/tables"
)

// Dialect is what PostgreSQL says otherwise.
func (s *handle) Dialect() *tables.Dialect { return dialect }

var dialect = &tables.Dialect{
	Far:   true,
	Locks: true,
	Time:  timeValue,
	Flag:  func(on bool) any { return on },
	Field: func(column, member string) string {
		return `CAST(CAST(` + column + ` AS json) ->> '` + member + `' AS bigint)`
	},
	Contains: func(text, mark string) string { return text + ` ILIKE ` + mark + ` ESCAPE '\'` },
	Glob:     func(text, mark string) string { return text + ` LIKE ` + mark + ` ESCAPE '\'` },
	Pattern: func(parts ...string) string {
		for i, p := range parts {
			parts[i] = patternEscaper.Replace(p)
		}
		return strings.Join(parts, "%")
	},
}

var patternEscaper = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// timeValue is a time as a column takes it.
func timeValue(at time.Time) any {
	switch {
	case at.IsZero():
		return nil
	case !at.Before(ledger.Never):
		return "infinity"
	}
	return at
}
