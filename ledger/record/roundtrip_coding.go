package record

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"strings"
)

// encoded tells whether a body is not what its Content-Type says, but something
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

// decoded undoes a body's Content-Encoding: what is compressed cannot be judged,
// and a secret in it would be stored unseen. It reports false for a coding that is
// not known, for what is broken, and for more than limit bytes.
func decoded(h http.Header, body []byte, limit int64) ([]byte, bool) {
	if !encoded(h) {
		return body, true
	}
	var r io.Reader
	var err error
	in := bytes.NewReader(body)
	switch strings.ToLower(strings.TrimSpace(strings.Join(h.Values("Content-Encoding"), ","))) {
	case "gzip", "x-gzip":
		r, err = gzip.NewReader(in)
	case "deflate":
		r, err = zlib.NewReader(in)
	default:
		return nil, false
	}
	if err != nil {
		return nil, false
	}
	plain, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil || int64(len(plain)) > limit || in.Len() > 0 {
		return nil, false
	}
	return plain, true
}
