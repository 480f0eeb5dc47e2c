//go:build !linux

package procgroup

import (
	"errors"
	"time"

	"indoubt/ledger"
)

func noProcess(int) bool { return false }

func pidNamespace() string { return "" }

func uptime() (time.Duration, error) { return 0, errors.ErrUnsupported }

func marked(ledger.Attempt, ledger.Place) ([]Process, error) { return nil, errors.ErrUnsupported }
