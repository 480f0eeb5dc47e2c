//go:build !linux

package sqlite

// Holders is not told here.
func Holders(string) []string { return nil }

// Readers are not told here.
func Readers(string) []string { return nil }
