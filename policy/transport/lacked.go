package transport

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// MissingError says which variable of the environment, file or program the policy names and this
// process does not have. It concerns the whole kind, not one operation; another process may have
// it, and so may this one later.
type MissingError struct {
	What string // "variable", "file" or "program"
	Name string
	Err  error
}

func (e *MissingError) Error() string {
	switch e.What {
	case "file":
		return fmt.Sprintf("the secret in file %s cannot be read: %v", e.Name, e.Err)
	case "program":
		return fmt.Sprintf("there is no program %s here", e.Name)
	}
	return fmt.Sprintf("environment variable %s is not set", e.Name)
}

func (e *MissingError) Unwrap() error { return e.Err }

// LackedHere reports whether an error is a *MissingError.
func LackedHere(err error) bool { return errors.As(err, new(*MissingError)) }

// Missing is a *MissingError when the program that the request runs is not
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
		return &MissingError{"program", argv[0], err}
	}
	return nil
}

// Environment looks a variable up. A missing one is said by name.
func Environment(name string) (string, error) {
	value := os.Getenv(name)
	if value == "" {
		return "", &MissingError{What: "variable", Name: name}
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
		return "", &MissingError{"file", path, err}
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}
