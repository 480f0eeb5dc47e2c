package ledger

import (
	"slices"
	"strings"
	"time"
)

// Filter is a parsed filter text: terms that must all hold, of which one may be a choice. Its zero value
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
	Field  string // text, named, or, or one of FilterFields
	Op     string // "" (equals or contains), ">" or "<"
	Value  string
	Number float64       // for cost and risk
	Age    time.Duration // for age
	When   When          // for since and until
	Any    [][]Term      // for or: the terms of one of these must all hold
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
	if t.Field == "age" {
		return now.Add(-t.Age)
	}
	return t.When.Past(now)
}

// AnyIncident is the value of a term incident: for what is in some incident.
const AnyIncident = "any"

// FilterFields lists the fields a term can name. kind, state, lane, group, downstream,
// source and error are one of the names that commas separate, with * for any text; id, key,
// token, receipt and incident begin with the value, and are found by an index;
// incident:any is in one; parked is yes or no; since and until keep what is settled and
// was begun before or after out; by contains.
var FilterFields = []string{"id", "kind", "state", "lane", "downstream", "source", "error", "key", "token", "receipt", "by", "parked", "group", "incident", "since", "until", "age", "cost", "risk"}

// New reports whether an operation was begun within the filter's `since:`; never
// without one.
func (f Filter) New(r Row, now time.Time) bool {
	return f.Has(func(t Term) bool { return t.Field == "since" && !t.Not && r.CreatedAt.After(t.Moment(now)) })
}

// Has reports whether a term is such a one, those of alternatives too.
func (f Filter) Has(is func(Term) bool) bool { return has(f.Terms, is) }

func has(terms []Term, is func(Term) bool) bool {
	return slices.ContainsFunc(terms, func(t Term) bool {
		return is(t) || slices.ContainsFunc(t.Any, func(one []Term) bool { return has(one, is) })
	})
}

// Match reports whether a row satisfies every term at now. A store's own
// selection must agree with it.
func (f Filter) Match(r Row, now time.Time) bool {
	return matches(f.Terms, r, now)
}

func matches(terms []Term, r Row, now time.Time) bool {
	for _, t := range terms {
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
	case "or":
		return slices.ContainsFunc(t.Any, func(one []Term) bool { return matches(one, r, now) })
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
