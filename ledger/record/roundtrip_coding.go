package record

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"indoubt/ledger"
)

// encoded reports whether a body is not what its Content-Type says, but something
// that has to be decoded first.
func encoded(h http.Header) bool {
	for _, v := range h.Values("Content-Encoding") {
		for _, c := range strings.Split(v, ",") {
			if c = strings.ToLower(strings.TrimSpace(c)); c != "" && c != "identity" {
				return true
			}
		}
	}
	return false
}

var (
	errCoding = errors.New("its coding cannot be undone here")
	errBroken = errors.New("the answer's coding is broken: it was cut on the way, or changed")
	errCut    = errors.New("the answer's JSON is cut")
)

// decoded undoes a body's Content-Encoding: what is compressed cannot be judged,
// and a secret in it would be stored unseen. It errs with errCoding for a coding
// that is not known and for more than limit bytes, and with errBroken, beside
// what could be read, for what does not come to its end.
func decoded(h http.Header, body []byte, limit int64) ([]byte, error) {
	if !encoded(h) {
		return body, nil
	}
	var r io.Reader
	var err error
	in := bytes.NewReader(body)
	switch strings.ToLower(strings.TrimSpace(strings.Join(h.Values("Content-Encoding"), ","))) {
	case "gzip", "x-gzip":
		r, err = gzip.NewReader(in)
	case "deflate":
		if r, err = zlib.NewReader(in); errors.Is(err, zlib.ErrHeader) { // many leave its frame out
			in.Reset(body)
			r, err = flate.NewReader(in), nil
		}
	default:
		return nil, errCoding
	}
	if err != nil {
		return nil, errBroken
	}
	plain, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case int64(len(plain)) > limit:
		return nil, errCoding
	case err != nil || in.Len() > 0:
		return plain, errBroken
	}
	return plain, nil
}

// readable is an HTTP answer without its Content-Encoding, which nobody had asked
// for. One that shows that it did not come whole has an error: a coding or a JSON
// value without an end. Of a body in a coding that is not known nothing is kept.
func readable(a ledger.Answer) ledger.Answer {
	if a.Status == 0 {
		return a
	}
	if encoded(a.Header) && (len(a.Body) > 0 || a.Unframed) { // else it has none, as a 204
		plain, err := decoded(a.Header, a.Body, maxJudged)
		if errors.Is(err, errBroken) && !a.Truncated && a.Err == nil {
			a.Err, a.Class = err, ledger.ClassEOF
		}
		a.Header = http.Header(a.Header).Clone() // the caller gets it as it came
		delete(a.Header, "Content-Encoding")
		a.Body, a.Truncated = plain, a.Truncated || err != nil
	}
	mediaType, _, _ := mime.ParseMediaType(http.Header(a.Header).Get("Content-Type"))
	if a.Err == nil && !a.Truncated && isJSON(mediaType) && cutJSON(a.Body, a.Unframed) {
		a.Err, a.Class, a.Truncated = errCut, ledger.ClassEOF, true
	}
	return a
}

// cutJSON reports whether a text is the beginning of JSON. What is no JSON from
// some place on was not cut, and says nothing.
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
