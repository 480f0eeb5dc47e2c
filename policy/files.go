package policy

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Load reads and checks a policy file. Problems of its content come as Errors; that it
// cannot be read comes as the error of the system.
func Load(path string) (*Policy, error) {
	text, err := content(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, text)
}

// content is the text of a policy file. A pipe would block, and gives its text once.
func content(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("policy: %s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return text, nil
}

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

//go:embed schema.json
var schema []byte

// Schema is the JSON Schema (2020-12) of a policy file, for editors. It knows
// the fields; what expressions mean only the check knows.
func Schema() []byte { return append([]byte(nil), schema...) }

//go:embed example.yaml
var example []byte

// Example is a commented policy that loads as it is.
func Example() []byte { return append([]byte(nil), example...) }
