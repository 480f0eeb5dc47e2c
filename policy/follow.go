package policy

import (
	"bytes"
	"errors"
	"io/fs"
)

// Follower reads a policy again whenever its text has changed. It is used from one
// goroutine.
type Follower struct {
	path   string
	last   []byte
	failed string
	have   *Policy
	err    error
}

// Follow follows the policy at the path from have on, which is of there or the one
// without a file.
func Follow(path string, have *Policy) *Follower {
	return &Follower{path: path, have: have, failed: "not read yet"}
}

// Now is the policy as it was last good in its files, and why it is not so now. The errors
// are those of Load; that there is no file is none where there never was one.
func (f *Follower) Now() (*Policy, error) {
	text, err := content(f.path)
	failed := ""
	if err != nil {
		failed = err.Error()
	}
	if failed == f.failed && bytes.Equal(text, f.last) {
		return f.have, f.err
	}
	f.last, f.failed = text, failed
	var p *Policy
	if err == nil {
		p, err = Parse(f.path, text)
	}
	if f.err = err; f.have.empty && errors.Is(err, fs.ErrNotExist) {
		f.err = nil
	}
	if p != nil && p.digest != f.have.digest {
		f.have = p
	}
	return f.have, f.err
}
