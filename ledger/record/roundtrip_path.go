package record

import (
	"net/url"
	"path"
	"strings"
)

// CleanPath is a URL's path as most servers read it, and as a policy matches it:
// decoded, without empty segments, "." and "..".
func CleanPath(u *url.URL) string {
	clean := path.Clean("/" + u.Path)
	if clean != "/" && strings.HasSuffix(u.Path, "/") {
		clean += "/"
	}
	return clean
}

// plainPath tells whether everybody reads the same path in a URL. Servers differ
// over empty segments, "." and "..", what is encoded, backslashes, and what stands
// behind a semicolon.
func plainPath(u *url.URL) bool {
	segments := strings.Split(strings.TrimPrefix(u.Path, "/"), "/")
	for i, s := range segments {
		name, _, _ := strings.Cut(s, ";")
		if name == "." || name == ".." || name == "" && i < len(segments)-1 {
			return false
		}
	}
	if strings.ContainsAny(u.Path, "\\\x00") {
		return false
	}
	// An encoded slash is none to some; what is encoded twice is decoded twice by some.
	encoded := strings.ToLower(u.EscapedPath())
	for _, odd := range []string{"%2f", "%5c", "%252e", "%252f", "%255c"} {
		if strings.Contains(encoded, odd) {
			return false
		}
	}
	return true
}
