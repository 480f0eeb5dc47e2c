package ledgertest

import (
	"bytes"
	"reflect"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// asked follows what is kept of how an operation was asked for: to the byte, and
// for good.
func asked(t *testing.T, open Open) {
	d := newDesk(t, open)
	command := &ledger.Command{Argv: []string{"deploy", "--key={{key}}", "${HOME}"}, Dir: "/srv", Expand: map[string]string{"HOME": "a digest"}}
	text := &ledger.Request{Method: "PATCH", Origin: "https://api.example.com:8443", Target: "/a%2Fb?x=%7e&x", Header: map[string][]string{"Content-Type": {"text/plain"}, "Prefer": {"a", "b"}},
		Withheld: []string{"Authorization"}, Body: " {\"a\": 1.0,\r\n\"b\":\"<é\u2028\\u003c\"}"}
	bytesOnly := &ledger.Request{Method: "PUT", Origin: "http://h", Target: "/", Binary: []byte{0, 0xff, '"'}}
	lost := &ledger.Request{Method: "POST", Origin: "http://h", Lost: "it is too long"}
	for key, asked := range map[string]struct {
		command *ledger.Command
		request *ledger.Request
	}{"command": {command, nil}, "text": {nil, text}, "bytes": {nil, bytesOnly}, "lost": {nil, lost}, "neither": {}} {
		o := d.doubt(key, func(r *ledger.BeginRequest) { r.Command, r.Request = asked.command, asked.request })
		again := d.begin(key, func(r *ledger.BeginRequest) { r.Request = &ledger.Request{Method: "GET", Origin: "http://else"} }).Operation
		for _, kept := range []ledger.Operation{o, again, d.read(o.ID).Operation} {
			need.That(d, reflect.DeepEqual(kept.Command, asked.command) && reflect.DeepEqual(kept.Request, asked.request), "%s: kept as %+v %+v", key, kept.Command, kept.Request)
		}
	}
	need.That(d, bytes.Equal(text.Bytes(), []byte(text.Body)) && bytes.Equal(bytesOnly.Bytes(), bytesOnly.Binary) && len(lost.Bytes()) == 0, "the bytes of a body are others")
}
