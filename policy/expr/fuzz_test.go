package expr

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"", "a", "${input.a}", "x ${input.a} y ${token}", "$${", "${", "${\"}\"}", "${'''", "${{}}", "}", "${input.a + }", "${1}${2}", "${r'\\'}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tm, problem := ParseTemplate(text, ForOperation)
		if problem != nil {
			if problem.Message == "" || problem.Inside && (problem.Offset < 0 || problem.Offset > len([]rune(text))) {
				t.Fatalf("%+v", problem)
			}
			return
		}
		r := &Rendering{Names: given(`{"a":1}`, "")}
		if !strings.Contains(text, "${") {
			if got, err := r.Text(tm), r.Err(); err != nil || got != text {
				t.Fatalf("plain text %q became %q, %v", text, got, err)
			}
		}
		if v, err := r.Tree(&Tree{Text: tm}), r.Err(); err == nil {
			if _, err := Encode(v); err != nil {
				t.Fatalf("%q gives what is not JSON: %v", text, err)
			}
		}
	})
}

func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"", "a", "..", "a/../b", "%2e%2e", "\\", "a?b#c", "\x00", "@h", "é", "//", "a/./b"} {
		f.Add(seed)
	}
	tm, problem := ParseTemplate("https://h.example/a/${input.v}/b?q=${input.v}", ForRequest)
	if problem != nil {
		f.Fatal(problem)
	}
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
		if err != nil || u.Host != "h.example" || u.Fragment != "" || u.User != nil {
			t.Fatalf("%q leads to %q (%v)", value, got, err)
		}
		if parts := strings.Split(u.EscapedPath(), "/"); len(parts) != 4 || parts[1] != "a" || parts[3] != "b" {
			t.Fatalf("%q changes the path: %q", value, got)
		}
		for _, s := range strings.Split(u.Path, "/")[1:] {
			if s == "" || s == "." || s == ".." {
				t.Fatalf("%q walks: %q", value, got)
			}
		}
		if q := u.Query(); len(q) != 1 || q.Get("q") != string([]rune(value)) {
			t.Fatalf("%q changes the query: %q", value, got)
		}
	})
}
