package outcome

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/textproto"
	"slices"
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
			if what := jsonSaysError(said); what != "" && json.Valid(said) { // lines of a tool are its log
				return what
			}
			if failedWords.Match(said) {
				return "its text begins like an error"
			}
		}
		return ""
	}
	if a.Status != 0 {
		kind, _, _ := mime.ParseMediaType(http.Header(a.Header).Get("Content-Type"))
		if what := grpcSaysError(kind, a); what != "" {
			return what
		}
		switch {
		case isPage(rec, a):
			return "a page of HTML came to a request in JSON"
		case kind == "text/event-stream":
			return streamSaysError(a.Body)
		}
	}
	if said := bytes.TrimPrefix(Said(a), []byte("\ufeff")); bytes.HasPrefix(bytes.TrimSpace(said), []byte("<")) {
		return xmlSaysError(said)
	} else if a.Status == 0 && !json.Valid(said) { // lines that a command writes are its log
		return ""
	} else {
		return jsonSaysError(said)
	}
}

// grpcSaysError reads the status of gRPC, which stands in a header, behind the body, or, on the
// web, in the last frame of the body. An answer of gRPC without one is not whole.
func grpcSaysError(kind string, a ledger.Answer) string {
	said := textproto.MIMEHeader(a.Header)
	if body := a.Body; strings.HasPrefix(kind, "application/grpc-web") && said.Get("Grpc-Status") == "" {
		if strings.HasPrefix(kind, "application/grpc-web-text") { // pieces of base64
			body = nil
			for piece := range slices.Chunk(bytes.TrimSpace(a.Body), 4) {
				body, _ = base64.StdEncoding.AppendDecode(body, piece)
			}
		}
		for len(body) >= 5 && uint64(binary.BigEndian.Uint32(body[1:])) <= uint64(len(body)-5) {
			end := 5 + int(binary.BigEndian.Uint32(body[1:]))
			if body[0]&0x80 != 0 {
				fields := io.MultiReader(bytes.NewReader(body[5:end]), strings.NewReader("\r\n"))
				said, _ = textproto.NewReader(bufio.NewReader(fields)).ReadMIMEHeader()
			}
			body = body[end:]
		}
	}
	switch code := strings.TrimSpace(said.Get("Grpc-Status")); {
	case code == "" && strings.HasPrefix(kind, "application/grpc") && !a.Truncated:
		return "it is gRPC without a grpc-status"
	case code != "" && code != "0":
		return joined("it says grpc-status "+code, said.Get("Grpc-Message"))
	}
	return ""
}

// isPage reports whether a page of HTML came to a request in JSON: from something that stands
// before the application, and does not know what that has done.
func isPage(rec ledger.Record, a ledger.Answer) bool {
	kind, _, _ := mime.ParseMediaType(http.Header(a.Header).Get("Content-Type"))
	return kind == "text/html" && asksInJSON(rec)
}

// jsonSaysError reads the forms in which well-known interfaces put an error into a
// success: JSON-RPC, GraphQL, JSend, Slack, Elasticsearch; one of several answers, too, in
// a list or in lines.
func jsonSaysError(said []byte) (what string) {
	for dec := json.NewDecoder(bytes.NewReader(said)); ; {
		var one json.RawMessage
		switch err := dec.Decode(&one); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // cut at what is kept
			return what
		case err != nil: // it is text
			return ""
		}
		several := []json.RawMessage{one}
		_ = json.Unmarshal(one, &several)
		for _, one := range several {
			what = cmp.Or(what, objectSaysError(one))
		}
	}
}

func objectSaysError(said []byte) string {
	var m struct{ OK, Success, Error, Errors, Status, Message, Data, ID json.RawMessage } // however their letters are written
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
	case filled(m.ID): // the status of a thing is its own
	case string(m.Status) == `"error"` && m.Message != nil, string(m.Status) == `"fail"` && m.Data != nil: // JSend
		return "it says status: " + string(m.Status)
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
