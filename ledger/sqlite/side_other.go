//go:build !unix

package sqlite

import "os"

// openSide opens a file beside the ledger. Rights are inherited from its directory
// here.
func openSide(path, suffix string, how int) (*os.File, error) {
	return os.OpenFile(path+suffix, how, 0o600)
}

func regular(string) error    { return nil }
func readable(string) error   { return nil }
func writableBy(string) error { return nil }
func exposed(string) string   { return "" }

func share(_, group string, _ bool) error {
	return &GroupError{group, "set the rights of its directory instead"}
}

// syncDir is left to the system here, which cannot open a directory.
func syncDir(string) error { return nil }
