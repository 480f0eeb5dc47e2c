package outcome

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

func packed(t *testing.T, to func(io.Writer) io.WriteCloser, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := to(&b)
	need.Get(io.WriteString(w, text))(t)
	need.OK(t, w.Close())
	return b.String()
}

// TestI2_ACutBodyIsUncertain: an answer whose body shows that it did not come
// whole proves nothing, whatever its status says.
func TestI2_ACutBodyIsUncertain(t *testing.T) {
	const body = `{"id":"e1","items":[1,2,{"a":"b"}],"pad":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}`
	asGzip := packed(t, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }, body)
	asZlib := packed(t, func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }, body)
	asRaw := packed(t, func(w io.Writer) io.WriteCloser { f, _ := flate.NewWriter(w, 9); return f }, body)
	type answer struct {
		contentType, coding, body string
		unframed, ours            bool // ours: it is longer than what is kept
		whole                     bool
	}
	cases := map[string]answer{
		"whole":                               {body: body, whole: true},
		"gzip":                                {coding: "gzip", body: asGzip, whole: true},
		"deflate":                             {coding: "deflate", body: asZlib, whole: true},
		"deflate without its frame":           {coding: "deflate", body: asRaw, whole: true},
		"a coding that is not known":          {coding: "br", body: "\x0b\x02", whole: true},
		"two codings":                         {coding: "gzip, br", body: "\x0b\x02", whole: true},
		"no body":                             {coding: "gzip", whole: true},
		"JSON lines":                          {body: "{\"a\":1}\n{\"a\":2}\n", whole: true},
		"no JSON":                             {body: "OK", whole: true},
		"half of a text":                      {contentType: "text/plain", body: `{"id":`, whole: true},
		"half of it, because it is long":      {body: body[:20], ours: true, whole: true},
		"half a gzip, because it is long":     {coding: "gzip", body: asGzip[:20], ours: true, whole: true},
		"more than is kept, in gzip":          {coding: "gzip", body: packed(t, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }, strings.Repeat(" ", 2<<20)), whole: true},
		"JSON lines, the last one cut":        {body: "{\"a\":1}\n{\"a\":"},
		"a cut literal":                       {body: "tru"},
		"gzip with something behind it":       {coding: "gzip", body: asGzip + "x"},
		"gzip that is something else":         {coding: "gzip", body: body},
		"gzip with another sum":               {coding: "gzip", body: asGzip[:len(asGzip)-8] + "12345678"},
		"gzip of half a JSON":                 {coding: "gzip", body: packed(t, func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }, body[:20])},
		"a problem that is cut":               {contentType: "application/problem+json", body: body[:20]},
		"nothing before the connection ended": {unframed: true},
		"no byte of a gzip":                   {coding: "gzip", contentType: "text/plain", unframed: true},
	}
	for at := 1; at < len(body); at++ {
		cases["JSON cut at "+body[:at]] = answer{body: body[:at]}
	}
	for at := 1; at < len(asGzip); at++ {
		cases["gzip cut at "+string(rune('0'+at))] = answer{coding: "gzip", body: asGzip[:at]}
	}
	for at := 1; at < len(asZlib); at++ {
		cases["deflate cut at "+string(rune('0'+at))] = answer{coding: "deflate", body: asZlib[:at]}
	}
	for name, c := range cases {
		for status, want := range map[int]ledger.Outcome{200: ledger.OutcomeCommitted, 422: ledger.OutcomeFailed} {
			header := map[string][]string{"Content-Type": {"application/json; charset=utf-8"}}
			if c.contentType != "" {
				header["Content-Type"] = []string{c.contentType}
			}
			if c.coding != "" {
				header["Content-Encoding"] = []string{c.coding}
			}
			if !c.whole {
				want = ledger.OutcomeUncertain
			}
			a := ledger.Answer{Via: "http", Sent: true, Status: status, Header: header, Body: []byte(c.body), Unframed: c.unframed, Truncated: c.ours}
			s := Judge(t.Context(), nil, ledger.Record{}, a)
			if s.Outcome != want || want == ledger.OutcomeUncertain && s.ErrorClass != ledger.ClassEOF {
				t.Errorf("%s: %d is %s (%q), want %s: %s", name, status, s.Outcome, s.ErrorClass, want, s.Error)
			}
		}
	}
}

// TestI10_DeepJSONIsKeptAsText: SQLite takes no JSON that is nested a thousand deep,
// and an outcome that cannot be written is a doubt for nothing.
func TestI10_DeepJSONIsKeptAsText(t *testing.T) {
	deep := strings.Repeat("[", 1500) + strings.Repeat("]", 1500)
	for name, a := range map[string]ledger.Answer{
		"a command's": {Via: "command", Sent: true, Exited: true, Stdout: []byte(deep)},
		"HTTP":        {Via: "http", Sent: true, Status: 200, Body: []byte(deep)},
		"a tool's":    {Via: "mcp", Sent: true, RPC: &ledger.RPCAnswer{Result: []byte(`{"content":` + deep + `}`)}},
	} {
		s := Judge(t.Context(), nil, ledger.Record{}, a)
		need.That(t, s.Outcome == ledger.OutcomeCommitted && len(s.Result) != 0 && !ledger.TooDeep(s.Result), "%s: %s, %.30s", name, s.Outcome, s.Result)
	}
	kept := Stored(ledger.Answer{Status: 200, Body: []byte(deep)}, nil)
	need.That(t, !ledger.TooDeep(kept) && strings.Contains(string(kept), deep), "%.60s", kept)
	_, err := ledger.Fingerprint([]byte(deep))
	need.That(t, errors.Is(err, ledger.ErrTooDeep), "%v", err)
	_, err = ledger.Fingerprint([]byte(`{"a":"` + strings.Repeat(`[\"`, 600) + `"}`))
	need.That(t, err == nil, "brackets in a text: %v", err)
}
