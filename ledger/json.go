package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// EncodeJSON writes a value as compact JSON, without escapes for HTML. It is nil for a
// value that has no JSON.
func EncodeJSON(v any) json.RawMessage {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return nil
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// DecodeJSON reads one JSON value, with its numbers as they are written.
func DecodeJSON(b []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}
