package expr

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"", "a", "${input.a}", "x ${input.a} y ${token}", "$${", "${", "${\"}\"}", "${'''", "${{}}", "}", "${input.a + }", "${1}${2}", "${r'\\'}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tm, problem := ParseTemplate(text, ForOperation)
		if problem != nil {
			need.Must(t, problem.Message != "" && (!problem.Inside || problem.Offset >= 0 && problem.Offset <= len([]rune(text))), "%+v", problem)
			return
		}
		r := &Rendering{Names: given(`{"a":1}`, "")}
		if !strings.Contains(text, "${") {
			got, err := r.Text(tm), r.Err()
			need.Must(t, err == nil && got == text, "plain text %q became %q, %v", text, got, err)
		}
		if v, err := r.Tree(&Tree{Text: tm}), r.Err(); err == nil {
			need.Must(t, ledger.EncodeJSON(v) != nil, "%q gives what is not JSON", text)
		}
	})
}

func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"", "a", "..", "a/../b", "%2e%2e", "\\", "a?b#c", "\x00", "@h", "é", "//", "a/./b"} {
		f.Add(seed)
	}
	tm, problem := ParseTemplate("https://h.example/a/${input.v}/b?q=${input.v}", ForRequest)
	need.Must(f, problem == nil, "%v", problem)
	f.Fuzz(func(t *testing.T, value string) {
		input, err := json.Marshal(map[string]any{"v": value})
		if err != nil {
			return
		}
		r := &Rendering{Names: given(string(input), "")}
		got, err := r.URL(tm), r.Err()
		if err != nil {
			return
		}
		u, err := url.Parse(got)
		need.Must(t, err == nil && u.Host == "h.example" && u.Fragment == "" && u.User == nil, "%q leads to %q (%v)", value, got, err)
		parts := strings.Split(u.EscapedPath(), "/")
		need.Must(t, len(parts) == 4 && parts[1] == "a" && parts[3] == "b", "%q changes the path: %q", value, got)
		for _, s := range strings.Split(u.Path, "/")[1:] {
			need.Must(t, s != "" && s != "." && s != "..", "%q walks: %q", value, got)
		}
		q := u.Query()
		need.Must(t, len(q) == 1 && q.Get("q") == string([]rune(value)), "%q changes the query: %q", value, got)
	})
}
