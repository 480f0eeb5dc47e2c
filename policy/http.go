package policy

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"indoubt/policy/file"

	"indoubt/ledger"
	"indoubt/policy/expr"
)

type httpRule struct {
	at      file.Place
	method  string
	base    *expr.Template // of the downstream; nil when path is a whole address
	path    *expr.Template
	pathAt  file.Place
	query   *expr.Tree
	json    *expr.Tree
	form    *expr.Tree
	headers []pair // the downstream's first
}

func (d decoder) http(n *file.Node) *httpRule {
	h := &httpRule{at: n.Place}
	known := file.Table{
		"query":   d.Data(&h.query),
		"json":    d.Data(&h.json),
		"form":    d.Data(&h.form),
		"headers": func(n *file.Node) { h.headers = d.headers(n) },
	}
	for _, method := range []string{"post", "put", "get"} {
		known[method] = func(n *file.Node) {
			if h.method != "" {
				d.Fail(n.Place, fmt.Sprintf("a request has one method; `%s` is said already", strings.ToLower(h.method)), "")
				return
			}
			h.method, h.path, h.pathAt = strings.ToUpper(method), d.address(n), file.Place{Position: n.Position, Path: h.at.Path}
		}
	}
	d.Fields(n, known)
	if h.method == "" {
		if n.Kind == file.Mapping {
			d.Fail(n.Place, "says no method and path", "for example get: /v1/charges")
		}
		return h
	}
	if h.json != nil && h.form != nil {
		d.Fail(n.Place, "`json` and `form` exclude each other", "leave out one of the two")
	}
	if h.method == "GET" && (h.json != nil || h.form != nil) {
		d.Fail(n.Place, "a get has no body", "use `query`")
	}
	return h
}

// address reads a path below the downstream's base, or a whole address.
func (d decoder) address(n *file.Node) *expr.Template {
	t := d.Template(n, expr.ForRequest)
	if t == nil {
		return nil
	}
	first, written := t.Beginning()
	switch {
	case written && strings.HasPrefix(first, "/") && !strings.HasPrefix(first, "//"):
	case written && originWritten(first):
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
func (d decoder) base(ds *Downstream, n *file.Node) {
	t := d.Template(n, expr.ForRequest)
	first, written := t.Beginning()
	switch {
	case t == nil:
	case !t.Settled():
		d.Fail(n.Place, "only ${env.NAME} may stand in a base", "")
	case written && !originWritten(strings.TrimSuffix(first, "/")+"/"):
		d.Fail(n.Place, fmt.Sprintf("%q is not an address", n.Text), "for example https://api.example.com")
	case strings.ContainsAny(n.Text, "?#"):
		d.Fail(n.Place, "a base has no query", "")
	default:
		ds.Base, ds.base = n.Text, t
		d.is(ds, n, "http")
	}
}

func (d decoder) headers(n *file.Node) []pair {
	out := d.pairs(n)
	for i, h := range out {
		out[i].name = d.header(n.Below(h.name), h.name)
	}
	return out
}

// header is the name of a header as it is sent.
func (d decoder) header(at file.Place, name string) string {
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

func (d decoder) callers(ds *Downstream, n *file.Node) {
	d.Texts(&ds.Callers)(n)
	for i, name := range ds.Callers {
		ds.Callers[i] = d.header(n.Place, name)
	}
	slices.Sort(ds.Callers)
	ds.Callers = slices.Compact(ds.Callers)
}

func (h *httpRule) via() string { return "http" }

func (h *httpRule) questions() []*expr.Template {
	return slices.Concat([]*expr.Template{h.path}, h.query.Templates(), h.json.Templates(), h.form.Templates())
}

func (h *httpRule) beside() []*expr.Template { return append(values(h.headers), h.base) }

func (h *httpRule) render(r *rendering) Request {
	out := &HTTPRequest{Method: h.method, URL: h.address(r), Header: r.headers(h.headers)}
	if r.vars.keyHeader != "" {
		out.Header[http.CanonicalHeaderKey(r.vars.keyHeader)] = []string{r.vars.rec.Operation.KeyToSend()}
	}
	contentType := ""
	switch {
	case h.json != nil:
		out.Body, contentType = ledger.EncodeJSON(r.At("json").Tree(h.json)), "application/json"
	case h.form != nil:
		out.Body, contentType = []byte(r.At("form").Form(h.form, false)), "application/x-www-form-urlencoded"
	}
	if contentType != "" && out.Header["Content-Type"] == nil {
		out.Header["Content-Type"] = []string{contentType}
	}
	return Request{HTTP: out}
}

func (h *httpRule) address(r *rendering) string {
	address := r.At("address").URL(h.path)
	if h.base != nil {
		address = strings.TrimSuffix(r.base(h.base), "/") + address
	}
	if h.query != nil {
		if encoded := r.At("query").Form(h.query, true); encoded != "" {
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
	for _, n := range sortedNames(h.Header) {
		fmt.Fprintf(&b, "\n%s: %s", n, strings.Join(h.Header[n], ", "))
	}
	if len(h.Body) > 0 {
		fmt.Fprintf(&b, "\n\n%s", h.Body)
	}
	return b.String()
}

func (h *HTTPRequest) leaving() (texts []string) {
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
	return append(texts, jsonTexts(h.Body)...)
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

// jsonTexts are the strings in a JSON value; what is not JSON is one text.
func jsonTexts(body []byte) (texts []string) {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return []string{string(body)}
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			texts = append(texts, v)
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for name, e := range v {
				texts = append(texts, name)
				walk(e)
			}
		}
	}
	walk(v)
	return texts
}
