package transport

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/policy/expr"
	"indoubt/policy/file"
)

var headerName = file.Short("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", 100)

type HTTP struct {
	At      file.Place
	Method  string
	base    *expr.Template // of the downstream; nil when path is a whole address
	Path    *expr.Template
	pathAt  file.Place
	Query   *expr.Tree
	JSON    *expr.Tree
	Form    *expr.Tree
	Headers []Pair // the downstream's first
}

func readHTTP(d *file.Decoder, n *file.Node) *HTTP {
	h := &HTTP{At: n.Place}
	known := file.Table{
		"query":   d.Data(&h.Query),
		"json":    d.Data(&h.JSON),
		"form":    d.Data(&h.Form),
		"headers": func(n *file.Node) { h.Headers = readHeaders(d, n) },
	}
	for _, method := range []string{"post", "put", "get"} {
		known[method] = func(n *file.Node) {
			if h.Method != "" {
				d.Fail(n.Place, fmt.Sprintf("a request has one method; `%s` is said already", strings.ToLower(h.Method)), "")
				return
			}
			h.Method, h.Path, h.pathAt = strings.ToUpper(method), readAddress(d, n), file.Place{Position: n.Position, Path: h.At.Path}
		}
	}
	d.Fields(n, known)
	if h.Method == "" {
		if n.Kind == file.Mapping {
			d.Fail(n.Place, "says no method and path", "for example get: /v1/charges")
		}
		return h
	}
	if h.JSON != nil && h.Form != nil {
		d.Fail(n.Place, "`json` and `form` exclude each other", "leave out one of the two")
	}
	if h.Method == "GET" && (h.JSON != nil || h.Form != nil) {
		d.Fail(n.Place, "a get has no body", "use `query`")
	}
	return h
}

// address reads a path below the downstream's base, or a whole address.
func readAddress(d *file.Decoder, n *file.Node) *expr.Template {
	t := d.Template(n, expr.ForRequest)
	if t == nil {
		return nil
	}
	first, written := t.Beginning()
	switch {
	case written && strings.HasPrefix(first, "/") && !strings.HasPrefix(first, "//"):
	case written && OriginWritten(first):
	case t.BeginsWithSecret():
		// ${env.BASE}/path: the host comes from the environment, not from data.
	default:
		d.Fail(n.Place, "must begin with / or with https://host/ written out", "only the part after the host may be computed")
		return nil
	}
	if strings.ContainsAny(strings.ReplaceAll(first, "$${", ""), " \t\r\n") {
		d.Fail(n.Place, "an address has no spaces", "write %20")
	}
	return t
}

// base reads a downstream's address; it may come from the environment.
func readBase(d *file.Decoder, ds *Downstream, n *file.Node) {
	t := d.Template(n, expr.ForRequest)
	first, written := t.Beginning()
	switch {
	case t == nil:
	case !t.Settled():
		d.Fail(n.Place, "only ${env.NAME} may stand in a base", "")
	case written && !OriginWritten(strings.TrimSuffix(first, "/")+"/"):
		d.Fail(n.Place, fmt.Sprintf("%q is not an address", n.Text), "for example https://api.example.com")
	case strings.ContainsAny(n.Text, "?#"):
		d.Fail(n.Place, "a base has no query", "")
	default:
		ds.Base, ds.base = n.Text, t
		ds.is(d, n, "http")
	}
}

func readHeaders(d *file.Decoder, n *file.Node) []Pair {
	out := readPairs(d, n)
	for i, h := range out {
		out[i].Name = readHeader(d, n.Below(h.Name), h.Name)
	}
	return out
}

// readHeader is the name of a header as it is sent.
func readHeader(d *file.Decoder, at file.Place, name string) string {
	if !headerName(name) {
		d.Fail(at, fmt.Sprintf("%q is not a header name", name), "")
	}
	name = textproto.CanonicalMIMEHeaderKey(name)
	switch name {
	case "Host", "Content-Length", "Transfer-Encoding", "Connection":
		d.Fail(at, "this header is written by the sender itself", "leave it out")
	}
	return name
}

func readCallers(d *file.Decoder, ds *Downstream, n *file.Node) {
	d.Texts(&ds.Callers)(n)
	for i, name := range ds.Callers {
		ds.Callers[i] = readHeader(d, n.Place, name)
	}
	slices.Sort(ds.Callers)
	ds.Callers = slices.Compact(ds.Callers)
}

func (h *HTTP) Via() string { return "http" }

func (h *HTTP) Attach(d *file.Decoder, known Reach) {
	if h.Path == nil {
		return
	}
	if path, _ := h.Path.Beginning(); !strings.HasPrefix(path, "/") {
		return // a whole address: the downstream's headers hold its secrets and go to its own address only
	}
	ds := known.Own
	if ds == nil || ds.base == nil {
		d.Fail(h.pathAt, "a path needs a downstream with a `base`", "say `downstream:` in the kind, or write the whole address")
		return
	}
	h.base = ds.base
	for _, p := range slices.Backward(ds.headers) {
		if !slices.ContainsFunc(h.Headers, func(own Pair) bool { return own.Name == p.Name }) {
			h.Headers = append([]Pair{p}, h.Headers...)
		}
	}
}

func (h *HTTP) Questions() []*expr.Template {
	return slices.Concat([]*expr.Template{h.Path}, h.Query.Templates(), h.JSON.Templates(), h.Form.Templates())
}

func (h *HTTP) beside() []*expr.Template { return append(values(h.Headers), h.base) }

func (h *HTTP) render(r *Rendering) Request {
	out := &HTTPRequest{Method: h.Method, URL: h.address(r), Header: r.headers(h.Headers)}
	if r.KeyHeader != "" {
		out.Header[http.CanonicalHeaderKey(r.KeyHeader)] = []string{r.Operation.KeyToSend()}
	}
	contentType := ""
	switch {
	case h.JSON != nil:
		out.Body, contentType = ledger.EncodeJSON(r.At("json").Tree(h.JSON)), "application/json"
	case h.Form != nil:
		out.Body, contentType = []byte(r.At("form").Form(h.Form, false)), "application/x-www-form-urlencoded"
	}
	if contentType != "" && out.Header["Content-Type"] == nil {
		out.Header["Content-Type"] = []string{contentType}
	}
	return Request{HTTP: out}
}

func (h *HTTP) address(r *Rendering) string {
	address := r.At("address").URL(h.Path)
	if h.base != nil {
		address = strings.TrimSuffix(r.base(h.base), "/") + address
	}
	if h.Query != nil {
		if encoded := r.At("query").Form(h.Query, true); encoded != "" {
			join := "?"
			if strings.Contains(address, "?") {
				join = "&"
			}
			address += join + encoded
		}
	}
	if u, err := url.Parse(address); !r.Show && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		r.At("address").Fail(fmt.Errorf("it is not an http address"))
	}
	return address
}

func (h *HTTPRequest) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", h.Method, h.URL)
	for _, n := range slices.Sorted(maps.Keys(h.Header)) {
		fmt.Fprintf(&b, "\n%s: %s", n, strings.Join(h.Header[n], ", "))
	}
	if len(h.Body) > 0 {
		fmt.Fprintf(&b, "\n\n%s", h.Body)
	}
	return b.String()
}

func (h *HTTPRequest) Leaving() (texts []string) {
	mediaType := ""
	for name, values := range h.Header {
		texts = append(texts, values...)
		if strings.EqualFold(name, "Content-Type") && len(values) > 0 {
			mediaType, _, _ = mime.ParseMediaType(values[0])
		}
	}
	if u, err := url.Parse(h.URL); err == nil {
		texts = append(texts, u.Path)
		texts = append(texts, formTexts(u.RawQuery)...)
	}
	if mediaType == "application/x-www-form-urlencoded" {
		return append(texts, formTexts(string(h.Body))...)
	}
	return append(texts, JSONTexts(h.Body)...)
}

func formTexts(form string) (texts []string) {
	values, err := url.ParseQuery(form)
	if err != nil {
		return []string{form}
	}
	for name, list := range values {
		texts = append(append(texts, name), list...)
	}
	return texts
}

// JSONTexts are the names and strings in a JSON value; what is not JSON is one text.
func JSONTexts(body []byte) (texts []string) {
	if !json.Valid(body) {
		return []string{string(body)}
	}
	d := json.NewDecoder(bytes.NewReader(body))
	for t, err := d.Token(); err == nil; t, err = d.Token() {
		if text, ok := t.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// OriginWritten reports whether text begins with a scheme and a whole host, so
// that nothing computed can lead to another one.
func OriginWritten(text string) bool {
	scheme, rest, _ := strings.Cut(text, "://")
	host, _, path := strings.Cut(rest, "/")
	u, err := url.Parse("http://" + host)
	return (scheme == "https" || scheme == "http") && path && err == nil && u.Host != "" && u.User == nil
}

type overHTTP struct{}

func (overHTTP) complete(a *ledger.Answer)                             { a.Status = cmp.Or(a.Status, 200) }
func (overHTTP) whole(a *ledger.Answer) bool                           { return a.Status != 0 }
func (overHTTP) succeeded(_ *ledger.Answer, status bool) (bool, error) { return status, nil }
func (overHTTP) document(a *ledger.Answer) (any, error)                { return decoded(a, a.Body) }

// usable refuses an answer that does not answer the request, or an old one.
func (h overHTTP) usable(a *ledger.Answer) error {
	switch {
	case a.Truncated:
		return errCut
	case a.Status == 0:
		return fmt.Errorf("no answer came")
	case a.Status == 206:
		return errors.New("answer is only a part of what was asked for (206)")
	case a.Status == 304:
		return errors.New(`answer is "not modified" (304), which shows nothing`)
	case unanswered(a.Status): // `valid` cannot accept it
		return h.refusal(a, false)
	}
	if old := aged(a.Header); old != "" {
		return errors.New(old)
	}
	return nil
}

// unanswered reports whether a status says that the request was not answered.
func unanswered(status int) bool {
	return status >= 300 && status < 400 || status >= 500 || slices.Contains([]int{401, 403, 407, 408, 429}, status)
}

func (overHTTP) refusal(a *ledger.Answer, _ bool) error {
	switch a.Status {
	case 401, 403, 407:
		return fmt.Errorf("downstream answered %d: the check is not let in", a.Status)
	case 429:
		return fmt.Errorf("downstream answered 429: it is asked too often")
	case 0, 200:
		return nil
	}
	return fmt.Errorf("downstream answered %d", a.Status)
}

// linkOf is the address of a Link header (RFC 8288) with that relation, "" when
// there is none.
func linkOf(a *ledger.Answer, rel string) string {
	for _, m := range oneLink.FindAllStringSubmatch(strings.Join(a.Header["Link"], ", "), -1) {
		if relates(m[2], rel) {
			return strings.TrimSpace(m[1])
		}
	}
	return ""
}

// oneLink is an address and its parameters, which end at a comma outside of quotes.
var oneLink = lazyregexp.New(`<([^>]*)>((?:[^",]|"(?:\\.|[^"\\])*(?:"|$))*)`)

// relates reports whether a link's parameters name the relation; the first `rel`
// counts, and it may name several.
func relates(parameters, rel string) bool {
	for _, p := range strings.Split(parameters, ";") {
		name, value, ok := strings.Cut(p, "=")
		if ok && strings.EqualFold(strings.TrimSpace(name), "rel") {
			relations := strings.Fields(strings.Trim(strings.TrimSpace(value), `"`))
			return slices.ContainsFunc(relations, func(one string) bool { return strings.EqualFold(one, rel) })
		}
	}
	return false
}
