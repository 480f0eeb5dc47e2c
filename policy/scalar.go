package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/ledger/wire/carry"
)

// maxDuration keeps sums of a few durations and today far from overflow.
const maxDuration = 10 * 366 * 24 * time.Hour

const durationHint = "a duration is written 500ms, 30s, 2m, 12h, 7d or 1h30m"

// parseDuration reads 2m, 7d, 1h30m, 0s. There are no negative durations.
func parseDuration(text string) (time.Duration, error) {
	d, err := ledger.ParseDuration(strings.TrimSpace(text))
	switch {
	case err != nil || d < 0:
		return 0, fmt.Errorf("%q is not a duration", text)
	case d > maxDuration:
		return 0, fmt.Errorf("%q is longer than ten years", text)
	}
	return d, nil
}

// parseRange reads 500ms..30s; one duration alone is both ends.
func parseRange(text string) (low, high time.Duration, err error) {
	a, b, two := strings.Cut(text, "..")
	if low, err = parseDuration(a); err != nil {
		return 0, 0, err
	}
	if !two {
		return low, low, nil
	}
	if high, err = parseDuration(b); err != nil {
		return 0, 0, err
	}
	if high < low {
		return 0, 0, fmt.Errorf("%q ends before it begins", text)
	}
	return low, high, nil
}

var ratePattern = lazyregexp.New(`^(\d+(?:\.\d+)?)/(s|m|min|h)$`)

// parseRate reads 20/s, 600/m, 1000/h as a number per second.
func parseRate(text string) (float64, error) {
	m := ratePattern.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return 0, fmt.Errorf("%q is not a rate", text)
	}
	n, err := strconv.ParseFloat(m[1], 64)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("%q is not a rate above zero", text)
	}
	switch m[2] {
	case "m", "min":
		n /= 60
	case "h":
		n /= 3600
	}
	return n, nil
}

var sizePattern = lazyregexp.New(`^(\d+)\s*(B|KB|MB|KiB|MiB)?$`)

// parseSize reads 4096, 64KB, 2MiB as bytes.
func parseSize(text string) (int64, error) {
	m := sizePattern.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return 0, fmt.Errorf("%q is not a size", text)
	}
	n, err := strconv.ParseInt(m[1], 10, 40)
	if err != nil {
		return 0, fmt.Errorf("%q is too large", text)
	}
	n *= map[string]int64{"": 1, "B": 1, "KB": 1000, "MB": 1000 * 1000, "KiB": 1 << 10, "MiB": 1 << 20}[m[2]]
	if n < 1 || n > 256<<20 {
		return 0, fmt.Errorf("%q is outside 1 B … 256 MiB", text)
	}
	return n, nil
}

// Insert puts the correlation token into an input where the rule says, and errs where the
// input has no such place. The same token twice changes nothing.
func (t TokenRule) Insert(input json.RawMessage, token string) (json.RawMessage, error) {
	path := cmp.Or(t.Append, t.Into)
	if path == "" {
		return input, nil
	}
	at, err := carry.At(path, t.Append != "")
	if err == nil {
		if placed, ok := at.JSON(input, token); ok {
			return placed, nil
		}
	}
	return nil, fmt.Errorf("the token has no place at input.%s", path)
}
