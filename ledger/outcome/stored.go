package outcome

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"unicode/utf8"

	"indoubt/ledger"
)

// StoredAnswer is how an HTTP answer is kept as the result of an operation: as
// much of it as a repeat needs. The body is in the one member of JSON, Text and
// Base64 that holds it byte for byte, with After behind it.
type StoredAnswer struct {
	Status int                 `json:"status"`
	Header map[string][]string `json:"headers,omitempty"` // those of keptHeaders
	// Kept says that this is not the whole answer: "part" when the body was too
	// long or broke off, "redacted" when a secret was taken out of it.
	Kept   string          `json:"kept,omitempty"`
	JSON   json.RawMessage `json:"json,omitempty"`
	Text   string          `json:"text,omitempty"`
	Base64 []byte          `json:"base64,omitempty"`
	After  string          `json:"after,omitempty"` // white space behind the JSON
}

// keptHeaders are the headers of an answer that a repeat gets again.
var keptHeaders = []string{
	"Allow", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Location", "Content-Type",
	"Etag", "Last-Modified", "Link", "Location", "Preference-Applied", "Retry-After", "Vary", "Www-Authenticate",
}

const maxKeptHeader = 8 << 10 // bytes of all of them

// Stored is what is kept of an answer, within MaxResult.
func Stored(a ledger.Answer, secrets []string) json.RawMessage {
	s := StoredAnswer{Status: a.Status, Header: map[string][]string{}}
	if a.Truncated || a.Err != nil {
		s.Kept = "part"
	}
	size := 0
	for _, name := range keptHeaders {
		for _, v := range a.Header[name] {
			if size += len(name) + len(v); size > maxKeptHeader || !utf8.ValidString(v) { // JSON would change it
				s.Kept = "part"
				continue
			}
			s.Header[name] = append(s.Header[name], v)
		}
	}
	s.setBody(a.Body)
	out := s.encoded()
	if len(out) > MaxResult {
		s.Kept = "part"
		s.setBody([]byte(Clip(string(bytes.ToValidUTF8(a.Body, []byte("\uFFFD"))), MaxResult/2, false)))
		if out = s.encoded(); len(out) > MaxResult { // of characters that take six bytes each
			s.setBody([]byte(Clip(s.Text, MaxResult/8, false)))
			out = s.encoded()
		}
	}
	if s.Kept == "" && !bytes.Equal(TidyResult(out, secrets), out) {
		s.Kept = "redacted"
		out = s.encoded()
	}
	return out
}

// encoded is the JSON of it, with the body's own JSON untouched, which
// json.Marshal would compact.
func (s StoredAnswer) encoded() json.RawMessage {
	body := s.JSON
	s.JSON = nil
	out := ledger.EncodeJSON(s)
	if len(body) == 0 {
		return out
	}
	out = append(out[:len(out)-1], `,"json":`...)
	return append(append(out, body...), '}')
}

func (s *StoredAnswer) setBody(body []byte) {
	s.JSON, s.Text, s.Base64, s.After = nil, "", nil, ""
	trimmed := bytes.TrimRight(body, " \t\r\n")
	switch {
	case len(body) == 0:
	case len(trimmed) > 0 && len(trimmed) <= MaxResult && utf8.Valid(trimmed) && bytes.Equal(bytes.TrimSpace(trimmed), trimmed) && Recordable(trimmed):
		s.JSON, s.After = trimmed, string(body[len(trimmed):])
	case utf8.Valid(body):
		s.Text = string(body)
	default:
		s.Base64 = body
	}
}

// Bytes is the body as it came.
func (s StoredAnswer) Bytes() []byte {
	switch {
	case len(s.JSON) > 0:
		return append(bytes.Clone(s.JSON), s.After...)
	case s.Text != "":
		return []byte(s.Text)
	}
	return s.Base64
}

// WholeAnswer is the answer that ended an operation, nil when it is not kept whole:
// the newest attempt's that says what the operation's state says.
func WholeAnswer(rec ledger.Record) *StoredAnswer {
	o := rec.Operation
	for i := len(rec.Attempts) - 1; i >= 0; i-- {
		a := rec.Attempts[i]
		switch {
		case o.State == ledger.Committed && a.Final() == ledger.OutcomeCommitted:
		case o.State == ledger.Failed && i == len(rec.Attempts)-1 && a.Outcome == ledger.OutcomeFailed && a.Proof == ledger.Refused:
		default:
			continue
		}
		dec := json.NewDecoder(bytes.NewReader(a.Result))
		dec.DisallowUnknownFields()
		var s StoredAnswer
		if dec.Decode(&s) != nil || s.Kept != "" || s.Status < 200 || s.Status > 599 || s.Status != a.Status && a.LateOutcome == "" {
			return nil
		}
		if _, err := dec.Token(); err != io.EOF {
			return nil
		}
		return &s
	}
	return nil
}

// FoundAnswer is what a check gave for an operation that no answer of its own
// settled: the effect that was found, or what the kind's policy makes of it. It is
// nil where nothing was found, or something disagrees.
func FoundAnswer(rec ledger.Record) *StoredAnswer {
	o := rec.Operation
	doubtful := o.Conflict == ledger.ConflictDisputed || o.Conflict == ledger.ConflictDifferent
	if o.State != ledger.Committed || len(o.Result) == 0 || doubtful ||
		slices.ContainsFunc(rec.Attempts, func(a ledger.Attempt) bool { return a.Final() == ledger.OutcomeCommitted }) {
		return nil
	}
	return &StoredAnswer{Status: http.StatusOK, Header: map[string][]string{"Content-Type": {"application/json"}}, JSON: o.Result}
}

// overHTTP reports whether a client waits for the answers to an operation over HTTP:
// they are kept as it gets them, also those to a retry that another program makes.
func overHTTP(rec ledger.Record) bool {
	return len(rec.Attempts) > 0 && rec.Attempts[0].Sender == "http"
}
