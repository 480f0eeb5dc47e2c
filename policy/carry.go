package policy

import (
	"encoding/json"
	"mime"
	"net/url"
	"slices"
	"strings"

	"indoubt/ledger"
)

// Carries reports whether a rendered request holds the operation's key and its
// token, as the other side reads it: the only ground for saying that they were
// sent. What a command merely finds in its environment or on its standard input
// because every command does may never leave it.
func (s *Send) Carries(o ledger.Operation, req Request) (key, token bool) {
	texts := s.leaving(req)
	key = s.carriesKey(o) && slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(t, o.Key) })
	return key, slices.ContainsFunc(texts, func(t string) bool { return ledger.HasWord(t, o.Token) })
}

// carriesKey reports whether what would be sent repeats the operation's key, so
// that the other side can know it again. A key is the caller's text and may be
// short, so it is not searched for but must have its place.
func (s *Send) carriesKey(o ledger.Operation) bool {
	if o.Key == "" {
		return false
	}
	if s.Via() == "pipeline" {
		return true // it brings its own
	}
	t := &s.transport
	switch {
	case t.http != nil && s.keyHeader != "":
		return true
	case t.recorded:
		return o.Command != nil && slices.ContainsFunc(o.Command.Argv, func(a string) bool { return strings.Contains(a, "{{key}}") })
	case t.command != nil && t.command.stdin == nil:
		return true // it is told, on its standard input
	}
	return slices.ContainsFunc(t.templates(), func(t *template) bool { return t.uses("key") })
}

// leaving are the texts of a request that reach the other side, without the
// encoding they travel in: an escape beside a token would look like a part of it.
func (s *Send) leaving(req Request) []string {
	switch {
	case req.HTTP != nil:
		return httpTexts(req.HTTP)
	case req.Command != nil:
		t := &s.transport
		texts := slices.Clone(req.Command.Argv[min(1, len(req.Command.Argv)):]) // the program itself gets no word of it
		if t.command != nil {
			texts = append(texts, req.Command.Env...)
			if t.command.stdin != nil {
				texts = append(texts, jsonTexts(req.Command.Stdin)...)
			}
		}
		return texts
	case req.MCP != nil:
		return jsonTexts(req.MCP.Arguments)
	case req.SQL != nil:
		texts := []string{req.SQL.Query}
		for _, arg := range req.SQL.Args {
			if text, ok := arg.(string); ok {
				texts = append(texts, text)
			}
		}
		return texts
	}
	return nil
}

func httpTexts(req *HTTPRequest) (texts []string) {
	mediaType := ""
	for name, values := range req.Header {
		texts = append(texts, values...)
		if strings.EqualFold(name, "Content-Type") && len(values) > 0 {
			mediaType, _, _ = mime.ParseMediaType(values[0])
		}
	}
	if u, err := url.Parse(req.URL); err == nil {
		texts = append(texts, u.Path)
		texts = append(texts, formTexts(u.RawQuery)...)
	}
	if mediaType == "application/x-www-form-urlencoded" {
		return append(texts, formTexts(string(req.Body))...)
	}
	return append(texts, jsonTexts(req.Body)...)
}

func formTexts(form string) (texts []string) {
	values, err := url.ParseQuery(form)
	if err != nil {
		return []string{form}
	}
	for name, list := range values {
		texts = append(append(texts, name), list...)
	}
	return texts
}

// jsonTexts are the strings in a JSON value; what is no JSON is one text.
func jsonTexts(body []byte) (texts []string) {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return []string{string(body)}
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			texts = append(texts, v)
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for name, e := range v {
				texts = append(texts, name)
				walk(e)
			}
		}
	}
	walk(v)
	return texts
}
