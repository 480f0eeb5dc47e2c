//go:build !unix

package sqlite

// fileID is not known here: only the host tells a copy.
func fileID(string) (device, inode string, err error) { return "", "", nil }
