package outcome

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
)

// classSaysError is an answer that looks like a success and says error inside.
const classSaysError ledger.ErrorClass = "says_error"

// failedWords begin the text of a tool that failed and did not say isError.
var failedWords = lazyregexp.New(`(?i)^[^\w{"\[]*(?:error|(?:[a-z]+ ){0,2}failed|failure|exception|traceback)\b`)

// saysError is what a success says is wrong, "" where it says nothing of the kind: such
// an answer proves neither that there was an effect nor that there was none. The kind's
// own rules come first. rec is what was asked.
func saysError(rec ledger.Record, a ledger.Answer) string {
	if a.RPC != nil {
		for _, said := range spoken(a.RPC) {
			if what := jsonSaysError(said); what != "" {
				return what
			}
			if failedWords.Match(said) {
				return "its text begins like an error"
			}
		}
		return ""
	}
	if a.Status != 0 {
		header := http.Header(a.Header)
		if code := strings.TrimSpace(header.Get("Grpc-Status")); code != "" && code != "0" {
			return joined("it says grpc-status "+code, header.Get("Grpc-Message"))
		}
		switch kind, _, _ := mime.ParseMediaType(header.Get("Content-Type")); {
		case isPage(rec, a):
			return "a page of HTML came to a request in JSON"
		case kind == "text/event-stream" && hasErrorEvent(a.Body):
			return "its stream has an event named error"
		}
	}
	if said := Said(a); bytes.HasPrefix(bytes.TrimSpace(said), []byte("<")) {
		return xmlSaysError(said)
	} else {
		return jsonSaysError(said)
	}
}

// isPage reports whether a page of HTML came to a request in JSON: from something that stands
// before the application, and does not know what that has done.
func isPage(rec ledger.Record, a ledger.Answer) bool {
	kind, _, _ := mime.ParseMediaType(http.Header(a.Header).Get("Content-Type"))
	return kind == "text/html" && asksInJSON(rec)
}

// jsonSaysError reads the forms in which well-known interfaces put an error into a
// success: JSON-RPC, GraphQL, Slack, Elasticsearch.
func jsonSaysError(said []byte) string {
	m := members(said)
	for _, name := range []string{"ok", "success"} {
		if string(m[name]) == "false" {
			return fmt.Sprintf("it says %s: false", name)
		}
	}
	for _, name := range []string{"error", "errors"} {
		if filled(m[name]) {
			return "it has " + name
		}
	}
	return ""
}

// filled reports whether a member says something: neither null, false, 0 nor empty.
func filled(member json.RawMessage) bool {
	switch text := string(bytes.TrimSpace(member)); text {
	case "", "null", "false", "0", `""`, "{}", "[]":
		return false
	}
	return true
}

// xmlSaysError reports an answer that is an Error or a Fault, alone or in the body of a
// SOAP envelope.
func xmlSaysError(said []byte) string {
	dec := xml.NewDecoder(bytes.NewReader(said))
	dec.Strict = false
	for range 64 {
		token, err := dec.Token()
		if err != nil {
			return ""
		}
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		switch element.Name.Local {
		case "Error", "Fault":
			return "it is an XML " + element.Name.Local
		case "Envelope", "Body":
		case "Header":
			if dec.Skip() != nil {
				return ""
			}
		default:
			return ""
		}
	}
	return ""
}

// hasErrorEvent reports whether an event stream tells of an error.
func hasErrorEvent(stream []byte) bool {
	for line := range bytes.Lines(stream) {
		if name, is := bytes.CutPrefix(line, []byte("event:")); is && string(bytes.TrimSpace(name)) == "error" {
			return true
		}
	}
	return false
}

// asksInJSON reports whether a request that a proxy recorded had a body of JSON.
func asksInJSON(rec ledger.Record) bool {
	kind, _, _ := mime.ParseMediaType(textMember(members(rec.Operation.Input), "content_type"))
	return IsJSON(kind)
}
