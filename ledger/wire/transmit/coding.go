package transmit

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"net/http"
	"strings"
)

// Encoded reports whether a body is not what its Content-Type says, but something
// that has to be decoded first.
func Encoded(h http.Header) bool {
	for _, v := range h.Values("Content-Encoding") {
		for _, c := range strings.Split(v, ",") {
			if c = strings.ToLower(strings.TrimSpace(c)); c != "" && c != "identity" {
				return true
			}
		}
	}
	return false
}

// Why a body could not be decoded.
var (
	ErrCoding = errors.New("its coding cannot be undone here")
	ErrBroken = errors.New("the answer's coding is broken: it was cut on the way, or changed")
)

// Decoded undoes a body's Content-Encoding: what is compressed cannot be judged,
// and a secret in it would be stored unseen. It errs with ErrCoding for a coding
// that is not known and for more than limit bytes, and with ErrBroken, beside
// what could be read, for what does not come to its end.
func Decoded(h http.Header, body []byte, limit int64) ([]byte, error) {
	if !Encoded(h) {
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
		return nil, ErrCoding
	}
	if err != nil {
		return nil, ErrBroken
	}
	plain, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case int64(len(plain)) > limit:
		return nil, ErrCoding
	case err != nil || in.Len() > 0:
		return plain, ErrBroken
	}
	return plain, nil
}
