package policy

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"indoubt/ledger"
	"indoubt/policy/expr"
)

// againRule sends an HTTP request again as it was recorded, with its token, and with
// the credentials of the downstream.
type againRule struct {
	at      place
	base    *expr.Template // of where it may go
	headers []pair
}

// again is how an operation's recorded request is sent: where the policy says so,
// and by a kind that sees only a part of it, because what is made of a part is
// another request. It is nil where what is sent is made of the input.
func (s *Send) again(o ledger.Operation) *transport {
	t := transport{again: s.transport.again, secrets: s.transport.secrets}
	if h := s.transport.http; h != nil && s.kind.views(o) {
		t.again = &againRule{h.at, h.base, h.headers}
		if h.base == nil {
			t.again.base = h.path // a whole address
		}
	}
	if t.again == nil {
		return nil
	}
	return &t
}

func (a *againRule) questions() []*expr.Template { return nil }
func (a *againRule) headerPairs() []pair         { return a.headers }

func (a *againRule) render(r *rendering) Request {
	o := r.vars.rec.Operation
	was := o.Request
	switch {
	case was == nil:
		r.Fail(&NotKeptError{"no HTTP request was recorded for it, so what to send is not kept"})
		return Request{}
	case was.Lost != "":
		r.Fail(&NotKeptError{"it cannot be sent from here: " + was.Lost})
		return Request{}
	}
	out := &HTTPRequest{Method: was.Method, URL: was.Origin + was.Target, Body: was.Bytes(), Header: r.headers(a.headers)}
	for name, values := range was.Header {
		out.Header[http.CanonicalHeaderKey(name)] = values
	}
	if r.keyHeader != "" {
		out.Header[http.CanonicalHeaderKey(r.keyHeader)] = []string{o.Key}
	}
	if r.Show && !utf8.Valid(out.Body) {
		out.Body = fmt.Appendf(nil, "[%d bytes, SHA-256 %x]", len(out.Body), sha256.Sum256(out.Body))
	}
	a.goesBack(r, out)
	for _, name := range was.Withheld {
		if out.Header[name] == nil {
			r.At("").Fail(&NotKeptError{fmt.Sprintf("its header %s is not kept, and the downstream's headers do not say it", name)})
		}
	}
	return Request{HTTP: out}
}

// goesBack makes sure that a request goes to its recorded origin, and adds the
// credential from the address of the downstream.
func (a *againRule) goesBack(r *rendering, out *HTTPRequest) {
	base := r.base(a.base)
	if r.Err() != nil {
		return
	}
	at, err := url.Parse(base)
	switch {
	case r.Show: // a secret's name in it does not parse
	case err != nil:
		r.Fail(fmt.Errorf("it is not an http address"))
	case !sameOrigin(at, r.vars.rec.Operation.Request.Origin):
		r.At("").Fail(fmt.Errorf("it was sent to %s, which is not where its downstream is", r.vars.rec.Operation.Request.Origin))
	}
	if strings.Contains(base, "@") && out.Header["Authorization"] == nil {
		out.Header["Authorization"] = []string{Withheld}
		if !r.Show && at != nil && at.User != nil {
			credential := &http.Request{Header: http.Header{}}
			password, _ := at.User.Password()
			credential.SetBasicAuth(at.User.Username(), password)
			out.Header["Authorization"] = credential.Header["Authorization"]
		}
	}
}

// sameOrigin compares an address with an origin as it is recorded.
func sameOrigin(at *url.URL, origin string) bool {
	o, err := url.Parse(origin)
	return err == nil && strings.EqualFold(at.Scheme, o.Scheme) && strings.EqualFold(at.Hostname(), o.Hostname()) && portOf(at) == portOf(o)
}

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	return map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
}

// keyOf is the key that a recorded request holds, bare or as a structured string.
func keyOf(r *ledger.Request) string {
	values := http.Header(r.Header)["Idempotency-Key"]
	if len(values) != 1 {
		return ""
	}
	if key, err := strconv.Unquote(values[0]); err == nil {
		return key
	}
	return values[0]
}
