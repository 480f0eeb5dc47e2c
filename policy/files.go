package policy

import (
	"fmt"
	"io"
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
