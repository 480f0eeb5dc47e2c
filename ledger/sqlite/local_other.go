//go:build !linux

package sqlite

// local cannot tell here, and trusts whoever chose the path.
func local(string) error { return nil }
