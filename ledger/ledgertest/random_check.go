package ledgertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// stands is what op and ev say, by number.
type stands struct{ op, ev map[int64]record }

// record is a row, by column.
type record map[string]any

func (r record) n(column string) int64  { n, _ := r[column].(int64); return n }
func (r record) s(column string) string { s, _ := r[column].(string); return s }

// fact is a member of facts, as text.
func (r record) fact(name string) string {
	var all map[string]any
	if json.Unmarshal([]byte(r.s("facts")), &all) != nil || all[name] == nil {
		return ""
	}
	return fmt.Sprint(all[name])
}

// says is the state as the history says it.
func (r record) says() string {
	if r.n("abandoned") == 1 {
		return "abandoned"
	}
	return r.s("state")
}

func (r record) open() bool {
	return (r.s("state") == "pending" || r.s("state") == "uncertain") && r.n("abandoned") == 0
}

// differs names the first of these columns in which two rows differ.
func (r record) differs(other record, columns ...string) string {
	for _, c := range columns {
		if r[c] != other[c] {
			return c
		}
	}
	return ""
}

func (f *fuzzed) look() stands {
	return stands{f.rows("op"), f.rows("ev")}
}

func (f *fuzzed) rows(table string) map[int64]record {
	out := map[int64]record{}
	for _, r := range f.db.Rows(`SELECT * FROM ` + table) {
		out[record(r).n("seq")] = r
	}
	return out
}

func (f *fuzzed) texts(query string) (out []string) {
	for _, r := range f.db.Rows(query) {
		out = append(out, record(r).s("text"))
	}
	return out
}

// Columns of an operation.
var (
	fixedColumns = []string{"seq", "id", "kind", "scope", "n", "input", "token", "source", "created_at", "ttl_ms"}
	// movingColumns are those that a decision is bound to: they move the version.
	movingColumns = []string{"state", "attempt", "verdict", "effects", "conflict", "person_only", "unproven", "allow_until", "abandoned",
		"gate",
		"token_sent", "receipts"}
	// quietColumns change without a word in the history.
	quietColumns = []string{"deadline_at", "undelivered", "live", "mark", "title", "target", "policy", "rank", "by_word", "person_at"}
	bornColumns  = []string{"version", "attempt", "unproven", "abandoned", "conflict", "verdict", "effects", "allow_until", "moved",
		"ended_at", "doubted", "settled_at", "awaits", "person_only", "receipts"}
	atBirth = record{"version": int64(1), "attempt": int64(1), "unproven": int64(0), "abandoned": int64(0), "conflict": "", "verdict": "",
		"effects": int64(0), "allow_until": int64(0), "moved": int64(0), "allowed_at": int64(0), "ended_at": int64(0), "doubted": int64(0),
		"doubted_at": int64(0), "settled_at": int64(0), "parked_until": int64(0), "awaits": "", "class": "", "person_only": int64(0),
		"by_answer": int64(0), "receipts": "[]"}
)

// judge ends the test where a statement broke an invariant.
func (f *fuzzed) judge(t *testing.T, was, is stands, statement string) {
	t.Helper()
	if wrong := f.wrong(was, is); wrong != "" {
		t.Fatalf("%s: %s\nafter\n  %s", f.name, wrong, statement)
	}
}

// wrong says what a statement did that breaks an invariant, or "".
func (f *fuzzed) wrong(was, is stands) string {
	told := map[int64][]record{} // new events, by operation
	for seq, e := range is.ev {
		if was.ev[seq] == nil {
			told[e.n("op")] = append(told[e.n("op")], e)
		}
	}
	for _, table := range [][2]map[int64]record{{was.op, is.op}, {was.ev, is.ev}} {
		for seq := range table[1] {
			if last := slices.Max(append(slices.Collect(maps.Keys(table[0])), 0)); table[0][seq] == nil && (seq <= last || seq > last+
				100_000) {
				return fmt.Sprintf("number %d after %d was not given by the database", seq, last)
			}
		}
	}
	for seq, o := range is.op {
		before := was.op[seq]
		said, wrong := told[seq], ""
		switch {
		case before == nil:
			wrong = f.begun(was, o, said)
		default:
			wrong = f.moved(was, before, o, said)
		}
		if wrong != "" {
			return fmt.Sprintf("%s: %s\nwas %v\nis %v\ntold %v", o.s("id"), wrong, before, o, said)
		}
	}
	for seq := range was.op {
		if is.op[seq] == nil {
			return fmt.Sprintf("operation %d is gone (I8)", seq)
		}
	}
	for seq, e := range was.ev {
		if wrong := history(was, e, is.ev[seq]); wrong != "" {
			return fmt.Sprintf("event %v: %s; is %v", e, wrong, is.ev[seq])
		}
	}
	for _, events := range told {
		for _, e := range events {
			if wrong := f.tells(was, is, e); wrong != "" {
				return fmt.Sprintf("told %v: %s", e, wrong)
			}
		}
	}
	return between(is)
}

// between is what holds between operations.
func between(is stands) string {
	names, gates := map[string]record{}, map[string]record{}
	for _, o := range is.op {
		name := o.s("kind") + "\n" + o.s("scope") + "\n" + o.s("name")
		if o.n("live") == 1 {
			if other := names[name]; other != nil {
				return fmt.Sprintf("%s and %s have one name (I4)", o.s("id"), other.s("id"))
			}
			names[name] = o
		}
		if gate := o.s("gate"); gate != "" && o.open() {
			if other := gates[gate]; other != nil {
				return fmt.Sprintf("%s and %s have one gate, and both are open (I3)", o.s("id"), other.s("id"))
			}
			gates[gate] = o
		}
		if o.s("state") == "pending" && o.n("abandoned") == 1 {
			return o.s("id") + " is in flight, and abandoned: no gate holds what is like it (I3)"
		}
		if o.n("unproven") < 0 || o.n("unproven") > o.n("attempt") || o.s("state") == "pending" && o.n("unproven") == o.n("attempt") {
			return o.s("id") + " counts wrong"
		}
	}
	return ""
}

// begun judges an operation that is new.
func (f *fuzzed) begun(was stands, o record, told []record) string {
	for _, other := range was.op {
		if other.s("name") == o.s("name") && other.s("scope") == o.s("scope") && other.s("kind") == o.s("kind") &&
			other.n("n") >= o.n("n") {
			return "its name was had before by a later one (I4)"
		}
	}
	held := f.texts(fmt.Sprintf(`SELECT scope AS text FROM hold WHERE begins = 1 AND scope IN ('all', 'kind:' || '%s')
		AND (until = 0 OR until > %d)`,
		strings.ReplaceAll(o.s("kind"), "'", "''"), time.Now().Add(time.Minute).UnixMilli()))
	switch c := o.differs(atBirth, bornColumns...); {
	case o.s("state") != "pending" || c != "":
		return "it is no birth: " + o.s("state") + " " + c
	case o.n("seq") < 1 || o.n("deadline_at") <= o.n("created_at") || o.s("change_id") == "" || strings.TrimSpace(o.s("actor")) == "":
		return "it is no birth"
	case o.fact("outcome")+o.fact("proof") != "":
		return "it is born with an outcome (I2)"
	case len(held) > 0 && o.n("machine") == 1:
		return "a machine began under a hold on begins"
	case older(was, o):
		return "it was begun under an older policy"
	case len(told) != 1:
		return fmt.Sprintf("%d events tell of its birth (I8)", len(told))
	}
	f.seen["begin"]++
	return tellsOf(o, told[0], "begin", "", 1)
}

// older reports whether a row names an older policy than the one in force.
func older(was stands, o record) bool {
	var newest int64
	for _, e := range was.ev {
		if e.s("about") == "policy" {
			newest = max(newest, e.n("version"))
		}
	}
	p := o.fact("policy")
	return p != "" && p != "0" && p < fmt.Sprint(newest)
}

// tellsOf compares an event with the change that it tells of.
func tellsOf(o, e record, verb, before string, n int64) string {
	for _, pair := range [][2]string{{"id", "change_id"}, {"at", "changed_at"}, {"actor", "actor"}, {"machine", "machine"}, {"reason",
		"reason"},
		{"version", "version"}, {"about", "about"}, {"facts", "facts"}, {"payload", "payload"}} {
		if e[pair[0]] != o[pair[1]] {
			return "its event says otherwise: " + pair[0] + " (I8)"
		}
	}
	switch {
	case e.s("state") != o.says() || e.s("before") != before || e.n("n") != n || e.s("outcome") != o.fact("outcome"):
		return "its event tells of another change (I8)"
	case verb != "" && e.s("verb") != verb:
		return "its event has another verb (I8)"
	}
	return ""
}

// moved judges what became of an operation.
func (f *fuzzed) moved(was stands, a, b record, told []record) string {
	var changed []string
	for c := range b {
		if a[c] != b[c] {
			changed = append(changed, c)
		}
	}
	redacted := b.s("verb") == "redact" && b.n("machine") == 0 && a.s("change_id") != b.s("change_id")
	if c := a.differs(b, fixedColumns...); c != "" {
		return c + " never changes (I4)"
	}
	if c := a.differs(b, "name", "key"); c != "" && !redacted {
		return c + " never changes (I4)"
	}
	if (b.s("title") != a.s("title") && a.s("title") != "" || b.s("target") != a.s("target") && a.s("target") != "" &&
		!strings.HasPrefix(a.s("target"), "request-") ||
		!strings.HasPrefix(b.s("mark"), a.s("mark"))) && !redacted || b.s("gate") != a.s("gate") && b.s("gate") != "" {
		return "what it is called has changed"
	}
	v := b.n("version") - a.n("version")
	switch moves := a.differs(b, movingColumns...); {
	case v != 0 && v != 1 || moves != "" && v == 0:
		return "its version does not tell of " + moves + " (I7)"
	case a.n("live") < b.n("live"):
		return "it has its name back (I4)"
	case a.s("change_id") == b.s("change_id"):
		for _, c := range changed {
			if !slices.Contains(quietColumns, c) {
				return c + " has changed, and nothing tells of it (I8)"
			}
		}
		return f.quiet(a, b)
	case b.s("change_id") == "":
		f.seen["moved"]++
		return filed(was, a, b)
	case moves != "" && strings.TrimSpace(b.s("reason")) == "":
		return "nobody says why (I8)"
	case b.n("moved") != a.n("moved"):
		return "it is moved by a change"
	case a.s("facts") == b.s("facts") && b.fact("outcome")+b.fact("proof")+b.fact("basis") != "":
		return "what an earlier change said counts again (I2)"
	case len(told) == 0 || told[0].s("id") != b.s("change_id") || len(told) != 1:
		return fmt.Sprintf("%d events tell of its change (I8)", len(told))
	}
	n := b.n("attempt")
	if said := b.fact("n"); said != "" {
		fmt.Sscan(said, &n)
	}
	if wrong := tellsOf(b, told[0], "", a.says(), n); wrong != "" {
		return wrong
	}
	if wrong := f.quiet(a, b); wrong != "" {
		return wrong
	}
	return f.turned(was, a, b)
}

// quiet is what holds of every change, told or not.
func (f *fuzzed) quiet(a, b record) string {
	switch {
	case a.n("live") == 1 && b.n("live") == 0 && (b.s("state") == "pending" || b.open() && !(a.s("state") == "pending" &&
		strings.HasPrefix(a.s("name"), "input-"))):
		return "it is open, and has given its name up (I4)"
	case a.s("state") == "pending" && b.s("state") == "pending" && b.n("deadline_at") < a.n("deadline_at") &&
		b.s("awaits") == a.s("awaits"):
		return "its deadline is earlier, while it may be sent (I3)"
	case b.n("ended_at") < a.n("ended_at"):
		return "its end is earlier (I6)"
	case b.n("doubted") < a.n("doubted"):
		return "its doubt is forgotten (I2)"
	}
	return ""
}

// filed judges what was moved to a file.
func filed(was stands, a, b record) string {
	p := was.ev[b.n("moved")]
	switch {
	case a.n("moved") != 0 || p == nil || p.n("op") != 0 || p.s("verb") != "prune":
		return "no prune moved it"
	case b["payload"] != nil || a.s("conflict") != "" || a.n("allow_until") != 0 || a.n("undelivered") != 0:
		return "it was moved with something to come"
	case a.s("state") != "committed" && a.s("state") != "failed":
		return "it was moved, and is not settled"
	}
	return ""
}

// turned judges a change of state by the rules of the states.
func (f *fuzzed) turned(was stands, a, b record) string {
	from, to, person := a.s("state"), b.s("state"), b.n("machine") == 0
	proof, outcome := b.fact("proof"), b.fact("outcome")
	verb := b.s("verb")
	f.seen[verb]++
	resolved := verb == "ack" && person && a.s("conflict") != "" && b.s("conflict") == "" && from != "pending"
	allowed := a.n("allow_until") > b.n("changed_at")
	if b.n("allow_until") != 0 && (verb != "allow" || !person) && b.n("version") != a.n("version") {
		return "a permission that no person gave, or for another version (I5)"
	}
	if b.n("allow_until") != 0 {
		f.seen["permission"]++
	}
	if b.n("person_only") < a.n("person_only") || to == "committed" && from != "committed" && b.n("person_only") == 0 {
		return "automation again where a person is needed (I12)"
	}
	switch grew := b.n("attempt") - a.n("attempt"); {
	case grew == 0:
	case b.fact("n") != "" && b.fact("n") != fmt.Sprint(b.n("attempt")):
		return "another attempt, and the history tells of an earlier one (I8)"
	case grew != 1:
		return "its attempts are counted wrong (I3)"
	case to != "pending" || from != "uncertain" && from != "failed" || a.n("abandoned") == 1:
		return "another attempt of what is not to be sent (I3)"
	case older(was, b):
		return "it was begun under an older policy"
	case allowed, verb == "retry" && person:
		f.seen["again"]++
	case b.fact("basis") == "key_safe" && a.n("person_only") == 0:
		f.seen["again"]++
	case from != "failed" || a.n("unproven") != 0 || a.n("person_only") == 1:
		return "another attempt without permission or proof (I5)"
	}
	if b.n("abandoned") != a.n("abandoned") && !person || b.n("abandoned") > a.n("abandoned") && from == "pending" {
		return "only a person abandons, and not what is in flight"
	}
	if b.n("unproven") < a.n("unproven") && !person && to != "committed" && !(proof == "not_there" ||
		(proof == "refused" || proof == "never_sent") && b.n("unproven") == a.n("unproven")-1) {
		return "an attempt is proven by nothing (I2)"
	}
	if b.n("unproven") > a.n("unproven") && !person && (from != "pending" || to == "pending") && b.fact("late_outcome") != "committed" {
		return "no attempt ended, and one more may have acted"
	}
	if to == "pending" && (b.n("deadline_at") < 1 || b.n("deadline_at") > b.n("changed_at")+366*24*3600*1000) {
		return "its deadline comes never (I10)"
	}
	if from == "pending" && to != "pending" {
		proven := outcome == "failed" && (proof == "refused" || proof == "never_sent")
		switch {
		case outcome == "" || to != "committed" && outcome != to && !(outcome == "failed" && to == "uncertain"):
			return "its attempt ended as " + outcome + " and it is " + to + " (I2)"
		case b.fact("n") != "" && b.fact("n") != fmt.Sprint(a.n("attempt")):
			return "another attempt ended (I3)"
		case to == "failed" && a.n("unproven") > 0:
			return "it failed, with an attempt that is unknown (I2)"
		case outcome != "committed" && !proven && b.n("unproven") != a.n("unproven")+1, proven && b.n("unproven") < a.n("unproven"):
			return "an end that proves nothing counts for nothing (I2)"
		}
		return ""
	}
	switch {
	case outcome != "":
		return "an outcome of what was not in flight (I2)"
	case from == to:
	case resolved && (to == "committed" || to == "failed"):
	case to == "pending" && b.n("attempt") > a.n("attempt"):
	case from == "uncertain" && to == "committed":
	case from == "uncertain" && to == "failed" && (person || a.n("person_only") == 0):
		if !person && b.n("unproven") > 0 {
			return "a machine says that it failed, and proves it not (I2)"
		}
	case to == "uncertain" && person && verb == "undo" && b.n("person_only") == 1:
	default:
		return from + " cannot become " + to
	}
	return ""
}

// concerns reports whether an event of the ledger may tell of the operation of another one. It
// knows the runs; of outages the tests have one.
func (is stands) concerns(e, of record) bool {
	o := is.op[of.n("op")]
	for _, b := range is.ev {
		if b.s("about") == e.s("about") && b.s("verb") == "run" && strings.Contains(b.s("facts"), `"`+o.s("id")+`"`) {
			return true
		}
	}
	return strings.HasPrefix(e.s("about"), "outage:")
}

// history judges what became of an event.
func history(was stands, a, b record) string {
	o := was.op[a.n("op")]
	if b == nil {
		if o == nil || o.n("moved") <= a.n("seq") {
			return "it is gone, and no file has it (I8)"
		}
		return ""
	}
	for c := range a {
		switch {
		case a[c] == b[c]:
		case c == "payload" && b[c] == nil, c == "reason" && b[c] == "[redacted]":
			redacted := false
			for _, r := range was.ev {
				redacted = redacted || r.s("verb") == "redact" && r.n("machine") == 0 && r.n("op") != 0 && r.s("id") != a.s("id") &&
					(r.n("op") == a.n("op") || a.n("op") == 0 && r.n("seq") > a.n("seq") && was.concerns(a, r))
			}
			if !redacted || a.n("op") == 0 && !strings.HasPrefix(a.s("about"), "run:") && !strings.HasPrefix(a.s("about"), "outage:") {
				return "nobody redacted it (I8)"
			}
		default:
			return c + " of history has changed (I8)"
		}
	}
	return ""
}

// silent are the facts that an event may have which is told without a change of its operation.
var silent = []string{"read", "detail", "op", "who", "tree", "tree_at", "gone"}

// tells judges an event that is new.
func (f *fuzzed) tells(was, is stands, e record) string {
	o := is.op[e.n("op")]
	if e.s("about") == "policy" || e.s("verb") == "policy" {
		newest := int64(0)
		for _, p := range was.ev {
			if p.s("about") == "policy" {
				newest = max(newest, p.n("version"))
			}
		}
		if e.n("machine") != 0 || e.n("version") != newest+1 || e.n("op") != 0 {
			return "a machine's policy, or of another number"
		}
		return ""
	}
	switch {
	case e.n("op") != 0 && o == nil:
		return "of no operation"
	case o != nil && o.s("change_id") == e.s("id"):
		return ""
	case e.n("seq") < 1 || e.s("before") != e.s("state") || e.s("outcome")+e.s("conflict") != "" || e.n("lost_at") != 0:
		return "a forged change (I8)"
	case o != nil && (e.n("n") < 0 || e.n("n") > o.n("attempt")):
		return "a forged attempt (I8)"
	}
	var facts map[string]any
	_ = json.Unmarshal([]byte(e.s("facts")), &facts) // what is no object says nothing
	for name := range facts {
		if o != nil && !slices.Contains(silent, name) {
			return "a forged fact: " + name + " (I8)"
		}
	}
	return ""
}
