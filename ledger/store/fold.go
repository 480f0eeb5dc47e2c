package store

import (
	"bytes"
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
// attempts, reads and grants, the oldest first.
type state struct {
	op       ledger.Operation
	attempts []ledger.Attempt
	reads    []ledger.Read
	grants   []ledger.Grant
}

func (s state) clone() state {
	return state{s.op, slices.Clone(s.attempts), slices.Clone(s.reads), slices.Clone(s.grants)}
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
	reflect.TypeFor[ledger.Grant]():     "reason void_reason",
}

// derived are the members that the place of a patch says, or others do.
var derived = map[reflect.Type]string{
	reflect.TypeFor[ledger.Operation](): "state fact live_attempt", // and all that have a column
	reflect.TypeFor[ledger.Attempt]():   "operation_id n",
	reflect.TypeFor[ledger.Read]():      "operation_id",
	reflect.TypeFor[ledger.Grant]():     "operation_id",
}

// hasColumn reports whether a field of an operation is a column of op.
func hasColumn(index []int) bool {
	r := &row{}
	field := reflect.ValueOf(&r.o).Elem().FieldByIndex(index).Addr().Interface()
	return slices.ContainsFunc(allColumns, func(c column) bool { return c.field(r) == field })
}

var allMembers sync.Map // []member by reflect.Type

// membersOf are the members of a record that a patch may have.
func membersOf(of reflect.Type) []member {
	if known, ok := allMembers.Load(of); ok {
		return known.([]member)
	}
	var out []member
	isText, isDerived := strings.Fields(texts[of]), strings.Fields(derived[of])
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if of == reflect.TypeFor[ledger.Operation]() && hasColumn(f.Index) {
			continue
		}
		if name != "" && !slices.Contains(isDerived, name) {
			out = append(out, member{name, f.Index, slices.Contains(isText, name)})
		}
	}
	allMembers.Store(of, out)
	return out
}

// gone names the members that a patch empties.
const gone = "gone"

// object is JSON of which each member is written as it is.
type object map[string]json.RawMessage

func (o object) set(name string, v any) {
	if raw, is := v.(json.RawMessage); is {
		o[name] = raw
		return
	}
	if s, is := v.(string); is {
		if quoted := []byte(`"` + s + `"`); plainText(quoted) {
			o[name] = quoted
			return
		}
	}
	o[name] = ledger.EncodeJSON(v)
}

// put sets a member that is an object, if there is something in it.
func (o object) put(name string, of object) {
	if len(of) > 0 {
		o[name] = of.json()
	}
}

// json is nil for an empty object.
func (o object) json() json.RawMessage {
	if len(o) == 0 {
		return nil
	}
	var out bytes.Buffer
	names := make([]string, 0, len(o))
	for name := range o {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		out.WriteByte("{,"[min(i, 1)])
		out.WriteString(strconv.Quote(name) + ":")
		out.Write(o[name])
	}
	out.WriteByte('}')
	return out.Bytes()
}

// text is the object for a column of JSON.
func (o object) text() any {
	if len(o) == 0 {
		return nil
	}
	return string(o.json())
}

// parse reads an object, each member as it was written, with the space around it: an answer is
// given again byte for byte. None for NULL, or for what another writer put there instead.
func parse(raw []byte) object {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '{' { // the database keeps it valid JSON
		return nil
	}
	o, name, from, depth := object{}, "", 1, 0
	for i, inside := 1, false; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '\\':
			i++
		case c == '"':
			inside = !inside
		case inside:
		case c == ':' && depth == 0:
			name, from = quoted(raw[from:i]), i+1
		case depth == 0 && (c == ',' || c == '}'):
			if i > from {
				o[name] = raw[from:i:i]
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
func quoted(raw []byte) (text string) {
	if raw = bytes.TrimSpace(raw); bytes.IndexByte(raw, '\\') < 0 && len(raw) >= 2 {
		return string(raw[1 : len(raw)-1])
	}
	_ = json.Unmarshal(raw, &text)
	return text
}

// differ writes into facts and payload what a record has otherwise than it had.
func differ(was, is any, facts, payload object) {
	a, b := reflect.ValueOf(was).Elem(), reflect.ValueOf(is).Elem()
	var none [2][]string
	for _, m := range membersOf(a.Type()) {
		x, y := a.FieldByIndex(m.index), b.FieldByIndex(m.index)
		switch to := []object{facts, payload}[number(m.text)]; {
		case equal(x, y):
		case y.IsZero(), y.Kind() == reflect.Slice && y.Len() == 0:
			none[number(m.text)] = append(none[number(m.text)], m.name)
		default:
			v := y.Interface()
			if t, is := v.(time.Time); is {
				v = at(millis(t))
			}
			to.set(m.name, v)
		}
	}
	for i, to := range []object{facts, payload} {
		if len(none[i]) > 0 {
			to.set(gone, none[i])
		}
	}
}

// plainText reports whether JSON is a text without anything that is written otherwise in JSON.
func plainText(raw []byte) bool {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return false
	}
	for _, c := range raw[1 : len(raw)-1] {
		if c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
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
	var none []string
	if raw := o[gone]; raw != nil {
		_ = json.Unmarshal(raw, &none)
	}
	for _, m := range membersOf(v.Type()) {
		raw, has := o[m.name]
		if m.text != text || !has && !slices.Contains(none, m.name) {
			continue
		}
		switch f := v.FieldByIndex(m.index); {
		case !has:
			f.SetZero()
		case f.Type() == reflect.TypeFor[json.RawMessage]():
			f.SetBytes(raw)
		case f.Kind() == reflect.String && raw[0] == '"':
			f.SetString(quoted(raw))
		default:
			fresh := reflect.New(f.Type())
			if json.Unmarshal(raw, fresh.Interface()) == nil {
				f.Set(fresh.Elem())
			}
		}
	}
}

// What a patch has beside the members of attempt n.
const (
	inOp       = "op"       // members of the operation
	inAttempts = "attempts" // of other attempts, by their numbers
	inReads    = "reads"    // of reads, by their ids
	inGrants   = "grants"
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
func (s *state) changes(to *state, e said, facts, payload object) {
	var none [2]object
	part := func(name, key string, was, is any) {
		f, p := object{}, object{}
		differ(was, is, f, p)
		for i, o := range []object{f, p} {
			if len(o) > 0 {
				if none[i] == nil {
					none[i] = object{}
				}
				all := parse(none[i][name])
				if all == nil {
					all = object{}
				}
				all[key] = o.json()
				none[i][name] = all.json()
			}
		}
	}
	f, p := object{}, object{}
	differ(&s.op, &to.op, f, p)
	facts.put(inOp, f)
	payload.put(inOp, p)
	for i := range to.attempts {
		was, is := e.begun(i+1), &to.attempts[i]
		if i < len(s.attempts) {
			was = s.attempts[i]
		}
		if is.N != e.n {
			part(inAttempts, strconv.Itoa(is.N), &was, is)
			continue
		}
		if is.Outcome != was.Outcome && is.Outcome != "" {
			e.ended(&was)
		}
		differ(&was, is, facts, payload)
	}
	for i := range to.reads {
		switch is := &to.reads[i]; {
		case i < len(s.reads):
			part(inReads, is.ID, &s.reads[i], is)
		default:
			f, p := object{}, object{}
			differ(&ledger.Read{}, is, f, p)
			facts.put(inRead, f)
			payload.put(inRead, p)
		}
	}
	for i := range to.grants {
		var was ledger.Grant
		if i < len(s.grants) {
			was = s.grants[i]
		}
		part(inGrants, to.grants[i].ID, &was, &to.grants[i])
	}
	for i, o := range []object{facts, payload} {
		for name, raw := range none[i] {
			o[name] = raw
		}
	}
}

// apply folds an event into the state: what its columns say, its facts, and then its payload.
func (s *state) apply(e said, facts, payload object) {
	read := -1
	if a := s.attempt(e, e.n); a != nil && facts["outcome"] != nil {
		e.ended(a)
	}
	for i, o := range []object{facts, payload} {
		text := i == 1
		patch(&s.op, parse(o[inOp]), text)
		if a := s.attempt(e, e.n); a != nil {
			patch(a, o, text)
		}
		for key, raw := range parse(o[inAttempts]) {
			if n, err := strconv.Atoi(key); err == nil {
				if a := s.attempt(e, n); a != nil {
					patch(a, parse(raw), text)
				}
			}
		}
		if o[inRead] != nil {
			if read < 0 {
				s.reads = append(s.reads, ledger.Read{})
				read = len(s.reads) - 1
			}
			patch(&s.reads[read], parse(o[inRead]), text)
		}
		for key, raw := range parse(o[inReads]) {
			if i := slices.IndexFunc(s.reads, func(r ledger.Read) bool { return r.ID == key }); i >= 0 {
				patch(&s.reads[i], parse(raw), text)
			}
		}
		for key, raw := range parse(o[inGrants]) {
			i := slices.IndexFunc(s.grants, func(g ledger.Grant) bool { return g.ID == key })
			if i < 0 {
				s.grants = append(s.grants, ledger.Grant{ID: key})
				i = len(s.grants) - 1
			}
			patch(&s.grants[i], parse(raw), text)
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
