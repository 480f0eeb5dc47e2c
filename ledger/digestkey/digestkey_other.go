//go:build !unix

package digestkey

import "io/fs"

const nonblock = 0

// open leaves the rights of a file to its directory here.
func open(fs.FileInfo) (why, do string) { return "", "" }

// syncDir is left to the system here, which cannot open a directory.
func syncDir(string) error { return nil }
