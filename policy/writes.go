package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/ledger/redact"
	"indoubt/policy/expr"
)

// errWouldWrite refuses a read that is a write: a check would repeat the operation.
var errWouldWrite = errors.New("the check would be a write")

const writesHint = "the check would be one more write: read by get, by the path of a search, or by another tool or command"

// lintWrites refuses every read that is a write of this policy. What only a
// rendered request shows, guard refuses. A file with other problems may lack parts
// that are looked at here.
func (d checker) lintWrites() {
	if len(d.problems) > 0 {
		return
	}
	for _, name := range d.policy.order {
		k := d.policy.kinds[name]
		if k.Read == nil {
			continue
		}
		k.Read.transport.guarded = k
		if why := (writeGuard{k}).readWrites(); why != "" {
			d.fail(k.said("read").below("read"), why, writesHint)
		}
	}
}

// writeGuard compares the reads of a kind with its writes.
type writeGuard struct{ *Kind }

// readWrites says which write the kind's read is, "" for none.
func (k writeGuard) readWrites() string {
	t := &k.Read.transport
	if t.http != nil {
		read := t.http.outgoing(t.http.blank())
		if why := read.writes(); why != "" {
			return why
		}
		if name := k.matched(read); name != "" {
			return fmt.Sprintf("asks by %s, which is a write by the `match` of %s", read, name)
		}
	}
	for _, name := range k.policy.order {
		other := k.policy.kinds[name]
		if t.mcp != nil && t.mcp.server != nil && other.isTool(t.mcp, other == k.Kind) {
			return fmt.Sprintf("calls the tool %s of %s, which writes", t.mcp.tool, name)
		}
	}
	return ""
}

// isTool reports whether a kind is the calls of a tool, by its name, and not said to
// read. The kind that the read is of may name the server in its own way.
func (k *Kind) isTool(m *mcpRule, own bool) bool {
	if k.Effect == "read" || !strings.HasPrefix(k.Pattern, "mcp.") || !strings.HasSuffix(k.Pattern, "."+m.tool) {
		return false
	}
	writes := k.Effect.Access() == "write" || k.Read != nil || k.Resend == ResendHere || k.Token.Stated()
	return own || writes && k.Pattern == "mcp."+m.server.Name+"."+m.tool
}

// sameCommand compares command lines; the program may be named by any path.
func sameCommand(a, b []string) bool {
	return len(a) > 0 && len(b) > 0 && path.Base(a[0]) == path.Base(b[0]) && slices.Equal(a[1:], b[1:])
}

// guard refuses a rendered read that is the write it looks for: a request of any
// `match`, or what was recorded.
func (k writeGuard) guard(vars *variables, req Request) error {
	o := vars.rec.Operation
	switch {
	case req.Command != nil && o.Command != nil:
		keys := strings.NewReplacer("{{key}}", o.KeyToSend(), "{{token}}", o.Token)
		recorded := make([]string, len(o.Command.Argv))
		for i, a := range o.Command.Argv {
			recorded[i] = keys.Replace(a)
		}
		if sameCommand(req.Command.Argv, recorded) {
			return fmt.Errorf("%w: it is the very command that was recorded", errWouldWrite)
		}
	case req.HTTP != nil:
		return k.guardHTTP(vars, req.HTTP.URL)
	}
	return nil
}

func (k writeGuard) guardHTTP(vars *variables, address string) error {
	read := k.Read.transport.http.outgoing(address)
	if name := k.matched(read); name != "" {
		return fmt.Errorf("%w: %s is one by the `match` of %s", errWouldWrite, read, name)
	}
	if read.reads() || read.looks() {
		return nil
	}
	for _, recorded := range recordedRequests(vars.rec.Operation) {
		if read.same(recorded) {
			return fmt.Errorf("%w: %s is what was recorded", errWouldWrite, read)
		}
	}
	return nil
}

// recordedRequests are the requests that an operation is known to have sent: as a
// proxy recorded it, or as addresses on a command line.
func recordedRequests(o ledger.Operation) []outgoing {
	if r := o.Request; r != nil && r.Lost == "" {
		return []outgoing{recordedOutgoing(r)}
	}
	var in struct{ Method, Override, Path string }
	if json.Unmarshal(o.Input, &in) == nil && strings.HasPrefix(in.Path, "/") && in.Method != "" {
		if in.Override != "" {
			in.Method = in.Override
		}
		return []outgoing{{method: strings.ToUpper(in.Method), path: in.Path}}
	}
	var out []outgoing
	if o.Command != nil {
		for _, a := range o.Command.Argv {
			if u, err := url.Parse(a); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
				out = append(out, outgoing{method: http.MethodPost, host: u.Host, path: u.EscapedPath()})
			}
		}
	}
	return out
}

// recordedOutgoing is a recorded request with its words: of its query, its headers, and
// its body as JSON or a form.
func recordedOutgoing(r *ledger.Request) outgoing {
	at, _ := url.Parse(r.Origin + r.Target)
	q := outgoing{method: r.Method, says: map[string]string{}}
	if at != nil {
		q.host, q.path = at.Host, at.EscapedPath()
	}
	for name, values := range r.Header {
		q.header(name, strings.Join(values, ", "))
	}
	if doc := map[string]any{}; json.Unmarshal(r.Bytes(), &doc) == nil {
		for name, value := range doc {
			say(q.says, name, fmt.Sprint(value))
		}
		q.form(r.Target)
	} else {
		q.form(r.Target, "?"+r.Body)
	}
	return q.named()
}

// matched is the kind whose `match` says that a request is a write, "" for none.
// Where everything has one address, what the request says parts it from the write:
// that is compared with what was recorded.
func (k writeGuard) matched(read outgoing) string {
	if read.looks() || read.selects() {
		return ""
	}
	name, ok := k.policy.KindFor(read.method, read.host, read.path)
	if !ok || k.policy.kinds[name].Effect == "read" {
		return ""
	}
	return name
}

// outgoing is the part of an HTTP request that distinguishes reads from writes.
type outgoing struct {
	method string            // also where a header puts another one in its place
	host   string            // "" where it is not known
	path   string            // without query; hole for what is computed
	says   map[string]string // by which an interface with one address distinguishes its requests
}

// hole stands for a part that is computed.
const hole = "\x00"

func (q outgoing) String() string {
	return q.method + " " + q.host + strings.ReplaceAll(q.path, hole, "…")
}

// blank is the address as it is written, with holes.
func (h *httpRule) blank() string {
	text := h.path.Blank(hole)
	if h.base != nil {
		text = strings.TrimSuffix(h.base.Blank(hole), "/") + text
	}
	return text
}

func (h *httpRule) outgoing(address string) outgoing {
	place, query, _ := strings.Cut(address, "?")
	q := outgoing{method: h.method, says: spoken(h.query, h.json, h.form)}
	rest := place
	if _, after, ok := strings.Cut(place, "://"); ok {
		q.host, rest, _ = strings.Cut(after, "/")
		rest = "/" + rest
	} else if !strings.HasPrefix(place, "/") { // the host comes from the environment
		_, rest, _ = strings.Cut(place, "/")
		rest = "/" + rest
	}
	if strings.Contains(q.host, hole) {
		q.host = ""
	}
	q.path = rest
	q.form("?" + query)
	for _, p := range h.headers {
		q.header(p.name, p.value.Blank(hole))
	}
	return q.named()
}

// form notes what the queries of addresses say.
func (q *outgoing) form(addresses ...string) {
	for _, address := range addresses {
		_, query, _ := strings.Cut(address, "?")
		values, _ := url.ParseQuery(query)
		for name := range values {
			say(q.says, name, values.Get(name))
		}
	}
}

func (q *outgoing) header(name, value string) {
	switch name := strings.ToLower(name); name {
	case "x-amz-target", "soapaction":
		say(q.says, name, value)
	case "x-http-method-override", "x-http-method", "x-method-override":
		q.method = strings.ToUpper(strings.TrimSpace(value))
	}
}

// named is the request under the method that its words put in the place of its own.
func (q outgoing) named() outgoing {
	if m := q.says["_method"]; m != "" {
		q.method = strings.ToUpper(m)
	}
	return q
}

// selecting are the names under which interfaces with one address are told what to
// do, and rehearsing those by which they are told not to do it.
var (
	selecting  = map[string]bool{"action": true, "method": true, "operation": true, "operationname": true, "query": true, "cmd": true, "command": true, "_method": true, "x-amz-target": true, "soapaction": true}
	rehearsing = map[string]bool{"dryrun": true, "validateonly": true}
	mutation   = lazyregexp.New(`(?m)^\s*mutation\b`)
)

// spoken is what the given data say by their own words.
func spoken(data ...*expr.Tree) map[string]string {
	out := map[string]string{}
	for _, v := range data {
		if v == nil {
			continue
		}
		for _, e := range v.Entries {
			text, written := e.Value.Text.Beginning()
			switch {
			case written:
				say(out, e.Name, text)
			case e.Value.Literal != nil:
				say(out, e.Name, fmt.Sprint(e.Value.Literal))
			}
		}
	}
	return out
}

func say(says map[string]string, name, text string) {
	name = strings.ToLower(name)
	if plain := redact.PlainName(name); rehearsing[plain] {
		name = plain
	} else if !selecting[name] {
		return
	}
	if text != "" && !strings.Contains(text, hole) {
		says[name] = text
	}
}

// toldApart reports whether the words of a read distinguish it from a write.
func toldApart(read, write map[string]string) bool {
	for name, text := range read {
		other, both := write[name]
		if selecting[name] && both && other != text || rehearsing[name] && text != "false" && !both {
			return true
		}
	}
	return false
}

// looks reports whether a request says that it only reads.
func (q outgoing) looks() bool {
	text := strings.TrimSpace(q.says["query"])
	return q.says["dryrun"] != "" || q.says["validateonly"] != "" ||
		(strings.HasPrefix(text, "query") || strings.HasPrefix(text, "{")) && !mutation.MatchString(text)
}

// selects reports whether a request names what it asks for beside its address.
func (q outgoing) selects() bool {
	for name := range q.says {
		if selecting[name] {
			return true
		}
	}
	return false
}

func (q outgoing) reads() bool { return q.method == http.MethodGet || q.method == http.MethodHead }

// writes says why a request cannot be a read; "" where it may be one.
func (q outgoing) writes() string {
	switch {
	case strings.Contains(q.method, hole):
		return "a read does not say its method by something computed"
	case !q.reads() && q.method != http.MethodPost:
		return "a read does not " + q.method
	case mutation.MatchString(q.says["query"]):
		return "a read makes no mutation"
	}
	return ""
}

// same reports whether a read is the same request as a write. An unknown host is any.
func (q outgoing) same(write outgoing) bool {
	return q.reads() == write.reads() && (q.host == "" || write.host == "" || strings.EqualFold(q.host, write.host)) &&
		strings.TrimSuffix(q.path, "/") == strings.TrimSuffix(write.path, "/") && !toldApart(q.says, write.says)
}
