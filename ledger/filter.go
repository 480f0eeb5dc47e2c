package ledger

import (
	"slices"
	"strings"
	"time"
)

// Filter is a parsed filter text: terms that must all hold. Its zero value holds for
// everything.
type Filter struct {
	Text  string // as written
	Terms []Term
	// DownstreamOf is where a policy sends a kind, "" where it names no downstream. An
	// operation that is not open has no price, so that only its kind tells. nil: no policy.
	DownstreamOf func(kind string) string
}

// By is the filter with a policy's word on the downstream of each kind.
func (f Filter) By(downstreamOf func(kind string) string) Filter {
	f.DownstreamOf = downstreamOf
	return f
}

// KindsSentTo are those of the kinds that the policy sends to a downstream that the term names.
func (f Filter) KindsSentTo(t Term, kinds []string) (out []string) {
	for _, kind := range kinds {
		if f.sends(t, kind) {
			out = append(out, kind)
		}
	}
	return out
}

func (f Filter) sends(t Term, kind string) bool {
	return f.DownstreamOf != nil && t.Names(f.DownstreamOf(kind))
}

// Columns are the columns of which one must begin with the term's value; none for
// a term of another sort.
func (t Term) Columns() []string {
	switch t.Field {
	case "key":
		return []string{"key", "sent_key"}
	case "id", "token", "receipt":
		return []string{t.Field}
	case "named":
		return []string{"id", "key", "sent_key", "token", "receipt"}
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
	Age    time.Duration // for age
	When   When          // for since and until
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
	return slices.ContainsFunc(t.OneOf(), func(pattern string) bool { return KindMatches(pattern, name) })
}

// Moment is the time that a term since or until names, or that an age ago was.
func (t Term) Moment(now time.Time) time.Time {
	if t.Field == "age" {
		return now.Add(-t.Age)
	}
	return t.When.Past(now)
}

// AnyOutage is the value of a term outage: for what is in some outage.
const AnyOutage = "any"

// FilterFields lists the fields a term can name. kind, state, lane, group, downstream,
// source and error are one of the names that commas separate, with * for any text; id, key,
// token, receipt and outage begin with the value, and are found by an index;
// outage:any is in one; needs:you is in TabNeedsYou; parked is yes or no; since and until keep what is settled and
// was begun before or after out; by contains.
var FilterFields = []string{"id", "kind", "state", "needs", "lane", "downstream", "source", "error", "key", "token", "receipt", "by", "parked", "group", "outage", "since", "until", "age", "cost", "risk"}

// New reports whether an operation was begun within the filter's `since:`; never
// without one.
func (f Filter) New(r Row, now time.Time) bool {
	return f.Has(func(t Term) bool { return t.Field == "since" && !t.Not && r.CreatedAt.After(t.Moment(now)) })
}

// OpenOnly are the fields that the filter asks about and that are known of open operations
// only. A settled operation has no price: its cost counts as 0.
func (f Filter) OpenOnly() (fields []string) {
	for _, field := range []string{"cost", "downstream"} {
		if field == "downstream" && f.DownstreamOf != nil {
			continue
		}
		if f.Has(func(t Term) bool { return t.Field == field }) {
			fields = append(fields, field)
		}
	}
	return fields
}

// Settles reports whether the filter may hold for settled operations.
func (f Filter) Settles() bool {
	return !f.Has(func(t Term) bool {
		switch {
		case t.Not:
		case t.Field == "state":
			return !slices.ContainsFunc(t.OneOf(), func(s string) bool { return s != string(Uncertain) && s != string(Pending) })
		case t.Field == "lane":
			return !slices.Contains(t.OneOf(), string(LaneResolved))
		case t.Field == "needs":
			return true
		case t.Field == "downstream":
			return f.DownstreamOf == nil
		}
		return false
	})
}

// Has reports whether a term is such a one.
func (f Filter) Has(is func(Term) bool) bool { return slices.ContainsFunc(f.Terms, is) }

// Match reports whether a row satisfies every term at now. A store's own
// selection must agree with it.
func (f Filter) Match(r Row, now time.Time) bool {
	return !f.Has(func(t Term) bool { return f.match(t, r, now) == t.Not })
}

func (f Filter) match(t Term, r Row, now time.Time) bool {
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
		return contains(r.Title, r.Target, r.Pricing.Title, r.Pricing.Target, r.Kind, r.Key, r.ID, r.Source.Pipeline, r.Receipt())
	case "outage":
		return slices.ContainsFunc(r.Outages, func(id string) bool { return t.Value == AnyOutage || strings.HasPrefix(id, t.Value) })
	case "id", "key", "token", "receipt", "named":
		of := map[string]string{"id": r.ID, "key": r.Key, "sent_key": r.SentKey, "token": r.Token, "receipt": r.Receipt()}
		return slices.ContainsFunc(t.Columns(), func(name string) bool { return strings.HasPrefix(of[name], t.Value) })
	case "kind", "state", "lane", "group", "downstream", "source", "error":
		is := map[string]string{"kind": r.Kind, "downstream": r.Pricing.Downstream, "source": r.Source.Pipeline, "group": string(r.Group),
			"state": string(r.StateAt(now)), "lane": string(r.LaneAt(now)), "error": string(r.ErrorAt(now))}[t.Field]
		return t.Names(is) || t.Field == "downstream" && f.sends(t, r.Kind)
	case "by":
		return contains(Signer(r.Actor), r.Hands)
	case "needs":
		return r.TabAt(now) == TabNeedsYou
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

// KindMatches reports whether a name is a pattern, in which * stands for any text, also
// none.
func KindMatches(pattern, name string) bool {
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
