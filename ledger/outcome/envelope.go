package outcome

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
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
		case kind == "text/event-stream":
			return streamSaysError(a.Body)
		}
	}
	if said := bytes.TrimPrefix(Said(a), []byte("\ufeff")); bytes.HasPrefix(bytes.TrimSpace(said), []byte("<")) {
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
// success: JSON-RPC, GraphQL, Slack, Elasticsearch; one of several answers, too.
func jsonSaysError(said []byte) string {
	var several []json.RawMessage
	if json.Unmarshal(said, &several) != nil {
		return objectSaysError(said)
	}
	for _, one := range several {
		if what := objectSaysError(one); what != "" {
			return what
		}
	}
	return ""
}

func objectSaysError(said []byte) string {
	var m struct{ OK, Success, Error, Errors json.RawMessage } // however their letters are written
	if json.Unmarshal(said, &m) != nil {
		return ""
	}
	switch {
	case isNo(m.OK):
		return "it says ok: false"
	case isNo(m.Success):
		return "it says success: false"
	case filled(m.Error):
		return "it has error"
	case filled(m.Errors):
		return "it has errors"
	}
	return ""
}

func isNo(member json.RawMessage) bool {
	switch string(member) {
	case "false", "0", `"false"`:
		return true
	}
	return false
}

// filled reports whether a member says something: neither null, false, 0 nor empty.
func filled(member json.RawMessage) bool {
	switch string(member) {
	case "", "null", `""`, "{}", "[]":
		return false
	}
	return !isNo(member)
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

// streamSaysError reads an event stream: an event that is named error, or whose data is one.
func streamSaysError(stream []byte) string {
	for line := range bytes.Lines(stream) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch value = bytes.TrimSpace(value); string(name) {
		case "event":
			if string(value) == "error" {
				return "its stream has an event named error"
			}
		case "data":
			if what := jsonSaysError(value); what != "" {
				return "in its stream " + what
			}
		}
	}
	return ""
}

// asksInJSON reports whether a request that a proxy recorded had a body of JSON.
func asksInJSON(rec ledger.Record) bool {
	kind, _, _ := mime.ParseMediaType(textMember(members(rec.Operation.Input), "content_type"))
	return IsJSON(kind)
}
