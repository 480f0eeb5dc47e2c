//go:build !linux

package sqlite

import (
	"errors"
	"os"
)

func diskAt(string) (free, total int64, err error) { return 0, 0, errors.ErrUnsupported }

func allocate(*os.File, int64) error { return errors.ErrUnsupported }
