package ledgertest

import (
	"fmt"
	"slices"
	"strings"
)

// value is SQL for something that may be written to a column.
func (f *fuzzed) value(table string, c fuzzColumn) string {
	switch n := f.r.IntN(20); {
	case n == 0:
		return "NULL"
	case n < 5:
		return f.any(table, c.name)
	case n < 9 && strings.HasSuffix(c.name, "_at"), n < 9 && strings.HasSuffix(c.name, "until"), n < 9 && c.name == "at":
		return pick(f.r, "0", f.now(-3_600_000), f.now(-1), f.now(0), f.now(60_000), f.now(0)+" / 1000", "253402300799999")
	case n < 9 && c.name == "op":
		return f.any("op", "seq")
	case n < 14 && c.kind == "TEXT":
		switch c.name {
		case "state", "before", "outcome":
			return "'" + pick(f.r, "pending", "committed", "failed", "uncertain", "abandoned", "") + "'"
		case "verb":
			return "'" + pick(f.r, "begin", "settle", "allow", "retry", "undo", "adopt", "ack", "redact", "note", "prune") + "'"
		case "facts":
			return pick(f.r, `'{"outcome":"committed"}'`, `'{"outcome":"failed","proof":"refused"}'`, `'{"proof":"not_there"}'`,
				`'{"proof":"x"}'`,
				`'{"basis":"key_safe"}'`, `'{"n":1,"proof":"refused"}'`, `'{"policy":1}'`, "NULL", "facts", `'[]'`, `'{'`)
		case "conflict":
			return "'" + pick(f.r, "twice", "disputed", "") + "'"
		case "scope":
			return "'" + pick(f.r, "", "all", "kind:k") + "'"
		case "gate":
			return "'" + pick(f.r, "", "g1", "g2", "g3") + "'"
		case "about":
			return "'" + pick(f.r, "policy", "file:x", "outage:x@1", "run:n1", "") + "'"
		}
		return "'" + f.id() + "'"
	case n < 16 && c.kind == "TEXT":
		return "'" + pick(f.r, "", "x", "[]", "{}", `{"proof":"refused"}`, "clock", "eve") + "'"
	}
	return pick(f.r, "0", "1", "2", "-1", c.name, c.name+" + 1", c.name+" - 1", "9223372036854775807", "-9223372036854775808",
		"4503599627370496")
}

// wild is any statement.
func (f *fuzzed) wild() string {
	table := pick(f.r, fuzzTables...)
	verb := "INSERT" + pick(f.r, "", "", " OR REPLACE", " OR REPLACE", " OR IGNORE", " OR FAIL", " OR ROLLBACK")
	or := f.or("", "", "OR REPLACE", "OR REPLACE", "OR IGNORE", "OR FAIL", "OR ROLLBACK")
	where := pick(f.r, "", " WHERE "+pick(f.r, f.sql[table]...).name+" = ", " WHERE "+f.sql[table][0].name+" = ", " WHERE "+
		f.sql[table][0].name+" = ")
	if strings.HasSuffix(where, "= ") {
		where += f.any(table, strings.TrimSuffix(strings.TrimPrefix(where, " WHERE "), " = "))
	}
	switch n := f.r.IntN(10); {
	case n == 0 && f.db.Postgres && f.r.IntN(2) == 0:
		key := f.sql[table][0].name
		return fmt.Sprintf(`MERGE INTO %[1]s USING (SELECT %[2]s AS k) x ON %[1]s.%[3]s = x.k
			WHEN MATCHED THEN %[4]s WHEN NOT MATCHED THEN %[5]s`, table,
			f.any(table, key), key, pick(f.r, "DELETE", "UPDATE SET "+f.set(table)), strings.Replace(f.insert(table, "INSERT"), "INTO "+
				table+" ", "", 1))
	case n == 0:
		return `DELETE FROM ` + table + where
	case n < 3:
		return f.insert(table, verb)
	case n == 3:
		var names []string
		for _, c := range f.sql[table] {
			names = append(names, c.name)
		}
		list := strings.Join(names, ", ")
		replaced := pick(f.r, f.sql[table]...)
		from := strings.Replace(", "+list+",", ", "+replaced.name+",", ", "+f.value(table, replaced)+",", 1)
		return f.insertion(verb, fmt.Sprintf(`%s (%s) SELECT %s FROM %s%s`, table, list, strings.Trim(from, " ,"), table, where))
	}
	set := f.set(table)
	if or == "OR REPLACE" && f.r.IntN(3) == 0 { // NULL becomes the default
		set = ""
		for range 1 + f.r.IntN(3) {
			if c := pick(f.r, f.sql[table]...); !c.needed {
				set += c.name + " = NULL, "
			}
		}
		set += f.set(table)
	}
	return fmt.Sprintf(`UPDATE %s %s SET %s%s`, or, table, set, where)
}

func (f *fuzzed) insert(table, verb string) string {
	var s sets
	for _, c := range f.sql[table] {
		if c.needed || f.r.IntN(6) == 0 {
			s = s.with(c.name, strings.ReplaceAll(f.value(table, c), c.name+" ", "0 "))
		}
	}
	if len(s) == 0 {
		return `INSERT INTO ` + table + ` DEFAULT VALUES`
	}
	insertion := f.inserted(table, verb, s)
	if !f.db.Postgres && f.r.IntN(5) == 0 {
		insertion += ` ON CONFLICT DO UPDATE SET ` + f.set(table)
	}
	return insertion
}

// set is what an UPDATE sets.
func (f *fuzzed) set(table string) string {
	var s sets
	for range 1 + f.r.IntN(4) {
		c := pick(f.r, f.sql[table]...)
		s = s.with(c.name, f.value(table, c))
	}
	if table == "op" && f.r.IntN(2) == 0 {
		s = s.with("version", "version + 1", "change_id", "'"+f.id()+"'", "actor", "'eve'", "reason", "'why'", "machine", pick(f.r, "0",
			"1"))
	}
	if f.r.IntN(12) == 0 {
		row := f.row()
		s = s.with(row, pick(f.r, "1", "-1", row+" + 1", "9223372036854775807"))
	}
	return f.assigned(s)
}

// assigned are the sets of an UPDATE; of two for a column the later one.
func (f *fuzzed) assigned(s sets) string {
	var out []string
	for i, set := range s {
		if !slices.ContainsFunc(s[i+1:], func(later [2]string) bool { return later[0] == set[0] }) {
			out = append(out, set[0]+" = "+set[1])
		}
	}
	return strings.Join(out, ", ")
}
