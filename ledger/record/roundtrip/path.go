package roundtrip

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"indoubt/ledger/lazyregexp"
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

// otherPaths are the readings of a path that servers differ over, beside the one
// that CleanPath gives: with and without path parameters, with backslashes for
// slashes, decoded once or twice, an encoded slash inside a segment.
func otherPaths(u *url.URL) (paths []string) {
	written := u.EscapedPath()
	if !strings.ContainsAny(written, "%;\\") && !strings.Contains(u.Path, "\\") {
		return nil
	}
	for reading := range 16 {
		p := written
		if reading&1 != 0 {
			p = encodedSlash.ReplaceAllString(p, "_")
		}
		if reading&2 != 0 {
			if once, err := url.PathUnescape(p); err == nil {
				p = once
			}
		}
		if once, err := url.PathUnescape(p); err == nil {
			p = once
		}
		if reading&4 != 0 {
			p = strings.ReplaceAll(p, "\\", "/")
		}
		if reading&8 != 0 {
			segments := strings.Split(p, "/")
			for i, s := range segments {
				segments[i], _, _ = strings.Cut(s, ";")
			}
			p = strings.Join(segments, "/")
		}
		if !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
	}
	return paths
}

var encodedSlash = lazyregexp.New(`(?i)%(?:25)*(?:2f|5c)`)

// plainPath reports whether all servers read the same path in a URL. Servers differ
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
	odd := []string{"%2f", "%5c", "%252e", "%252f", "%255c"}
	return !slices.ContainsFunc(odd, func(o string) bool { return strings.Contains(encoded, o) })
}
