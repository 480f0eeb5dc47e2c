package policy

import (
	"bufio"
	"bytes"
	"fmt"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// ParseSavedAnswer reads an answer from a file: the text of an HTTP response as
// `curl -i` prints it, a mapping as in the cases of `tests:` (JSON or YAML), or
// else the bare body or output of one that succeeded. Problems are Errors.
func ParseSavedAnswer(name string, text []byte) (SavedAnswer, error) {
	if bytes.HasPrefix(text, []byte("HTTP/")) {
		return rawResponse(text)
	}
	src := newSource(name, text)
	root, problems := parseYAML(src, text)
	if root == nil || len(problems) > 0 || !saysAnswer(root) {
		s := SavedAnswer{Body: text, Stdout: text, Result: text}
		if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 && trimmed[0] == '[' {
			s.Rows = text
		}
		return s, nil
	}
	d := &decoder{src: src, policy: blank()}
	s := d.savedAnswer(root)
	if len(d.problems) > 0 {
		return SavedAnswer{}, d.problems.sorted()
	}
	return s, nil
}

// saysAnswer reports whether a mapping is an answer written down, not a body.
func saysAnswer(n *node) bool {
	known, _ := (&decoder{}).answerTable(&SavedAnswer{})
	return n.kind == mappingNode && len(n.entries) > 0 && !slices.ContainsFunc(n.entries, func(e entry) bool {
		return !slices.ContainsFunc(known, func(f field) bool { return f.name == e.name })
	})
}

// rawResponse reads an HTTP response, the last one where `curl -iL` printed
// several. The body is taken as it is: curl has unpacked it already.
func rawResponse(text []byte) (SavedAnswer, error) {
	for {
		r := bufio.NewReader(bytes.NewReader(text))
		lines := textproto.NewReader(r)
		first, err := lines.ReadLine()
		if err != nil {
			return SavedAnswer{}, fmt.Errorf("the response has no status line")
		}
		words := strings.Fields(first)
		if len(words) < 2 {
			return SavedAnswer{}, fmt.Errorf("%q is no status line", shorten(first, 60))
		}
		status, err := strconv.Atoi(words[1])
		if err != nil || status < 100 || status > 599 {
			return SavedAnswer{}, fmt.Errorf("%q is no status line", shorten(first, 60))
		}
		header, err := lines.ReadMIMEHeader()
		if err != nil && len(header) == 0 {
			return SavedAnswer{}, fmt.Errorf("the response's headers cannot be read: %w", err)
		}
		var body bytes.Buffer
		if _, err := body.ReadFrom(r); err != nil {
			return SavedAnswer{}, err
		}
		if bytes.HasPrefix(body.Bytes(), []byte("HTTP/")) && (status < 200 || status >= 300 && status < 400) {
			text = body.Bytes()
			continue
		}
		return SavedAnswer{Status: status, Header: header, Body: body.Bytes()}, nil
	}
}
