//go:build !linux

package cli

import "errors"

// freeSpace is told on Linux only.
func freeSpace(string) (int64, error) { return 0, errors.ErrUnsupported }
