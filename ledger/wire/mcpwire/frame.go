package mcpwire

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Kind is what sort of message a line is.
type Kind uint8

// The kinds of a line.
const (
	// Other is no JSON, no JSON-RPC, or more than is looked at. A server says
	// such lines when something logs to its standard output. From a client it
	// is suspect: a server whose parser is more lenient (NaN, a comment, a
	// message spread over lines, several on one) may read a call in it.
	Other Kind = iota
	Request
	Notification
	Response
	Batch // an array; its Elements are the messages
)

func (k Kind) String() string {
	return [...]string{"other", "request", "notification", "response", "batch"}[k]
}

// Frame is a line as it came and what was understood of it. Looking never
// changes Raw, and every raw value is part of it.
type Frame struct {
	Raw     []byte
	Kind    Kind
	ID      json.RawMessage            // as written, "null" included; nil where there is none
	Method  string                     // of a request or a notification
	Members map[string]json.RawMessage // of the message; of a duplicate, the last
	Params  map[string]json.RawMessage // of its params where they are an object, else nil
	Result  map[string]json.RawMessage // of its result, likewise

	// Duplicate: a name occurs twice in the message, in its params or its result, or
	// anywhere inside the arguments or the _meta of its params. Which one counts differs from
	// parser to parser.
	Duplicate bool
	// Lookalike: a name differs from one that matters (jsonrpc id method params,
	// and name arguments inside those) in nothing but case. Some parsers read
	// it as that one.
	Lookalike bool

	Elements []Frame // of a batch; an element that is not a message is Other
	// TooDeep is what kind of message an Other is that is nested deeper than is looked at.
	// Its ID is all that is known of it.
	TooDeep Kind
}

// Name is the tool or prompt a request names in its params, or "".
func (f Frame) Name() string { return Text(f.Params["name"]) }

// ToolCall reports whether a server may read a call of a tool in this message:
// whether it is one, or has an ambiguity that could make it one.
func (f Frame) ToolCall() bool {
	return f.Method == callMethod || (f.Duplicate || f.Lookalike) && f.mentions(callMethod)
}

const (
	callMethod = "tools/call"

	maxElements = 4096    // of a batch
	maxMembers  = 4096    // of a message, of its params and of its result
	maxNames    = 1 << 20 // in the arguments of a call
)

// mentions reports whether any member that could pass for the method holds it.
func (f Frame) mentions(method string) bool {
	found := false
	eachMember(f.Raw, func(m member) bool {
		found = found || strings.EqualFold(m.name, "method") && Text(f.Raw[m.value.from:m.value.to]) == method
		return true
	})
	return found
}

// Parse looks at a line. It never fails: what it does not understand is Other.
// Names are case-sensitive, ids stay raw, nothing is decoded into numbers. It
// takes time and memory in proportion to the line's length; a line above MaxLine,
// what is nested deeper than 10,000 levels, and a message or batch of more than
// 4096 parts are Other.
func Parse(line []byte) Frame {
	f := Frame{Raw: line}
	if len(line) > MaxLine {
		return f
	}
	if !json.Valid(line) {
		if outline := outlined(line); json.Valid(outline) && isObject(outline) {
			m := message(outline)
			f.ID, f.TooDeep = m.ID, m.Kind
		}
		return f
	}
	at := skipSpace(line, 0)
	switch line[at] {
	case '{':
		return message(line)
	case '[':
		f.Kind = Batch
		eachElement(line, at, func(s span) bool {
			e := Frame{Raw: line[s.from:s.to]}
			if isObject(e.Raw) {
				e = message(e.Raw)
			}
			f.Elements = append(f.Elements, e)
			return len(f.Elements) <= maxElements
		})
		if n := len(f.Elements); n == 0 || n > maxElements {
			f.Kind, f.Elements = Other, nil
		}
	}
	return f
}

// message looks at a valid JSON object.
func message(raw []byte) Frame {
	f := Frame{Raw: raw}
	f.Members = f.members(raw, "jsonrpc", "id", "method", "params")
	f.ID = f.Members["id"]
	if params := f.Members["params"]; isObject(params) {
		f.Params = f.members(params, "name", "arguments")
		f.Duplicate = f.Duplicate || duplicated(f.Params["arguments"]) || duplicated(f.Params["_meta"])
	}
	if result := f.Members["result"]; isObject(result) {
		f.Result = f.members(result)
		f.Duplicate = f.Duplicate || len(f.Result) > maxMembers // the rest is not looked at
	}
	if len(f.Members) > maxMembers || len(f.Params) > maxMembers {
		return Frame{Raw: raw}
	}
	method, isMethod := f.Members["method"]
	_, isResult := f.Members["result"]
	_, isError := f.Members["error"]
	switch {
	case isMethod && method[0] == '"':
		f.Method = Text(method)
		f.Kind = Notification
		if f.ID != nil {
			f.Kind = Request
		}
	case !isMethod && (isResult || isError):
		f.Kind = Response
	}
	return f
}

// members reads an object's members, and flags what is ambiguous about their
// names.
func (f *Frame) members(raw []byte, matter ...string) map[string]json.RawMessage {
	found := make(map[string]json.RawMessage, 8)
	eachMember(raw, func(m member) bool {
		if _, twice := found[m.name]; twice {
			f.Duplicate = true
		}
		found[m.name] = raw[m.value.from:m.value.to]
		for _, name := range matter {
			f.Lookalike = f.Lookalike || m.name != name && strings.EqualFold(m.name, name)
		}
		return len(found) <= maxMembers
	})
	return found
}

// duplicated reports whether a valid JSON value has an object anywhere in which a
// name occurs twice, or more names than are looked at.
func duplicated(raw []byte) bool {
	count := 0
	var open []map[string]bool // the names of each open object; nil for an array
	for at := 0; at < len(raw); {
		switch c := raw[at]; c {
		case '{':
			open = append(open, map[string]bool{})
		case '[':
			open = append(open, nil)
		case '}', ']':
			open = open[:len(open)-1]
		case '"':
			end := skipString(raw, at)
			next := skipSpace(raw, end)
			if next < len(raw) && raw[next] == ':' {
				names, name := open[len(open)-1], Text(raw[at:end])
				if count++; names[name] || count > maxNames {
					return true
				}
				names[name] = true
			}
			at = end
			continue
		}
		at++
	}
	return false
}

// IDKey is the same text for the same id however it is written, and differs for
// different ones: "1" and 1 are two ids, 1 and 1.0 one. It is "" for no id.
func IDKey(id json.RawMessage) string {
	s := string(id)
	if strings.HasPrefix(s, `"`) {
		return `"` + Text(id)
	}
	if strings.ContainsAny(s, ".eE") {
		if f, err := strconv.ParseFloat(s, 64); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			return strconv.FormatInt(int64(f), 10)
		}
	}
	return s
}

// Members are those of a JSON object, and whether none occurs twice; nil where it is none.
func Members(raw json.RawMessage) (members map[string]json.RawMessage, clean bool) {
	if raw = bytes.TrimSpace(raw); !isObject(raw) || !json.Valid(raw) {
		return nil, false
	}
	var f Frame
	members = f.members(raw)
	return members, !f.Duplicate && len(members) <= maxMembers
}

// Absent reports whether a member is missing or null.
func Absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func isObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

// Text is a JSON string's value, or "" for anything else.
func Text(raw []byte) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	if inner := raw[1 : len(raw)-1]; !bytes.ContainsFunc(inner, func(r rune) bool { return r == '\\' || r >= 0x80 }) {
		return string(inner)
	}
	var s string
	_ = json.Unmarshal(raw, &s)
	return s
}
