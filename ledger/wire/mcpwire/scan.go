package mcpwire

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
		for at < len(raw) && !ends(raw[at]) {
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

// ends reports whether a byte ends a number, true, false or null.
func ends(c byte) bool {
	switch c {
	case ',', '}', ']', ' ', '\t', '\n', '\r':
		return true
	}
	return false
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
