package store

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
)

// state is what events are folded into: of the operation what has no column, and all of its
// attempts, reads and permissions, the oldest first.
type state struct {
	op       *ledger.Operation
	attempts []ledger.Attempt
	reads    []ledger.Read
	allowed  []ledger.Allowed
}

// member is a field of a record, by its name in JSON.
type member struct {
	name  string
	index []int
	text  bool // what people read: it goes into the payload
}

// texts are the members that people read.
var texts = map[reflect.Type]string{
	reflect.TypeFor[ledger.Operation](): "input command request result session conflict_note acked_receipts claimed_receipts",
	reflect.TypeFor[ledger.Attempt]():   "error receipt late_receipt result",
	reflect.TypeFor[ledger.Read]():      "reason receipts evidence",
	reflect.TypeFor[ledger.Allowed]():   "reason void_reason",
}

// derived are the members that the place of a patch says, or others do.
var derived = map[reflect.Type]string{
	reflect.TypeFor[ledger.Operation](): "state fact live_attempt moved", // and all that have a column
	reflect.TypeFor[ledger.Attempt]():   "operation_id n",
	reflect.TypeFor[ledger.Read]():      "operation_id",
	reflect.TypeFor[ledger.Allowed]():   "operation_id",
}

// hasColumn reports whether a field of an operation is a column of op.
func hasColumn(index []int) bool {
	r := &none().row
	field := reflect.ValueOf(r.o).Elem().FieldByIndex(index).Addr().Interface()
	return slices.ContainsFunc(allColumns, func(c column) bool { return c.field(r) == field })
}

// memberSet are those of a record that a patch may have.
type memberSet struct {
	all    []member
	byName map[string]member
}

var allMembers sync.Map // memberSet by reflect.Type

func membersOf(of reflect.Type) memberSet {
	if known, ok := allMembers.Load(of); ok {
		return known.(memberSet)
	}
	out := memberSet{byName: map[string]member{}}
	isText, isDerived := strings.Fields(texts[of]), strings.Fields(derived[of])
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if of == reflect.TypeFor[ledger.Operation]() && hasColumn(f.Index) {
			continue
		}
		if name != "" && name != "-" && !slices.Contains(isDerived, name) {
			m := member{name, f.Index, slices.Contains(isText, name)}
			out.all, out.byName[name] = append(out.all, m), m
		}
	}
	allMembers.Store(of, out)
	return out
}

// gone names the members that a patch empties.
const gone = "gone"

// object is JSON of which each member is written as it is.
type object []field

type field struct{ name, raw string }

// get is the last member of a name, or "".
func (o object) get(name string) string {
	for i := len(o) - 1; i >= 0; i-- {
		if o[i].name == name {
			return o[i].raw
		}
	}
	return ""
}

func (o *object) set(name string, v any) { o.add(name, encoded(reflect.ValueOf(v))) }

// add sets a member to what is JSON already.
func (o *object) add(name, raw string) {
	for i := range *o {
		if (*o)[i].name == name {
			(*o)[i].raw = raw
			return
		}
	}
	*o = append(*o, field{name, raw})
}

// put sets a member that is an object, if there is something in it.
func (o *object) put(name string, of object) {
	if len(of) > 0 {
		o.add(name, of.json())
	}
}

func (o object) json() string {
	size := len("{}")
	for _, f := range o {
		size += len(f.name) + len(f.raw) + len(`"":,`)
	}
	var out strings.Builder
	out.Grow(size)
	for i, f := range o {
		out.WriteByte("{,"[min(i, 1)])
		if unescaped(f.name) {
			out.WriteByte('"')
			out.WriteString(f.name)
			out.WriteByte('"')
		} else {
			out.WriteString(encoded(reflect.ValueOf(f.name)))
		}
		out.WriteByte(':')
		out.WriteString(f.raw)
	}
	if len(o) == 0 {
		out.WriteByte('{')
	}
	out.WriteByte('}')
	return out.String()
}

// text is the object for a column of JSON.
func (o object) text() any {
	if len(o) == 0 {
		return nil
	}
	return JSON(o.json())
}

// encoded is a value in JSON. Most need no more than their text.
func encoded(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		if text := v.String(); unescaped(text) {
			return `"` + text + `"`
		}
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Int, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Struct:
		if t, is := v.Interface().(time.Time); is {
			return `"` + at(millis(t)).Format(time.RFC3339Nano) + `"`
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			return string(v.Bytes())
		}
	}
	return string(ledger.EncodeJSON(v.Interface()))
}

// decode puts JSON into a field, unless it does not fit.
func decode(f reflect.Value, raw string) {
	switch f.Kind() {
	case reflect.String:
		if raw[0] == '"' {
			f.SetString(quoted(raw))
			return
		}
	case reflect.Bool:
		if raw == "true" {
			f.SetBool(true)
			return
		}
	case reflect.Int, reflect.Int64:
		if n, err := strconv.ParseInt(raw, 10, 64); err == nil {
			f.SetInt(n)
			return
		}
	case reflect.Struct:
		if t, is := f.Addr().Interface().(*time.Time); is && raw[0] == '"' {
			if read, err := time.Parse(time.RFC3339Nano, raw[1:len(raw)-1]); err == nil {
				*t = read
				return
			}
		} else if !is && filled(f, raw) {
			return
		}
	case reflect.Pointer:
		if of := f.Type().Elem(); of.Kind() == reflect.Struct {
			if fresh := reflect.New(of); filled(fresh.Elem(), raw) {
				f.Set(fresh)
				return
			}
		}
	case reflect.Slice:
		if f.Type() == reflect.TypeFor[json.RawMessage]() {
			f.SetBytes([]byte(raw))
			return
		}
	}
	fresh := reflect.New(f.Type())
	if json.Unmarshal([]byte(raw), fresh.Interface()) == nil {
		f.Set(fresh.Elem())
	}
}

// filled puts the members of an object into a struct, but for those that it does not know. False where raw is none.
func filled(f reflect.Value, raw string) bool {
	if !strings.HasPrefix(raw, "{") {
		return false
	}
	f.SetZero()
	known := membersOf(f.Type()).byName
	for _, inner := range parse(raw) {
		if m, is := known[inner.name]; is {
			decode(f.FieldByIndex(m.index), inner.raw)
		}
	}
	return true
}

// parse reads an object, each member as it was written, with the space around it: an answer is
// given again byte for byte. None for "", or for what another writer put there instead.
func parse(text string) (o object) {
	if text = strings.TrimSpace(text); text == "" || text[0] != '{' { // the database keeps it valid JSON
		return nil
	}
	o = make(object, 0, 8)
	name, from, depth := "", 1, 0
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case c == ':' && depth == 0:
			name, from = quoted(text[from:i]), i+1
		case depth == 0 && (c == ',' || c == '}'):
			if i > from {
				o = append(o, field{name, text[from:i]})
			}
			from = i + 1
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
	}
	return o
}

// quoted is the text of a JSON string.
func quoted(raw string) string {
	if raw = strings.TrimSpace(raw); strings.IndexByte(raw, '\\') < 0 && len(raw) >= 2 {
		return raw[1 : len(raw)-1]
	}
	var text string
	_ = json.Unmarshal([]byte(raw), &text)
	return text
}

// differ writes into facts and payload what a record has otherwise than it had.
func differ(was, is any, facts, payload *object) {
	a, b := reflect.ValueOf(was).Elem(), reflect.ValueOf(is).Elem()
	to := [2]*object{facts, payload}
	var none [2][]string
	for _, m := range membersOf(a.Type()).all {
		x, y, i := a.FieldByIndex(m.index), b.FieldByIndex(m.index), number(m.text)
		switch {
		case equal(x, y):
		case y.IsZero(), y.Kind() == reflect.Slice && y.Len() == 0:
			none[i] = append(none[i], m.name)
		default:
			to[i].add(m.name, encoded(y))
		}
	}
	for i, names := range none {
		if len(names) > 0 {
			to[i].set(gone, names)
		}
	}
}

// unescaped reports whether nothing of a text is written otherwise in JSON.
func unescaped(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// equal compares two fields that can be addressed, most of which need no copy for that.
func equal(x, y reflect.Value) bool {
	switch x.Kind() {
	case reflect.String:
		return x.String() == y.String()
	case reflect.Bool:
		return x.Bool() == y.Bool()
	case reflect.Int, reflect.Int64:
		return x.Int() == y.Int()
	case reflect.Slice:
		if x.Len()+y.Len() == 0 {
			return true
		}
	case reflect.Struct:
		if t, is := x.Addr().Interface().(*time.Time); is {
			return t.Equal(*y.Addr().Interface().(*time.Time))
		}
	}
	return reflect.DeepEqual(x.Interface(), y.Interface())
}

// patch applies what differ has written into facts, or into a payload: neither says what belongs
// into the other. What another writer wrote there and does not fit is
// passed over: it must not keep the operation from being read.
func patch(record any, o object, text bool) {
	if len(o) == 0 {
		return
	}
	v := reflect.ValueOf(record).Elem()
	known := membersOf(v.Type()).byName
	for _, f := range o {
		if m, is := known[f.name]; is && m.text == text {
			decode(v.FieldByIndex(m.index), f.raw)
		} else if f.name == gone {
			var none []string
			_ = json.Unmarshal([]byte(f.raw), &none)
			for _, name := range none {
				if m, is := known[name]; is && m.text == text && o.get(name) == "" {
					v.FieldByIndex(m.index).SetZero()
				}
			}
		}
	}
}

// What a patch has beside the members of attempt n.
const (
	inOp       = "op"       // members of the operation
	inAttempts = "attempts" // of other attempts, by their numbers
	inReads    = "reads"    // of reads, by their ids
	inAllowed  = "allowed"
	inRead     = "read" // one that was made, whole
)

// said is what the columns of an event say of attempt n, beside its facts.
type said struct {
	n           int
	at          time.Time
	actor, host string
}

// begun is an attempt as an event that begins one says it without another word, and ended as one
// that ends it does.
func (e said) begun(n int) ledger.Attempt {
	return ledger.Attempt{N: n, Actor: e.actor, Host: e.host, StartedAt: e.at}
}

func (e said) ended(a *ledger.Attempt) { a.EndedAt = e.at }

// changes writes into facts and payload what a state has otherwise than it had, in an event that
// says so much without.
func (s *state) changes(to *state, e said, facts, payload *object) {
	var f, p object
	differ(s.op, to.op, &f, &p)
	facts.put(inOp, f)
	payload.put(inOp, p)
	others := func(name string, n int, differs func(i int, facts, payload *object) (key string)) {
		var allFacts, allPayload object
		for i := range n {
			var f, p object
			key := differs(i, &f, &p)
			allFacts.put(key, f)
			allPayload.put(key, p)
		}
		facts.put(name, allFacts)
		payload.put(name, allPayload)
	}
	others(inAttempts, len(to.attempts), func(i int, f, p *object) string {
		was, is := e.begun(i+1), &to.attempts[i]
		if i < len(s.attempts) {
			was = s.attempts[i]
		}
		if is.N != e.n {
			differ(&was, is, f, p)
			return strconv.Itoa(is.N)
		}
		if is.Outcome != was.Outcome && is.Outcome != "" {
			e.ended(&was)
		}
		differ(&was, is, facts, payload)
		return ""
	})
	others(inReads, len(s.reads), func(i int, f, p *object) string {
		differ(&s.reads[i], &to.reads[i], f, p)
		return to.reads[i].ID
	})
	for i := len(s.reads); i < len(to.reads); i++ {
		var f, p object
		differ(&ledger.Read{}, &to.reads[i], &f, &p)
		facts.put(inRead, f)
		payload.put(inRead, p)
	}
	others(inAllowed, len(to.allowed), func(i int, f, p *object) string {
		var was ledger.Allowed
		if i < len(s.allowed) {
			was = s.allowed[i]
		}
		differ(&was, &to.allowed[i], f, p)
		return to.allowed[i].ID
	})
}

// apply folds an event into the state: what its columns say, its facts, and then its payload.
func (s *state) apply(e said, facts, payload object) {
	read := -1
	if a := s.attempt(e, e.n); a != nil && facts.get("outcome") != "" {
		e.ended(a)
	}
	for i, o := range []object{facts, payload} {
		text := i == 1
		if a := s.attempt(e, e.n); a != nil {
			patch(a, o, text)
		}
		for _, f := range o {
			switch f.name {
			case inOp:
				patch(s.op, parse(f.raw), text)
			case inAttempts:
				for _, f := range parse(f.raw) {
					if n, err := strconv.Atoi(f.name); err == nil {
						if a := s.attempt(e, n); a != nil {
							patch(a, parse(f.raw), text)
						}
					}
				}
			case inRead:
				if read < 0 {
					s.reads = append(s.reads, ledger.Read{})
					read = len(s.reads) - 1
				}
				patch(&s.reads[read], parse(f.raw), text)
			case inReads:
				for _, f := range parse(f.raw) {
					if i := slices.IndexFunc(s.reads, func(r ledger.Read) bool { return r.ID == f.name }); i >= 0 {
						patch(&s.reads[i], parse(f.raw), text)
					}
				}
			case inAllowed:
				for _, f := range parse(f.raw) {
					i := slices.IndexFunc(s.allowed, func(g ledger.Allowed) bool { return g.ID == f.name })
					if i < 0 {
						s.allowed = append(s.allowed, ledger.Allowed{ID: f.name})
						i = len(s.allowed) - 1
					}
					patch(&s.allowed[i], parse(f.raw), text)
				}
			}
		}
	}
}

// attempt is the one of a number. The first event about it makes it.
func (s *state) attempt(e said, n int) *ledger.Attempt {
	if n == len(s.attempts)+1 {
		s.attempts = append(s.attempts, e.begun(n))
	}
	if n < 1 || n > len(s.attempts) {
		return nil
	}
	return &s.attempts[n-1]
}

// number is 1 for what is true.
func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
