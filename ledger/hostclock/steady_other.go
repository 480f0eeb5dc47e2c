//go:build !linux && !darwin

package hostclock

import (
	"errors"
	"time"
)

func sinceBoot() (time.Duration, error) { return 0, errors.ErrUnsupported }
