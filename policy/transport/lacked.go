package transport

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// MissingProgramError says that a program a request needs is not on this host.
type MissingProgramError struct {
	Name string
	Err  error
}

func (e *MissingProgramError) Error() string {
	return fmt.Sprintf("there is no program %s here", e.Name)
}
func (e *MissingProgramError) Unwrap() error { return e.Err }

// LackedHere reports whether an error is about a secret or a program that this process
// lacks: another process may have it, and so may this one later.
func LackedHere(err error) bool {
	return errors.As(err, new(*MissingSecretError)) || errors.As(err, new(*MissingProgramError))
}

// Missing is a *MissingProgramError when the program that the request runs is not
// on this host.
func (r Request) Missing() error {
	argv, dir := []string(nil), ""
	switch {
	case r.Command != nil:
		argv, dir = r.Command.Argv, r.Command.Dir
	case r.MCP != nil:
		argv, dir = r.MCP.Command, r.MCP.Dir
	}
	if len(argv) == 0 {
		return nil
	}
	name := argv[0]
	if strings.ContainsRune(name, filepath.Separator) && !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	if _, err := exec.LookPath(name); err != nil {
		return &MissingProgramError{Name: argv[0], Err: err}
	}
	return nil
}

// Environment looks a variable up. A missing one is said by name.
func Environment(name string) (string, error) {
	value := os.Getenv(name)
	if value == "" {
		return "", &MissingSecretError{Name: name}
	}
	return value, nil
}

const maxSecretFile = 64 << 10

// SecretIn reads a small file, without the line end that editors leave.
func SecretIn(path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxSecretFile) {
		err = fmt.Errorf("not a small regular file")
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return "", &MissingSecretError{Name: path, File: true, Err: err}
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// MissingSecretError says which environment variable or file the policy names
// and this process does not have. It concerns the whole kind, not one operation.
type MissingSecretError struct {
	Name string
	File bool
	Err  error
}

func (e *MissingSecretError) Error() string {
	if e.File {
		return fmt.Sprintf("the secret in file %s cannot be read: %v", e.Name, e.Err)
	}
	return fmt.Sprintf("environment variable %s is not set", e.Name)
}

func (e *MissingSecretError) Unwrap() error { return e.Err }
