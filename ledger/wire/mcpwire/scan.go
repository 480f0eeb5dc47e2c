package mcpwire

import (
	"encoding/json"
	"slices"
	"strings"
)

// Everything here walks JSON that json.Valid has accepted, without recursion.

// span is a part of a line: from the first byte to before the last.
type span struct{ from, to int }

type member struct {
	name  string
	value span
}

// eachMember calls do for the members of the object that raw holds, until it
// returns false. Other values have none.
func eachMember(raw []byte, do func(member) bool) {
	at := skipSpace(raw, 0)
	if at >= len(raw) || raw[at] != '{' {
		return
	}
	for at = skipSpace(raw, at+1); raw[at] == '"' || raw[at] == ','; at = skipSpace(raw, at) {
		if raw[at] == ',' {
			at++
			continue
		}
		end := skipString(raw, at)
		name := Text(raw[at:end])
		from := skipSpace(raw, skipSpace(raw, end)+1) // past the colon
		at = skipValue(raw, from)
		if !do(member{name, span{from, at}}) {
			return
		}
	}
}

func eachElement(raw []byte, at int, do func(span) bool) {
	for at = skipSpace(raw, at+1); raw[at] != ']'; at = skipSpace(raw, at) {
		if raw[at] == ',' {
			at++
			continue
		}
		from := at
		at = skipValue(raw, from)
		if !do(span{from, at}) {
			return
		}
	}
}

func skipSpace(raw []byte, at int) int {
	for at < len(raw) && (raw[at] == ' ' || raw[at] == '\t' || raw[at] == '\n' || raw[at] == '\r') {
		at++
	}
	return at
}

// skipString returns the place after the string that begins at at.
func skipString(raw []byte, at int) int {
	for at++; raw[at] != '"'; at++ {
		if raw[at] == '\\' {
			at++
		}
	}
	return at + 1
}

// skipValue returns the place after the value that begins at at.
func skipValue(raw []byte, at int) int {
	switch raw[at] {
	case '"':
		return skipString(raw, at)
	case '{', '[':
	default:
		for at < len(raw) && strings.IndexByte(",}] \t\n\r", raw[at]) < 0 {
			at++
		}
		return at
	}
	for depth := 0; ; {
		switch raw[at] {
		case '"':
			at = skipString(raw, at)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		at++
		if depth == 0 {
			return at
		}
	}
}

// maxDepth is how deep json.Valid looks.
const maxDepth = 10000

// outlined is a line that is nested deeper than that, without what is inside the members
// of its object; nil for any other line. It need not be JSON.
func outlined(raw []byte) []byte {
	if len(raw) <= maxDepth {
		return nil
	}
	var out []byte
	depth, deepest := 0, 0
	for at := skipSpace(raw, 0); at < len(raw); at++ {
		from := at
		switch raw[at] {
		case '"':
			for at++; at < len(raw) && raw[at] != '"'; at++ {
				if raw[at] == '\\' {
					at++
				}
			}
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
		if closes := raw[from] == '}' || raw[from] == ']'; depth <= 1 || depth == 2 && !closes && (raw[from] == '{' || raw[from] == '[') {
			out = append(out, raw[from:min(at+1, len(raw))]...)
		}
	}
	if deepest <= maxDepth {
		return nil
	}
	return out
}

// Set gives the member at path (names of nested objects' members) this raw JSON
// value and leaves every other byte of the line; a last member that is missing
// is added to its object. The line itself is not touched. It reports false where
// it would have to guess: the line is no JSON object, something on the path is
// missing, no object or there twice, or value is no JSON.
func Set(line, value []byte, path ...string) ([]byte, bool) {
	if len(path) == 0 || !json.Valid(value) || !json.Valid(line) {
		return nil, false
	}
	within, ok := descend(line, path[:len(path)-1])
	if !ok || line[within.from] != '{' {
		return nil, false
	}
	name := path[len(path)-1]
	at, times, members := find(line, within, name)
	switch times {
	case 1:
		return replace(line, at, value), true
	case 0:
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, false
		}
		return insert(line, within, members == 0, append(append(quoted, ':'), value...)), true
	}
	return nil, false
}

// Append adds a raw JSON value to the end of the array at path, and reports
// false under the same conditions as Set, or where there is no array.
func Append(line, value []byte, path ...string) ([]byte, bool) {
	if !json.Valid(value) || !json.Valid(line) {
		return nil, false
	}
	within, ok := descend(line, path)
	if !ok || line[within.from] != '[' {
		return nil, false
	}
	empty := line[skipSpace(line, within.from+1)] == ']'
	return insert(line, within, empty, value), true
}

func descend(line []byte, path []string) (span, bool) {
	at := skipSpace(line, 0)
	within := span{at, skipValue(line, at)}
	for _, name := range path {
		if line[within.from] != '{' {
			return span{}, false
		}
		next, times, _ := find(line, within, name)
		if times != 1 {
			return span{}, false
		}
		within = next
	}
	return within, true
}

// find looks for a member of the object that lies within; at is the last one's
// value.
func find(line []byte, within span, name string) (at span, times, members int) {
	object := line[within.from:within.to]
	eachMember(object, func(m member) bool {
		members++
		if m.name == name {
			times++
			at = span{within.from + m.value.from, within.from + m.value.to}
		}
		return true
	})
	return at, times, members
}

// insert puts text before the bracket that closes what lies within.
func insert(line []byte, within span, empty bool, text []byte) []byte {
	if !empty {
		text = append([]byte{','}, text...)
	}
	end := within.to - 1
	return replace(line, span{end, end}, text)
}

func replace(line []byte, at span, value []byte) []byte {
	return slices.Concat(line[:at.from], value, line[at.to:])
}
