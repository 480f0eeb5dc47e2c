package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"indoubt/ledger"
	"indoubt/ledger/record/secret"
)

const (
	maxInputBody = 256 << 10 // bytes of a body that are recorded as they are; of others a digest is
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
	Method      string            `json:"method"`
	Override    string            `json:"override,omitempty"` // the method a header puts in its place
	Path        string            `json:"path"`
	Query       any               `json:"query,omitempty"` // names to a text or a list of them; a text when it cannot be read
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"` // those of telling, in lower case
	Body        json.RawMessage   `json:"body,omitempty"`
}

// inputOf is the input of a request: its body as JSON where it is, a form or a
// multipart one as the fields it has, else as text or a digest.
func inputOf(req *http.Request, body []byte) (json.RawMessage, error) {
	in := httpInput{Method: req.Method, Override: overridden(req), Path: req.URL.EscapedPath()}
	if in.Path == "" {
		in.Path = "/"
	}
	if raw := req.URL.RawQuery; raw != "" {
		in.Query = raw
		if values, err := url.ParseQuery(raw); err == nil {
			in.Query = flatValues(values)
		}
	}
	for _, name := range telling {
		if values := req.Header.Values(name); len(values) > 0 {
			if in.Headers == nil {
				in.Headers = map[string]string{}
			}
			in.Headers[strings.ToLower(name)] = strings.Join(values, ", ")
		}
	}
	mediaType, params, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil {
		mediaType, params = strings.TrimSpace(req.Header.Get("Content-Type")), nil
	}
	boundary := params["boundary"]
	delete(params, "boundary") // another one at each try
	in.ContentType = mediaType
	if shown := mime.FormatMediaType(mediaType, params); shown != "" {
		in.ContentType = shown
	}
	if plain, err := decoded(req.Header, body, maxInputBody); err != nil {
		in.Body = encode(digestOf(body))
	} else if isJSON(mediaType) && json.Valid(plain) && ledger.TooDeep(plain) {
		return nil, &UnfitError{ledger.ErrTooDeep.Error()}
	} else if len(plain) > 0 {
		in.Body = bodyInput(mediaType, boundary, plain)
	}
	out := encode(in)
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
		if !secret.Parameter(name) {
			continue
		}
		if _, err := url.ParseQuery(rawQuery); err != nil || strings.ContainsAny(name, ".[]*") {
			return []string{"query"}
		}
		paths = append(paths, "query."+name)
	}
	return paths
}

func bodyInput(mediaType, boundary string, body []byte) json.RawMessage {
	switch {
	case len(body) > maxInputBody:
		return encode(digestOf(body))
	case isJSON(mediaType) && recordable(body):
		return json.RawMessage(bytes.TrimSpace(body))
	case mediaType == formType:
		if values, err := url.ParseQuery(string(body)); err == nil {
			return encode(nested(values))
		}
	case mediaType == "multipart/form-data" && boundary != "":
		if parts, err := partsOf(boundary, body); err == nil {
			return encode(parts)
		}
	case mediaType == "" && recordable(body):
		return json.RawMessage(bytes.TrimSpace(body))
	}
	return encode(textOrBase64(body))
}

// recordable reports whether a body is JSON that an input may hold: one that has a
// canonical form, and so means one thing to everybody.
func recordable(body []byte) bool {
	in := json.RawMessage(append(append([]byte("[["), body...), "]]"...))
	if !json.Valid(body) || !json.Valid(in) { // it must not be too deep inside an input either
		return false
	}
	_, err := ledger.Fingerprint(in)
	return err == nil
}

const formType = "application/x-www-form-urlencoded"

func isJSON(mediaType string) bool {
	return mediaType == "application/json" || strings.HasSuffix(mediaType, "+json")
}

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

// partsOf lists the parts of a multipart form: what they say if they are short
// texts, a digest of files.
func partsOf(boundary string, body []byte) ([]map[string]any, error) {
	var out []map[string]any
	r := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		p, err := r.NextRawPart()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(p)
		if err != nil {
			return nil, err
		}
		part := map[string]any{"name": p.FormName()}
		if file := p.FileName(); file != "" {
			part["filename"] = file
		}
		if t := p.Header.Get("Content-Type"); t != "" {
			part["content_type"] = t
		}
		if p.FileName() == "" && len(content) <= 4<<10 && utf8.Valid(content) {
			value := "value"
			if secret.Name(p.FormName()) {
				value = "secret" // is not stored
			}
			part[value] = string(content)
		} else {
			for k, v := range digestOf(content) {
				part[k] = v
			}
		}
		out = append(out, part)
	}
}

// withToken puts the correlation token into a JSON or form body, where the
// kind's policy says. ok is false, and the body as it was, when it has no place.
// The policy's path is one in the input (body.metadata.token), or in the body.
func withToken(h http.Header, body []byte, rule KindRule, token string) (out []byte, ok bool) {
	path, list := rule.TokenInto, false
	if path == "" {
		path, list = rule.TokenAppend, true
	}
	if path == "" || encoded(h) {
		return body, false
	}
	steps, err := parsePath(path)
	if err != nil || len(steps) == 0 {
		return body, false
	}
	if steps[0] == "body" && len(steps) > 1 {
		steps = steps[1:]
	}
	mediaType, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	switch {
	case isJSON(mediaType) || mediaType == "":
		v, err := decode(body)
		if err != nil || count(v) != colons(body) { // of a member that occurs twice, one would be lost
			return body, false
		}
		if v, ok = place(v, steps, list, token); !ok {
			return body, false
		}
		return encode(v), true
	case mediaType == formType:
		return formWithToken(body, steps, list, token)
	}
	return body, false
}

// place sets the token at a path, or adds it to the list there, and makes the
// objects on the way that are missing.
func place(v any, steps []string, list bool, token string) (any, bool) {
	if len(steps) == 0 {
		if !list {
			return token, true
		}
		items, isList := v.([]any)
		return append(items, token), isList || v == nil
	}
	step := steps[0]
	switch t := v.(type) {
	case nil:
		next, ok := place(nil, steps[1:], list, token)
		return map[string]any{step: next}, ok
	case map[string]any:
		next, ok := place(t[step], steps[1:], list, token)
		t[step] = next
		return t, ok
	case []any:
		i, err := strconv.Atoi(step)
		if err != nil || i < 0 || i >= len(t) {
			return v, false
		}
		next, ok := place(t[i], steps[1:], list, token)
		t[i] = next
		return t, ok
	}
	return v, false
}

// formWithToken adds a field and leaves the others as they are written.
func formWithToken(body []byte, steps []string, list bool, token string) ([]byte, bool) {
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return body, false
	}
	name := steps[0]
	for _, step := range steps[1:] {
		name += "[" + step + "]"
	}
	var kept []string
	if list {
		switch {
		case values.Has(name + "[]"):
			name += "[]"
		case !values.Has(name):
			n := 0
			for values.Has(name + "[" + strconv.Itoa(n) + "]") {
				n++
			}
			name += "[" + strconv.Itoa(n) + "]"
		}
	}
	for _, pair := range strings.Split(string(body), "&") {
		written, _, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(written); pair != "" && (list || err != nil || plain != name) {
			kept = append(kept, pair)
		}
	}
	kept = append(kept, url.QueryEscape(name)+"="+url.QueryEscape(token))
	return []byte(strings.Join(kept, "&")), true
}
