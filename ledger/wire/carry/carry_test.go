package carry

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"indoubt/ledger/need"
)

const token = "indoubt-7E3A01"

func TestPaths(t *testing.T) {
	for path, fine := range map[string]bool{"a": true, "a.b-c[0].d": true, "input.a": true, "": false, ".a": false, "[0]": false, "a..b": false, "a b": false, "a[x]": false} {
		_, err := At(path, false)
		need.That(t, (err == nil) == fine, "%q: %v", path, err)
	}
}

func TestJSONIsLeftAsItIsWritten(t *testing.T) {
	for _, c := range []struct {
		path, value, want string // "" for no place
		append            bool
	}{
		{path: "a", value: ` { "z" : 1.0 , "b": 1e400 } `, want: ` { "z" : 1.0 , "b": 1e400 ,"a":"T"} `},
		{path: "a", value: `{"a":null}`, want: `{"a":"T"}`},
		{path: "a", value: `{"a":"T"}`, want: `{"a":"T"}`},
		{path: "a", value: `{"a":"x"}`},
		{path: "a", value: `{"a":null,"a":null}`},
		{path: "a.b", value: `{"a":[]}`},
		{path: "a[1].b", value: `{"a":[{},{"x":2}]}`, want: `{"a":[{},{"x":2,"b":"T"}]}`},
		{path: "a[2].b", value: `{"a":[{},{}]}`},
		{path: "a", value: `{"a":["x"]}`, append: true, want: `{"a":["x","T"]}`},
		{path: "a", value: `{}`, append: true, want: `{"a":["T"]}`},
		{path: "a", value: `{"a":{}}`, append: true},
		{path: "a", value: `{"a":7}`, append: true},
		{path: "a", value: `{ "a" : "\u00e4 \\" }`, append: true, want: `{ "a" : "\u00e4 \\ ` + token + `" }`},
		{path: "a", value: `{"a":"one\ntwo\n"}`, append: true, want: `{"a":"one\ntwo\n\n\n` + token + `"}`},
		{path: "a", value: `{"a":"C:\\new"}`, append: true, want: `{"a":"C:\\new ` + token + `"}`},
		{path: "a", value: `{"a":""}`, append: true, want: `{"a":"T"}`},
		{path: "a", value: `{"a":"T"}`, append: true, want: `{"a":"T"}`},
		{path: "a", value: `{"a":"x ` + token + `"}`, append: true, want: `{"a":"x ` + token + `"}`},
		{path: "l[0].t", value: `{"l":[{"t":"x"}]}`, append: true, want: `{"l":[{"t":"x ` + token + `"}]}`},
		{path: "a", value: `[]`}, {path: "a", value: ``}, {path: "a", value: `{"a":1`}, {path: "a", value: `"x"`},
	} {
		at := need.Get(At(c.path, c.append))(t)
		want, placed := strings.ReplaceAll(c.want, "T", token), c.want != ""
		if !placed {
			want = c.value
		}
		got, ok := at.JSON([]byte(strings.ReplaceAll(c.value, `"T"`, `"`+token+`"`)), token)
		need.That(t, ok == placed && string(got) == want, "%s in %s: %s, %v", c.path, c.value, got, ok)
	}
}

// What a form held before it holds after, each field as it was written, and the
// token beside it; what is none is left alone.
func TestFormsGainOneField(t *testing.T) {
	at, _ := At("metadata.ref", false)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`([a-c]{0,2}(\[[a-c]?\])?=?[ -~é]{0,6}&?){0,4}`), rapid.String()).Draw(t, "text")
		out, ok := at.Form(text, token)
		if !ok {
			need.Must(t, out == text, "%q became %q without a place", text, out)
			return
		}
		was, _ := url.ParseQuery(text)
		is, err := url.ParseQuery(out)
		need.Must(t, err == nil && strings.HasPrefix(out, text) && is.Get("metadata[ref]") == token, "%q became %q: %v", text, out, err)
		if is.Del("metadata[ref]"); fmt.Sprint(is) != fmt.Sprint(was) {
			t.Fatalf("%v became %v", was, is)
		}
		trimmed := strings.TrimSpace(text)
		need.Must(t, !strings.HasPrefix(trimmed, "{") || !json.Valid([]byte(trimmed)), "%q is JSON", text)
	})
}

// Where a field holds JSON, as Slack's clients write an object, the token goes into that,
// and every other field stays as it was written.
func TestAFieldOfJSONTakesTheTokenInside(t *testing.T) {
	at, _ := At("metadata.payload.ref", false)
	form := func(metadata string) string { return "a=%7e+x&metadata=" + url.QueryEscape(metadata) + "&b" }
	for metadata, want := range map[string]string{
		`{"type":"x","payload":{"n":1}}`:      `{"type":"x","payload":{"n":1,"ref":"` + token + `"}}`,
		`{"type":"x"}`:                        `{"type":"x","payload":{"ref":"` + token + `"}}`,
		`{"payload":{"ref":"` + token + `"}}`: `{"payload":{"ref":"` + token + `"}}`,
		`{"payload":{"ref":"theirs"}}`:        "",
		`[]`:                                  "",
	} {
		out, ok := at.Form(form(metadata), token)
		if want == "" {
			want, ok = metadata, !ok
		}
		need.That(t, ok && out == form(want), "%s became %s", metadata, out)
	}
}
