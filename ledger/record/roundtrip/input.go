package roundtrip

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"indoubt/ledger"
	"indoubt/ledger/outcome"
	"indoubt/ledger/redact"
	"indoubt/ledger/wire/carry"
	"indoubt/ledger/wire/transmit"
)

const (
	maxInputBody = 256 << 10 // bytes of a body that are recorded as they are; of others a digest is
	maxDecoded   = 16 << 20  // bytes that a body in a coding may hold; of a longer one the bytes count
	maxPart      = 4 << 10   // bytes of a part that is recorded as the text it is
	mostSteps    = 64        // of a form field's name that are read as objects in objects
)

// telling are the headers that say what is written, and where: with another one
// the same body is another write.
var telling = []string{
	"Content-Range", "Depth", "Destination", "If", "If-Match", "If-Modified-Since", "If-None-Match", "If-Unmodified-Since", "Overwrite", "Slug", "Soapaction",
	"Upload-Offset", "X-Amz-Copy-Source", "X-Amz-Target", "X-Ms-Copy-Source",
}

// httpInput is what is recorded of a request as its input. No other header is in it.
type httpInput struct {
	Method      string          `json:"method"`
	Override    string          `json:"override,omitempty"` // the method a header puts in its place
	Path        string          `json:"path"`
	Query       any             `json:"query,omitempty"` // names to a text or a list of them; a text when it cannot be read
	ContentType any             `json:"content_type,omitempty"`
	Headers     map[string]any  `json:"headers,omitempty"` // those of telling, in lower case
	Body        json.RawMessage `json:"body,omitempty"`
}

// inputOf is the input of a request, in the one spelling in which two that ask the same are equal:
// its body as JSON or lines of it where it is, a form or a multipart one as the fields it has, else
// as text or a digest.
func inputOf(req *http.Request, body []byte) (httpInput, error) {
	u := transmit.Spelled(req.URL)
	in := httpInput{Method: req.Method, Override: overridden(req), Path: u.EscapedPath()}
	if raw := u.RawQuery; raw != "" {
		in.Query = textOrBase64([]byte(raw))
		if values, err := url.ParseQuery(raw); err == nil && areText(values) {
			in.Query = flatValues(values)
		}
	}
	for _, name := range telling {
		if values := req.Header.Values(name); len(values) > 0 {
			if in.Headers == nil {
				in.Headers = map[string]any{}
			}
			in.Headers[strings.ToLower(name)] = textOrBase64([]byte(strings.Join(values, ", ")))
		}
	}
	mediaType, params, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil {
		mediaType, params = strings.TrimSpace(req.Header.Get("Content-Type")), nil
	}
	boundary := params["boundary"]
	delete(params, "boundary") // another one at each try
	if shown := cmp.Or(mime.FormatMediaType(mediaType, params), mediaType); shown != "" {
		in.ContentType = textOrBase64([]byte(shown))
	}
	if plain, err := transmit.Decoded(req.Header, body, maxDecoded); err != nil {
		in.Body = ledger.EncodeJSON(digestOf(body))
	} else if (outcome.IsJSON(mediaType) || isStructured(plain)) && json.Valid(plain) && ledger.TooDeep(plain) {
		return in, unfit(ledger.ErrTooDeep.Error())
	} else if len(plain) > 0 {
		in.Body = bodyInput(mediaType, boundary, plain)
	}
	return in, nil
}

func (in httpInput) encoded() (json.RawMessage, error) {
	out := ledger.EncodeJSON(in)
	if out == nil {
		return nil, fmt.Errorf("the request cannot be recorded")
	}
	return out, nil
}

// secretsIn are the paths of an input's query that are secrets: in an address
// there are more of them than elsewhere.
func secretsIn(rawQuery string) []string {
	var paths []string
	for _, pair := range strings.FieldsFunc(rawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		name, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if !redact.Parameter(name) {
			continue
		}
		if _, err := url.ParseQuery(rawQuery); err != nil || strings.ContainsAny(name, ".[]*") {
			return []string{"query"}
		}
		paths = append(paths, "query."+name)
	}
	return paths
}

// shape is what a body really is.
type shape int

const (
	asText shape = iota // or bytes
	asJSON
	asLines // of JSON
	asForm
	asParts
)

// shapeOf tells what a body is. Clients put a form's or a text's content type on
// JSON by default, so that an object or a list, or lines of them, count as what they
// are whatever they are called; what is called a form and is none is text. said is
// what JSON or lines of it say.
func shapeOf(mediaType, boundary string, body []byte) (s shape, said json.RawMessage) {
	if strings.HasPrefix(mediaType, "multipart/") && boundary != "" {
		return asParts, nil
	}
	structured := isStructured(body)
	if (structured || outcome.IsJSON(mediaType) || mediaType == "") && outcome.Recordable(body) {
		return asJSON, bytes.TrimSpace(body)
	}
	if structured {
		return asText, nil
	}
	if lines := linesOf(body); lines != nil {
		return asLines, lines
	}
	if mediaType == formType && isForm(body) {
		return asForm, nil
	}
	return asText, nil
}

func isForm(body []byte) bool {
	values, ok := carry.Fields(string(body))
	return ok && areText(values)
}

// isStructured reports whether a body is a JSON object or list.
func isStructured(body []byte) bool {
	begin := bytes.TrimLeft(body, " \t\r\n")
	return len(begin) > 0 && (begin[0] == '{' || begin[0] == '[') && json.Valid(body)
}

// linesOf is a body in which every line is a JSON object or list, as one; else nil.
func linesOf(body []byte) json.RawMessage {
	var lines []json.RawMessage
	for line := range bytes.Lines(bytes.TrimSpace(body)) {
		if !isStructured(line) {
			return nil
		}
		lines = append(lines, bytes.TrimSpace(line))
	}
	if all := ledger.EncodeJSON(map[string]any{"lines": lines}); len(lines) > 0 && outcome.Recordable(all) {
		return all
	}
	return nil
}

// bodyInput is a body as it is recorded. Of a long one it is a digest of what it says, which
// stays the same in another spelling.
func bodyInput(mediaType, boundary string, body []byte) json.RawMessage {
	s, said := shapeOf(mediaType, boundary, body)
	switch s {
	case asForm:
		values, _ := carry.Fields(string(body))
		said = ledger.EncodeJSON(nested(values))
	case asParts:
		if parts, err := partsOf(boundary, body); err == nil {
			said = ledger.EncodeJSON(parts)
		}
	}
	if said != nil && len(said) <= maxInputBody {
		return said
	}
	if said != nil {
		if digest, err := ledger.Fingerprint(said); err == nil {
			return ledger.EncodeJSON(map[string]any{"content_sha256": digest})
		}
	}
	if len(body) > maxInputBody {
		return ledger.EncodeJSON(digestOf(body))
	}
	return ledger.EncodeJSON(textOrBase64(body))
}

const formType = "application/x-www-form-urlencoded"

func textOrBase64(b []byte) any {
	if utf8.Valid(b) {
		return string(b)
	}
	return map[string]any{"base64": base64.StdEncoding.EncodeToString(b)}
}

func digestOf(b []byte) map[string]any {
	sum := sha256.Sum256(b)
	return map[string]any{"sha256": hex.EncodeToString(sum[:]), "bytes": len(b)}
}

// areText reports whether all of a form's or a query's fields are text. JSON would make
// one of different bytes (Latin-1, percent-encoded).
func areText(values url.Values) bool {
	for name, list := range values {
		if !utf8.ValidString(name) || slices.ContainsFunc(list, func(v string) bool { return !utf8.ValidString(v) }) {
			return false
		}
	}
	return true
}

// flatValues is names to a text, or to a list where one is repeated.
func flatValues(values url.Values) map[string]any {
	out := make(map[string]any, len(values))
	for name, list := range values {
		if len(list) == 1 {
			out[name] = list[0]
		} else {
			out[name] = list
		}
	}
	return out
}

// nested reads names such as metadata[order] as objects in objects. Where the
// names contradict each other they are kept as they are.
func nested(values url.Values) any {
	out := map[string]any{}
	for name, list := range values {
		var value any = list
		if len(list) == 1 {
			value = list[0]
		}
		steps, ok := bracketed(name)
		if ok && steps[len(steps)-1] == "" { // items[]
			steps, value = steps[:len(steps)-1], list
		}
		if !ok || !setMember(out, steps, value) {
			return flatValues(values)
		}
	}
	return out
}

// bracketed splits a[b][c] into its names.
func bracketed(name string) ([]string, bool) {
	first, rest, found := strings.Cut(name, "[")
	steps := []string{first}
	for found {
		var step string
		var closed bool
		step, rest, closed = strings.Cut(rest, "]")
		if !closed || rest != "" && rest[0] != '[' || step == "" && rest != "" {
			return nil, false
		}
		steps = append(steps, step)
		rest, found = strings.CutPrefix(rest, "[")
	}
	return steps, first != "" && len(steps) <= mostSteps
}

// setMember sets what no one has set before.
func setMember(in map[string]any, steps []string, value any) bool {
	for _, step := range steps[:len(steps)-1] {
		next, ok := in[step].(map[string]any)
		if !ok {
			if _, taken := in[step]; taken {
				return false
			}
			next = map[string]any{}
			in[step] = next
		}
		in = next
	}
	last := steps[len(steps)-1]
	if _, taken := in[last]; taken {
		return false
	}
	in[last] = value
	return true
}

// partsOf lists the parts of a multipart body: what they say if they are short
// texts, a digest of files.
func partsOf(boundary string, body []byte) ([]map[string]any, error) {
	var out []map[string]any
	r := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		head, err := io.ReadAll(io.LimitReader(p, maxPart+1))
		if err != nil {
			return nil, err
		}
		part := map[string]any{"name": textOrBase64([]byte(p.FormName()))}
		if file := p.FileName(); file != "" {
			part["filename"] = textOrBase64([]byte(file))
		}
		if t := p.Header.Get("Content-Type"); t != "" {
			part["content_type"] = textOrBase64([]byte(t))
		}
		if p.FileName() == "" && len(head) <= maxPart && utf8.Valid(head) {
			value := "value"
			if redact.Name(p.FormName()) {
				value = "secret" // is not stored
			}
			part[value] = string(head)
		} else {
			sum := sha256.New()
			n, err := io.Copy(sum, io.MultiReader(bytes.NewReader(head), p))
			if err != nil {
				return nil, err
			}
			part["sha256"], part["bytes"] = hex.EncodeToString(sum.Sum(nil)), n
		}
		out = append(out, part)
	}
}

var (
	// sentAgain say what is sent, or in what form it is answered. None of them
	// holds a secret; those of telling and of overrides are kept too.
	sentAgain = []string{
		"Accept", "Accept-Language", "Content-Type", "Content-Encoding", "Content-Language", "Content-Disposition", "Content-Md5", "Content-Digest", "Repr-Digest", "Digest",
		"X-Requested-With", HeaderKey,
	}
	// sentAgainEnds are the ends of others: Stripe-Version, Anthropic-Beta.
	sentAgainEnds = []string{"-Version", "-Beta"}
	// noise says nothing about a write, nor who asks: how it travels, what sent it, where it
	// is followed. A tenant may stand in Forwarded, X-Forwarded-Host, X-Forwarded-Prefix, Origin,
	// Referer and Baggage.
	noise = []string{
		"Accept-Charset", "Accept-Encoding", "B3", "Cache-Control", "Connection", "Content-Length", "Date", "Dnt", "Expect", "Host", "Http2-Settings", "Keep-Alive", "Pragma", "Priority", "Proxy-Connection",
		"Sentry-Trace", "Te", "Traceparent", "Tracestate", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "Via", "X-Amzn-Trace-Id", "X-Cloud-Trace-Context",
		"X-Correlation-Id", "X-Forwarded-For", "X-Forwarded-Port", "X-Forwarded-Proto", "X-Forwarded-Server", "X-Real-Ip", "X-Request-Id", "X-Stripe-Client-Telemetry", "X-Stripe-Client-User-Agent", HeaderSource, HeaderSession,
	}
	noiseBegins = []string{"Sec-", "X-B3-", "X-Stainless-"}
	// perTry are new at every try, say nothing of who asks, and are wanted by who answers.
	perTry     = []string{"X-Csrf-Token", "X-Xsrf-Token", "X-Csrftoken", "X-Recaptcha-Token", "X-Amz-Date", "X-Amz-Content-Sha256"}
	perTryEnds = []string{"-Request-Id", "-Correlation-Id", "-Trace-Id", "-Span-Id"}
)

func hasAny(name string, parts []string, has func(name, part string) bool) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return has(name, part) })
}

func isNoise(name string) bool {
	return hasAny(name, noise, strings.EqualFold) || hasAny(name, noiseBegins, strings.HasPrefix)
}

// saysWhat reports whether a header says what is sent.
func saysWhat(name string) bool {
	return hasAny(name, sentAgain, strings.EqualFold) || hasAny(name, telling, strings.EqualFold) || hasAny(name, overrides, strings.EqualFold) || hasAny(name, sentAgainEnds, strings.HasSuffix)
}

// kept is a request as it is sent, for the ledger. Headers that are not known to
// hold no secret are kept by their names alone. Where the body cannot be kept, or
// holds a secret, it says so, and nothing else of the request is kept.
func (w *httpWrite) kept(out sent) *ledger.Request {
	r := &ledger.Request{Method: w.req.Method, Origin: strings.ToLower(w.req.URL.Scheme + "://" + w.req.URL.Host)}
	if r.Lost = w.lost(out); r.Lost != "" {
		return r
	}
	u := *w.req.URL
	u.RawQuery = out.query
	r.Target = u.RequestURI()
	for name, values := range w.req.Header {
		tells := w.isCaller(name) && !redact.Credential(name) || saysWhat(name) || name == "Prefer"
		switch {
		case !w.isCaller(name) && isNoise(name), strings.EqualFold(name, w.rule.KeyHeader):
		case tells && !holdsSecret(name+": "+strings.Join(values, ", ")):
			if r.Header == nil {
				r.Header = map[string][]string{}
			}
			r.Header[name] = slices.Clone(values)
		default:
			r.Withheld = append(r.Withheld, name)
		}
	}
	slices.Sort(r.Withheld)
	if utf8.Valid(out.body) {
		r.Body = string(out.body)
	} else {
		r.Binary = slices.Clone(out.body)
	}
	return r
}

// lost says why a request cannot be kept whole, "" where it can.
func (w *httpWrite) lost(out sent) string {
	_, err := transmit.Decoded(w.req.Header, w.body.data, maxInputBody)
	switch {
	case len(out.body) > maxInputBody:
		return fmt.Sprintf("its body is longer than %d KiB, and not kept", maxInputBody>>10)
	case err != nil:
		return "its body is in a coding that cannot be looked into, and not kept"
	case holdsSecret(string(w.body.data)): // where the fields of the input show none: in a file, in a text
		return "its body holds what looks like a secret, and is not kept"
	}
	return ""
}

func holdsSecret(text string) bool {
	found := false
	redact.Replace(text, func(value string) string { found = true; return value })
	return found
}
