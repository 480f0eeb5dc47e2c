package carry

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"indoubt/ledger/lazyregexp"
)

// fieldName is what a field's name looks like as it is written in a form or a
// query. What has a blank, a quote or an angle bracket there is other text.
var fieldName = lazyregexp.New(`^[!#-;?-\[\]_a-z~]+$`)

// Fields are the fields of a form or of a query, if the text is one: other texts
// travel under a form's content type too, because clients put it there by default.
func Fields(text string) (url.Values, bool) {
	named := false
	for pair := range strings.SplitSeq(text, "&") {
		name, _, valued := strings.Cut(pair, "=")
		if pair != "" && !fieldName.MatchString(name) {
			return nil, false
		}
		named = named || valued
	}
	values, err := url.ParseQuery(text)
	return values, named && err == nil
}

// Form puts the token into a form or a query: into the JSON that a field holds (Slack's
// clients send an object so), else as a field of its own. ok is false, and the text as it
// was, where that is none or has something else in the place.
func (p Place) Form(text, token string) (out string, ok bool) {
	values, ok := Fields(text)
	if !ok && text != "" {
		return text, false
	}
	if held := values[p.steps[0].name]; len(p.steps) > 1 && len(held) == 1 && isJSON(held[0]) {
		return p.formJSON(text, held[0], token)
	}
	name, taken := p.field(func(name string) ([]string, bool) { v, has := values[name]; return v, has }, token)
	if name == "" {
		return text, taken
	}
	field := url.QueryEscape(name) + "=" + url.QueryEscape(token)
	if text == "" || strings.HasSuffix(text, "&") {
		return text + field, true
	}
	return text + "&" + field, true
}

func isJSON(text string) bool {
	return (strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")) && json.Valid([]byte(text))
}

// formJSON puts the token into what the field of the first step holds.
func (p Place) formJSON(text, held, token string) (out string, ok bool) {
	placed, ok := Place{p.steps[1:], p.append}.JSON([]byte(held), token)
	if !ok || string(placed) == held {
		return text, ok
	}
	pairs := strings.Split(text, "&")
	for i, pair := range pairs {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil && plain == p.steps[0].name {
			pairs[i] = name + "=" + url.QueryEscape(string(placed))
		}
	}
	return strings.Join(pairs, "&"), true
}

// field is the name of the field that the token goes into, by the fields there
// are. It is "" where there is none, or where the token is there already.
func (p Place) field(of func(name string) ([]string, bool), token string) (name string, there bool) {
	for i, s := range p.steps {
		switch {
		case i == 0:
			name = s.name
		case s.index >= 0:
			name += "[" + strconv.Itoa(s.index) + "]"
		default:
			name += "[" + s.name + "]"
		}
	}
	if !p.append {
		has, taken := of(name)
		if taken && slices.Equal(has, []string{token}) {
			return "", true
		}
		if taken {
			return "", false
		}
		return name, false
	}
	if _, bracketed := of(name + "[]"); bracketed {
		return name + "[]", false
	}
	if _, repeated := of(name); repeated {
		return name, false
	}
	for n := 0; ; n++ {
		next := name + "[" + strconv.Itoa(n) + "]"
		if _, taken := of(next); !taken {
			return next, false
		}
	}
}
