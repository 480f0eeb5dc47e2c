package outcome

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/wire/transmit"
)

// MaxJudged bounds what the outcome rule sees of an answer.
const MaxJudged = 1 << 20

var errCut = errors.New("the answer's JSON is cut")

// Readable is an HTTP answer without its Content-Encoding, which was not asked
// for. An answer that did not come whole has an error: its coding or its JSON value
// has no end. A body in an unknown coding is dropped.
func Readable(a ledger.Answer) ledger.Answer {
	if a.Status == 0 {
		return a
	}
	if transmit.Encoded(a.Header) && (len(a.Body) > 0 || a.Unframed) { // else it has none, as a 204
		plain, err := transmit.Decoded(a.Header, a.Body, MaxJudged)
		if errors.Is(err, transmit.ErrBroken) && !a.Truncated && a.Err == nil {
			a.Err, a.Class = err, ledger.ClassEOF
		}
		a.Header = http.Header(a.Header).Clone() // the caller gets it as it came
		delete(a.Header, "Content-Encoding")
		a.Body, a.Truncated = plain, a.Truncated || err != nil
	}
	mediaType, _, _ := mime.ParseMediaType(http.Header(a.Header).Get("Content-Type"))
	if a.Err == nil && !a.Truncated && IsJSON(mediaType) && cutJSON(a.Body, a.Unframed) {
		a.Err, a.Class, a.Truncated = errCut, ledger.ClassEOF, true
	}
	if a.Unframed && len(a.Body) > 0 && !json.Valid(a.Body) {
		a.Doubt = joined(a.Doubt, "it ended with the connection, and nothing says that this is all of it")
	}
	return a
}

// cutJSON reports whether a text is the beginning of JSON. A text that stops being
// JSON at some place was not cut, and says nothing.
func cutJSON(body []byte, unframed bool) bool {
	if len(bytes.TrimSpace(body)) == 0 {
		return unframed
	}
	if json.Valid(body) {
		return false
	}
	for dec := json.NewDecoder(bytes.NewReader(body)); ; {
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
}

// IsJSON reports whether a media type is one of JSON.
func IsJSON(mediaType string) bool {
	return mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")
}

// Recordable reports whether a body is JSON that can be part of an input.
func Recordable(body []byte) bool {
	in := json.RawMessage(append(append([]byte("[["), body...), "]]"...))
	if !json.Valid(body) || !json.Valid(in) { // it must not be too deep inside an input either
		return false
	}
	_, err := ledger.Fingerprint(in)
	return err == nil
}
