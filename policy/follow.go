package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// Follower reads a policy again whenever its text has changed. It is used from one
// goroutine.
type Follower struct {
	path   string
	last   []file
	failed string
	have   *Policy
	err    error
}

// Follow follows the policy at the path from have on, which is of there or the one
// without a file.
func Follow(path string, have *Policy) *Follower { return &Follower{path: path, have: have} }

// Now is the policy as it was last good in its files, and why it is not so now. The errors
// are those of Load; that there is no file is none where there never was one.
func (f *Follower) Now() (*Policy, error) {
	files, err := f.read()
	failed := ""
	if err != nil {
		failed = err.Error()
	}
	if failed == f.failed && slices.EqualFunc(files, f.last, func(a, b file) bool { return a.name == b.name && bytes.Equal(a.text, b.text) }) {
		return f.have, f.err
	}
	f.last, f.failed = files, failed
	var p *Policy
	if err == nil {
		p, err = parse(f.path, files, nil)
	}
	if f.err = err; f.have.empty && errors.Is(err, fs.ErrNotExist) {
		f.err = nil
	}
	if p != nil && p.digest != f.have.digest {
		f.have = p
	}
	return f.have, f.err
}

// read takes the content. It reads regular files only: a pipe would block, and gives its
// text once.
func (f *Follower) read() ([]file, error) {
	info, err := os.Stat(f.path)
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("policy: %s is not a regular file", f.path)
	}
	return contents(f.path)
}
