package mcpwire

import "encoding/json"

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
	out := make([]byte, 0, len(line)-(at.to-at.from)+len(value))
	out = append(out, line[:at.from]...)
	out = append(out, value...)
	return append(out, line[at.to:]...)
}
