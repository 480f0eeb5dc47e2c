package ledger

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
)

// Filter is a parsed filter text: terms that must all hold. Its zero value
// holds for everything.
type Filter struct {
	Text  string // as written
	Terms []Term
}

// Columns are the columns of which one must begin with the term's value; none for
// a term of another sort.
func (t Term) Columns() []string {
	switch t.Field {
	case "id", "key", "token", "receipt", "incident":
		if t.Value != AnyIncident {
			return []string{t.Field}
		}
	case "named":
		return []string{"id", "key", "token", "receipt"}
	}
	return nil
}

// Term is one condition. A word that is a whole UUID is looked for as the beginning
// of an id, a key, a token or a receipt. Other text terms match title, target, kind, key, id, source and
// receipt without regard to case; field terms match as FilterFields says.
type Term struct {
	Field  string // text, named, or one of FilterFields
	Op     string // "" (equals or contains), ">" or "<"
	Value  string
	Number float64       // for cost and risk
	Age    time.Duration // for age, since and until
	At     time.Time     // for since and until, where a time is given instead
	Not    bool
}

// OneOf are the values of a term that compares a whole name: one of them must be it, and
// a * in one stands for any text. None for a term of another sort.
func (t Term) OneOf() []string {
	switch t.Field {
	case "kind", "state", "lane", "group", "downstream", "source", "error":
		return strings.Split(t.Value, ",")
	}
	return nil
}

// Names reports whether one of the term's values is this name.
func (t Term) Names(name string) bool {
	return slices.ContainsFunc(t.OneOf(), func(pattern string) bool { return like(pattern, name) })
}

// Moment is the time that a term since or until names, or that an age ago was.
func (t Term) Moment(now time.Time) time.Time {
	if t.At.IsZero() {
		return now.Add(-t.Age)
	}
	return t.At
}

// AnyIncident is the value of a term incident: for what is in some incident.
const AnyIncident = "any"

// FilterFields lists the fields a term can name. kind, state, lane, group, downstream,
// source and error are one of the names that commas separate, with * for any text; id, key,
// token, receipt and incident begin with the value, and are found by an index;
// incident:any is in one; parked is yes or no; since and until keep what is settled and
// was begun before or after out; by contains.
var FilterFields = []string{"id", "kind", "state", "lane", "downstream", "source", "error", "key", "token", "receipt", "by", "parked", "group", "incident", "since", "until", "age", "cost", "risk"}

// FilterError points into a filter text.
type FilterError struct {
	Text    string
	Offset  int // in bytes
	Message string
	Hint    string
}

func (e *FilterError) Error() string {
	return fmt.Sprintf("%s\n  %s\n  %s^", e.Message, e.Text, strings.Repeat(" ", len([]rune(e.Text[:e.Offset]))))
}

// ParseFilter reads a filter text: words, `field:value`, `age>30m`, `cost>100`,
// each negated by a leading `-`, values with spaces in double quotes. Errors
// are *FilterError.
func ParseFilter(text string) (Filter, error) {
	f := Filter{Text: text}
	for _, w := range filterWords(text) {
		t, err := parseTerm(text, w)
		if err != nil {
			return Filter{}, err
		}
		f.Terms = append(f.Terms, t)
	}
	return f, nil
}

type filterWord struct {
	offset int
	text   string
}

// filterWords splits at spaces outside double quotes.
func filterWords(text string) []filterWord {
	var words []filterWord
	start, quoted := -1, false
	for i, r := range text {
		switch {
		case r == '"':
			quoted = !quoted
		case unicode.IsSpace(r) && !quoted:
			if start >= 0 {
				words = append(words, filterWord{start, text[start:i]})
				start = -1
			}
			continue
		}
		if start < 0 {
			start = i
		}
	}
	if start >= 0 {
		words = append(words, filterWord{start, text[start:]})
	}
	return words
}

func parseTerm(text string, w filterWord) (Term, error) {
	fail := func(at int, message, hint string) (Term, error) {
		return Term{}, &FilterError{Text: text, Offset: w.offset + at, Message: message, Hint: hint}
	}
	word := w.text
	t := Term{Field: "text"}
	skip := 0
	if len(word) > 1 && word[0] == '-' {
		t.Not, word, skip = true, word[1:], 1
	}
	i := strings.IndexAny(word, ":<>")
	if i > 0 && !strings.HasPrefix(word, `"`) && isName(word[:i]) {
		t.Field = strings.ToLower(word[:i])
		if !slices.Contains(FilterFields, t.Field) {
			return fail(skip, fmt.Sprintf("there is no filter field %q", t.Field), "fields: "+strings.Join(FilterFields, " ")+`; put text with a colon in "quotes"`)
		}
		if word[i] != ':' {
			t.Op = word[i : i+1]
		}
		skip += i + 1
		word = word[i+1:]
	}
	t.Value = strings.ReplaceAll(word, `"`, "")
	if t.Value == "" {
		return fail(skip, "a value is missing here", "write field:value")
	}
	switch t.Field {
	case "age":
		d, err := ParseDuration(t.Value)
		if t.Op == "" || err != nil {
			return fail(skip, "age takes > or < and a duration", "age>30m, age<2d")
		}
		t.Age = d
	case "since", "until":
		var err error
		if t.Age, err = ParseDuration(t.Value); err != nil {
			t.At, err = ParseTime(t.Value, time.Local)
		}
		if t.Op != "" || err != nil {
			return fail(skip, t.Field+" takes a duration, a date or a time", t.Field+":30m, "+t.Field+":2026-07-14, "+t.Field+":2026-07-14T03:00Z")
		}
	case "cost", "risk":
		n, err := strconv.ParseFloat(t.Value, 64)
		if t.Op == "" || err != nil {
			return fail(skip, t.Field+" takes > or < and a number", t.Field+">100")
		}
		t.Number = n
	case "text":
		if len(t.Value) == 36 && uuid.Validate(t.Value) == nil {
			t.Field = "named"
		}
	default:
		if t.Op != "" {
			return fail(skip, t.Field+" cannot be compared", "write "+t.Field+":"+t.Value)
		}
	}
	return t, t.known(text, w.offset+skip)
}

// known refuses a state or lane that does not exist: it would silently show nothing.
func (t Term) known(text string, at int) error {
	var names []string
	switch t.Field {
	case "state":
		names = []string{string(Pending), string(Committed), string(Failed), string(Uncertain), string(Abandoned)}
	case "lane":
		names = []string{string(LaneConflict), string(LaneInFlight), string(LaneUnfetched), string(LaneDecide), string(LaneReading), string(LaneNotLanded), string(LaneResolved)}
	case "group":
		for _, g := range Groups {
			names = append(names, string(g))
		}
	case "parked":
		names = []string{"yes", "no"}
	default:
		return nil
	}
	for _, name := range strings.Split(t.Value, ",") {
		if !slices.Contains(names, name) {
			return &FilterError{Text: text, Offset: at, Message: fmt.Sprintf("there is no %s:%s", t.Field, name), Hint: "one of: " + strings.Join(names, " ")}
		}
	}
	return nil
}

func isName(s string) bool {
	for _, r := range s {
		if !unicode.IsLetter(r) && r != '_' {
			return false
		}
	}
	return true
}

// ParseDuration reads a duration as time.ParseDuration does, and days (7d, 1d12h).
func ParseDuration(s string) (time.Duration, error) {
	if days, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > 36500 {
			return 0, fmt.Errorf("%q is not a duration such as 90s, 30m, 2h or 7d", s)
		}
		d := time.Duration(n) * 24 * time.Hour
		if rest == "" {
			return d, nil
		}
		r, err := time.ParseDuration(rest)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration such as 90s, 30m, 2h or 7d", s)
		}
		return d + r, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 90s, 30m, 2h or 7d", s)
	}
	return d, nil
}

// ParseTime reads a time that is written out: RFC 3339, or a date with or without a
// time of day in a zone.
func ParseTime(s string, zone *time.Location) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, zone); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a date or a time such as 2026-07-14 or 2026-07-14T03:00Z", s)
}

// New reports whether an operation was begun within the filter's `since:`; never
// without one.
func (f Filter) New(r Row, now time.Time) bool {
	return slices.ContainsFunc(f.Terms, func(t Term) bool {
		return t.Field == "since" && !t.Not && r.CreatedAt.After(t.Moment(now))
	})
}

// Match reports whether a row satisfies every term at now. A store's own
// selection must agree with it.
func (f Filter) Match(r Row, now time.Time) bool {
	for _, t := range f.Terms {
		if t.match(r, now) == t.Not {
			return false
		}
	}
	return true
}

func (t Term) match(r Row, now time.Time) bool {
	contains := func(fields ...string) bool {
		for _, f := range fields {
			if strings.Contains(strings.ToLower(f), strings.ToLower(t.Value)) {
				return true
			}
		}
		return false
	}
	compare := func(n, with float64) bool {
		if t.Op == ">" {
			return n > with
		}
		return n < with
	}
	switch t.Field {
	case "text":
		return contains(r.Title, r.Target, r.Pricing.Title, r.Pricing.Target, r.Kind, r.Key, r.ID, r.Source.Pipeline, r.Receipt)
	case "id", "key", "token", "receipt", "named", "incident":
		if t.Field == "incident" && t.Value == AnyIncident {
			return r.Incident != ""
		}
		of := map[string]string{"id": r.ID, "key": r.Key, "token": r.Token, "receipt": r.Receipt, "incident": r.Incident}
		return slices.ContainsFunc(t.Columns(), func(name string) bool { return strings.HasPrefix(of[name], t.Value) })
	case "kind", "state", "lane", "group", "downstream", "source", "error":
		is := map[string]string{"kind": r.Kind, "downstream": r.Pricing.Downstream, "source": r.Source.Pipeline, "error": string(r.ErrorClass), "group": string(r.Group)}[t.Field]
		switch t.Field {
		case "state":
			is = string(r.StateAt(now))
		case "lane":
			is = string(r.LaneAt(now))
		}
		return t.Names(is)
	case "by":
		return contains(Signer(r.Actor), r.Hands)
	case "parked":
		return r.Parked(now) == (t.Value == "yes")
	case "since":
		return r.LaneAt(now) != LaneResolved || r.CreatedAt.After(t.Moment(now))
	case "until":
		return r.LaneAt(now) != LaneResolved || r.CreatedAt.Before(t.Moment(now))
	case "age":
		return compare(float64(now.Sub(r.CreatedAt)), float64(t.Age))
	case "cost":
		return compare(max(r.Pricing.Duplicate.Value, r.Pricing.Miss.Value), t.Number)
	case "risk":
		return compare(r.Pricing.Rank, t.Number)
	}
	return false
}

// like reports whether a name is a pattern, in which * stands for any text.
func like(pattern, name string) bool {
	start, rest, more := strings.Cut(pattern, "*")
	name, ok := strings.CutPrefix(name, start)
	if !more || !ok {
		return ok && name == ""
	}
	for {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(name, part)
		}
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name, rest = name[i+len(part):], after
	}
}
