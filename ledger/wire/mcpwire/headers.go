package mcpwire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"indoubt/ledger/lazyregexp"
)

// What streamable HTTP says in headers. Up to revision 2025-11-25 a session id
// and the negotiated protocol version; from 2026-07-28 on no session, the version
// that the message itself declares, and a copy of what is called (SEP-2243).
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerParam   = "Mcp-Param-"
	headerLast    = "Last-Event-Id"

	metaVersion = "io.modelcontextprotocol/protocolVersion"
	stateless   = "2026-07-28" // the first revision without sessions

	maxHeaderValue = 4096
	maxMirrored    = 1024 // properties of a tool, with those inside them
)

// dialect is what has been learnt of a server: the session, the revision it and
// the client agreed on, and which arguments its tools want in headers.
type dialect struct {
	mu      sync.Mutex
	session string
	version string
	mirror  map[string][]mirrored // by tool
}

// mirrored is an argument that goes into a header.
type mirrored struct {
	path   []string
	header string
}

// put sets the headers for a message. The zero Frame stands for GET and DELETE.
func (d *dialect) put(h http.Header, f Frame) {
	d.mu.Lock()
	defer d.mu.Unlock()
	declared := declaredVersion(f)
	if declared != "" {
		d.version = declared
	}
	if f.Method == "initialize" { // of a new session, in a version to be agreed on
		if declared != "" {
			h.Set(headerVersion, declared)
		}
		return
	}
	if d.version != "" {
		h.Set(headerVersion, d.version)
	}
	if d.version < stateless {
		if d.session != "" {
			h.Set(headerSession, d.session)
		}
		return
	}
	if f.Method == "" {
		return
	}
	h.Set(headerMethod, headerValue(f.Method))
	switch f.Method {
	case callMethod:
		h.Set(headerName, headerValue(f.Name()))
		for _, m := range d.mirror[f.Name()] {
			if value, ok := argument(f.Params["arguments"], m.path); ok {
				h.Set(m.header, headerValue(value))
			}
		}
	case "prompts/get":
		h.Set(headerName, headerValue(f.Name()))
	case "resources/read":
		h.Set(headerName, headerValue(Text(f.Params["uri"])))
	}
}

// declaredVersion is the revision that a message says it is of, or "".
func declaredVersion(f Frame) string {
	meta := f.Params["_meta"]
	if len(meta) > maxHeaderValue<<4 {
		return ""
	}
	var in Frame
	version := Text(in.members(meta)[metaVersion])
	if len(version) > 64 || requiresCode(version) {
		return ""
	}
	return version
}

// learn looks at the answer to a request that was posted.
func (d *dialect) learn(asked Frame, h http.Header, answer Frame) {
	result := answer.Members["result"]
	if !isObject(result) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch asked.Method {
	case "initialize":
		var in Frame
		version := Text(in.members(result)["protocolVersion"])
		if version == "" || len(version) > 64 || requiresCode(version) {
			return
		}
		d.version, d.session = version, ""
		if id := h.Get(headerSession); len(id) <= maxHeaderValue {
			d.session = id
		}
	case "tools/list":
		if !bytes.Contains(result, []byte("x-mcp-header")) {
			return
		}
		var list struct {
			Tools []struct {
				Name        string          `json:"name"`
				InputSchema json.RawMessage `json:"inputSchema"`
			} `json:"tools"`
		}
		if json.Unmarshal(result, &list) != nil {
			return
		}
		if d.mirror == nil {
			d.mirror = map[string][]mirrored{}
		}
		for _, tool := range list.Tools {
			d.mirror[tool.Name] = mirror(tool.InputSchema)
		}
	}
}

// current is the session, and the revision: "" before a server has answered initialize.
func (d *dialect) current() (session, version string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.session, d.version
}

// listens reports whether a server of a revision has a stream of its own to listen to.
func listens(version string) bool { return version != "" && version < stateless }

func (d *dialect) adopt(session, version string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.session, d.version = session, version
}

// mirror finds the properties that a tool's schema wants in headers.
func mirror(schema json.RawMessage) []mirrored {
	type level struct {
		path   []string
		schema json.RawMessage
	}
	var found []mirrored
	open := []level{{nil, schema}}
	for n := 0; len(open) > 0 && n < maxMirrored; n++ {
		at := open[0]
		open = open[1:]
		var s struct {
			Header     string                     `json:"x-mcp-header"`
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if json.Unmarshal(at.schema, &s) != nil {
			continue
		}
		if token.MatchString(s.Header) && len(at.path) > 0 {
			found = append(found, mirrored{at.path, headerParam + s.Header})
		}
		for name, inner := range s.Properties {
			open = append(open, level{append(at.path[:len(at.path):len(at.path)], name), inner})
		}
	}
	return found
}

// argument is the text of a string, a truth value or a whole number among the
// arguments.
func argument(arguments json.RawMessage, path []string) (string, bool) {
	value := []byte(arguments)
	for _, name := range path {
		if !isObject(value) {
			return "", false
		}
		at, times, _ := find(value, span{0, len(value)}, name)
		if times != 1 {
			return "", false
		}
		value = value[at.from:at.to]
	}
	switch s := string(value); {
	case len(s) == 0, s == "null":
		return "", false
	case s == "true", s == "false":
		return s, true
	case s[0] == '"':
		return Text(value), true
	default:
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
			return "", false
		}
		return strconv.FormatInt(int64(f), 10), true
	}
}

const codeBegin, codeEnd = "=?base64?", "?="

func headerValue(s string) string {
	if !requiresCode(s) {
		return s
	}
	return codeBegin + base64.StdEncoding.EncodeToString([]byte(s)) + codeEnd
}

func requiresCode(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) || strings.TrimSpace(s) != s ||
		strings.HasPrefix(s, codeBegin) && strings.HasSuffix(s, codeEnd)
}

// token is what a header's name is (RFC 9110).
var token = lazyregexp.New("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
