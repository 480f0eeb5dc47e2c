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

// filterTerms is how many a filter may have: it becomes one statement of SQL.
const filterTerms = 100

// ParseFilter reads a filter text: words, `field:value`, `age>30m`, `cost>100`, each
// negated by a leading `-`, values with spaces in double quotes. Errors are *FilterError.
func ParseFilter(text string) (Filter, error) {
	f := Filter{Text: text}
	for _, w := range filterWords(text) {
		if len(f.Terms) == filterTerms {
			return Filter{}, &FilterError{text, w.offset, fmt.Sprintf("a filter has at most %d terms", filterTerms), "join values with commas: state:failed,uncertain"}
		}
		if slices.Contains([]string{"OR", "AND", "NOT", "|"}, strings.ToUpper(w.text)) || strings.HasPrefix(strings.TrimPrefix(w.text, "-"), "(") {
			return Filter{}, &FilterError{text, w.offset, "the terms of a filter must all hold; there are no operators",
				`- negates a term, commas stand between values: kind:a,b -state:failed; put text that is meant in "quotes"`}
		}
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
func filterWords(text string) (words []filterWord) {
	start, quoted := -1, false
	for i, r := range text + " " {
		switch {
		case r == '"':
			quoted = !quoted
		case unicode.IsSpace(r) && (!quoted || i == len(text)):
			if start >= 0 {
				words = append(words, filterWord{start, text[start:i]})
			}
			start = -1
			continue
		}
		if start < 0 {
			start = i
		}
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
			return fail(skip, fmt.Sprintf("there is no filter field %q", t.Field), fmt.Sprintf("%sfields: %s; put text with a colon in \"quotes\"", meant(t.Field, FilterFields), strings.Join(FilterFields, " ")))
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
		if t.When, err = ParseWhen(t.Value, time.Local); t.Op != "" || err != nil {
			return fail(skip, t.Field+" takes a duration, a day or a time", fmt.Sprintf("%s:30m, %[1]s:yesterday, %[1]s:2026-07-14, %[1]s:2026-07-14T03:00Z", t.Field))
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
	names := FilterValues(t.Field)
	if len(names) == 0 || t.Field == "error" { // an error may have a class that a caller made
		return nil
	}
	for _, name := range strings.Split(t.Value, ",") {
		if !slices.Contains(names, name) {
			return &FilterError{Text: text, Offset: at, Message: fmt.Sprintf("there is no %s:%s", t.Field, name), Hint: meant(name, names) + "one of: " + strings.Join(names, " ")}
		}
	}
	return nil
}

// meant is Meant as the beginning of a hint.
func meant(word string, names []string) string {
	if hint := Meant(word, names); hint != "" {
		return hint + " "
	}
	return ""
}

// FilterValues are the values that a field may have, in the ledger's own words; none where
// anything may stand.
func FilterValues(field string) (names []string) {
	switch field {
	case "state":
		return texts(Pending, Committed, Failed, Uncertain, Abandoned)
	case "needs":
		return []string{"you"}
	case "lane":
		return texts(LaneConflict, LaneDecide, LaneInFlight, LaneNotLanded, LaneReading, LaneResolved, LaneUnfetched)
	case "group":
		return texts(Groups...)
	case "error":
		return texts(ClassTimeout, ClassReset, ClassEOF, Class5xx, ClassConflict, ClassThrottled, ClassKilled, ClassExit, ClassToolError, ClassDeadline)
	case "parked":
		return []string{"yes", "no"}
	}
	return nil
}

func texts[T ~string](all ...T) (out []string) {
	for _, one := range all {
		out = append(out, string(one))
	}
	return out
}

// CompleteFilter is what the last word of a filter could become; known gives the names of
// a field that are there.
func CompleteFilter(word string, known func(field string) []string) (out []string) {
	lead := word[:len(word)-len(strings.TrimPrefix(word, "-"))]
	rest := word[len(lead):]
	field, value, valued := strings.Cut(rest, ":")
	if !valued {
		for _, f := range FilterFields {
			signs := []string{":"}
			if f == "age" || f == "cost" || f == "risk" {
				signs = []string{">", "<"}
			}
			for _, sign := range signs {
				if strings.HasPrefix(f+sign, rest) {
					out = append(out, lead+f+sign)
				}
			}
		}
		return out
	}
	values := FilterValues(field)
	switch {
	case field == "since" || field == "until":
		values = []string{"30m", "8h", "today", "yesterday", "7d"}
	case field == "outage":
		values = append([]string{AnyOutage}, known(field)...)
	case values == nil:
		values = known(field)
	}
	before := value[:strings.LastIndexByte(value, ',')+1]
	for _, name := range values {
		if strings.HasPrefix(name, value[len(before):]) && name != "" && !strings.ContainsAny(name, " ,\"") {
			out = append(out, lead+field+":"+before+name)
		}
	}
	return out
}

func isName(s string) bool {
	for _, r := range s {
		if !unicode.IsLetter(r) && r != '_' {
			return false
		}
	}
	return true
}
