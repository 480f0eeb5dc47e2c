package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"indoubt/ledger"
)

// errWouldWrite refuses a read that is a write: a check would repeat the operation.
var errWouldWrite = errors.New("the check would be a write")

// lintReads refuses what is no read by its form and is not said to be one. A file with
// other problems may lack parts that are looked at here.
func (d fileDecoder) lintReads() {
	if len(d.problems) > 0 {
		return
	}
	for _, k := range d.policy.order {
		if k.Read == nil {
			continue
		}
		at := k.said("read").below("read")
		if why := k.Read.writingTool(); why != "" {
			d.fail(at, why, "the check would be one more write: read by another tool")
		}
		if why := k.Read.unlikeARead(); why != "" && !k.Read.readOnly {
			d.fail(at, why+", and nothing says that it only reads",
				"say read_only: true, where you know that it changes nothing; else read by get")
		}
	}
}

// overriding are the headers and the field by which one method stands for another.
var overriding = []string{"x-http-method-override", "x-http-method", "x-method-override", "_method"}

// unlikeARead says why the kind's read may change something, by its form: what it is
// about, no one can tell from its address. "" for GET, and for what is not HTTP: of a
// tool its server tells, and a statement runs in a transaction that only reads.
func (r *Read) unlikeARead() string {
	h, http := r.way.(*httpRule)
	if !http {
		return ""
	}
	if h.method != "GET" {
		return "asks by " + strings.ToLower(h.method)
	}
	named := strings.FieldsFunc(h.path.Text, func(r rune) bool { return strings.ContainsRune("?&=", r) })
	for _, p := range h.headers {
		named = append(named, p.name)
	}
	if h.query != nil {
		for _, e := range h.query.Entries {
			named = append(named, e.Name)
		}
	}
	for _, name := range named {
		if slices.Contains(overriding, strings.ToLower(name)) {
			return "names another method by " + name
		}
	}
	k := r.kind
	for _, other := range k.policy.order {
		sameSide := k.Downstream == nil || other.Downstream == nil || k.Downstream == other.Downstream
		byGet := slices.ContainsFunc(other.Match, func(m Match) bool { return slices.Contains(m.Methods, "GET") })
		if byGet && sameSide && other.Effect != "read" {
			return fmt.Sprintf("asks by get, by which %s writes", other.Pattern)
		}
	}
	return ""
}

// writingTool says of which kind the read's tool is, where that writes; "" for none.
func (r *Read) writingTool() string {
	m, mcp := r.way.(*mcpRule)
	if !mcp || m.server == nil {
		return ""
	}
	for _, other := range r.kind.policy.order {
		if m.callsFor(other, other == r.kind) {
			return fmt.Sprintf("calls the tool %s of %s, which writes", m.tool, other.Pattern)
		}
	}
	return ""
}

// callsFor reports whether a kind is the calls of the tool, by its name, and not said to
// read. The kind that the read is of may name the server in its own way.
func (m *mcpRule) callsFor(k *Kind, own bool) bool {
	if k.Effect == "read" || !strings.HasPrefix(k.Pattern, "mcp.") || !strings.HasSuffix(k.Pattern, "."+m.tool) {
		return false
	}
	writes := k.Effect.Access() == "write" || k.Read != nil || k.Resend == ResendHere || k.Token.Stated()
	return own || writes && k.Pattern == "mcp."+m.server.Name+"."+m.tool
}

// refuseRecorded refuses a check that is the very command that was recorded; the program
// may be named by any path.
func refuseRecorded(req Request, o ledger.Operation) error {
	if req.Command == nil || o.Command == nil || len(req.Command.Argv) != len(o.Command.Argv) {
		return nil
	}
	keys := strings.NewReplacer("{{key}}", o.KeyToSend(), "{{token}}", o.Token)
	for i, a := range o.Command.Argv {
		was, is := keys.Replace(a), req.Command.Argv[i]
		if is != was && (i > 0 || path.Base(is) != path.Base(was)) {
			return nil
		}
	}
	return fmt.Errorf("%w: it is the very command that was recorded", errWouldWrite)
}
