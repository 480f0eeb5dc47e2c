//go:build !linux

package sqlite

import (
	"errors"
	"os"
)

func freeBytes(string) (int64, error) { return 0, errors.ErrUnsupported }

func allocate(*os.File, int64) error { return errors.ErrUnsupported }
