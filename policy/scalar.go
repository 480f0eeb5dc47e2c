package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger/lazyregexp"
	"indoubt/policy/expr"
)

var durationPart = lazyregexp.New(`^(\d+(?:\.\d+)?)(ms|s|m|h|d|w)`)

var durationUnits = map[string]time.Duration{
	"ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour,
}

// maxDuration keeps sums of a few durations and today far from overflow.
const maxDuration = 10 * 366 * 24 * time.Hour

const durationHint = "a duration is written 500ms, 30s, 2m, 12h, 7d or 1h30m"

// parseDuration reads 2m, 7d, 1h30m, 0s. There are no negative durations.
func parseDuration(text string) (time.Duration, error) {
	rest := strings.TrimSpace(text)
	if rest == "0" {
		return 0, nil
	}
	if rest == "" {
		return 0, fmt.Errorf("it is empty")
	}
	var total float64
	for rest != "" {
		m := durationPart.FindStringSubmatch(rest)
		if m == nil {
			return 0, fmt.Errorf("%q is not a duration", text)
		}
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration", text)
		}
		total += n * float64(durationUnits[m[2]])
		rest = rest[len(m[0]):]
	}
	if total > float64(maxDuration) {
		return 0, fmt.Errorf("%q is longer than ten years", text)
	}
	return time.Duration(math.Round(total)), nil
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

// formatDuration writes a duration the way the file does.
func formatDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	for _, u := range []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if n := d / u.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d -= n * u.size
		}
	}
	if b.Len() == 0 {
		return d.String()
	}
	return b.String()
}

// Insert puts the correlation token into an input where the rule says, for
// senders that carry JSON. The same token twice changes nothing; another value
// in its place, or an input that has no such place, is an error.
func (t TokenRule) Insert(input json.RawMessage, token string) (json.RawMessage, error) {
	if t.Into == "" && t.Append == "" {
		return input, nil
	}
	data, err := decodeWire(input)
	if err != nil {
		return nil, err
	}
	if data, err = t.insert(data, token); err != nil {
		return nil, err
	}
	return json.Marshal(data)
}

// decodeWire reads JSON so that it can be written again digit by digit.
func decodeWire(input json.RawMessage) (any, error) {
	if len(input) == 0 {
		return map[string]any{}, nil
	}
	d := json.NewDecoder(strings.NewReader(string(input)))
	d.UseNumber()
	var data any
	if err := d.Decode(&data); err != nil {
		return nil, fmt.Errorf("the recorded input is not JSON")
	}
	return data, nil
}

// insert is Insert for an input that is decoded, which it changes.
func (t TokenRule) insert(data any, token string) (any, error) {
	path := cmp.Or(t.Append, t.Into)
	if path == "" {
		return data, nil
	}
	steps, err := expr.ParsePath(path)
	if err != nil {
		return nil, err
	}
	nowhere := fmt.Errorf("the token has no place: input.%s does not exist", path)
	return steps.Set(data, nowhere, func(old any) (any, error) {
		list, isList := old.([]any)
		text, isText := old.(string)
		switch {
		case t.Append == "" && old != nil && old != token:
			return nil, fmt.Errorf("the token has no place: input.%s is taken", path)
		case t.Append == "":
			return token, nil
		case isText:
			return behind(text, token), nil
		case old != nil && !isList:
			return nil, fmt.Errorf("the token cannot be added: input.%s is neither a list nor a text", path)
		case slices.Contains(list, any(token)):
			return list, nil
		}
		return append(list, token), nil
	})
}

// behind is a text with the token as a word of its own at its end: in a paragraph of
// its own where the text has lines. Recorders put it in the same way.
func behind(text, token string) string {
	separator := " "
	switch {
	case text == "" || text == token:
		return token
	case strings.Contains(text, "\n"):
		separator = "\n\n"
	}
	if strings.HasSuffix(text, separator+token) {
		return text
	}
	return text + separator + token
}
