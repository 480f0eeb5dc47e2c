package policy

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"
)

// Stale tells why an answer may show less than there is by now: it comes from a
// cache (RFC 9111 §5.1, §5.5; RFC 9211). "" when it is fresh. skew is how far the
// downstream's clock may be wrong.
func Stale(a ledger.Answer, skew time.Duration) string {
	h := http.Header(a.Header)
	if h.Get("X-Indoubt-Stale") != "" { // of a database that follows another one
		return "answer came from a replica, which may lag behind"
	}
	if old := aged(h); old != "" {
		return old
	}
	for _, warning := range h.Values("Warning") {
		if code, _, _ := strings.Cut(strings.TrimSpace(warning), " "); code == "110" || code == "111" || code == "112" || code == "113" {
			return fmt.Sprintf("answer came from a cache (Warning: %s)", code)
		}
	}
	for _, name := range []string{"Cache-Status", "X-Cache", "X-Cache-Status", "Cf-Cache-Status"} {
		if v := strings.Join(h.Values(name), ", "); saysHit(v) {
			return fmt.Sprintf("answer came from a cache (%s: %s)", name, shorten(v, 60))
		}
	}
	// A cache that hides itself leaves the date of what it kept. Dates are in
	// whole seconds.
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		if old := a.BeganAt.Sub(date); old > skew+time.Second {
			return fmt.Sprintf("answer is dated %s before it was asked for: it came from a cache, or the downstream's clock is off by more than `skew`", formatDuration(old.Round(time.Second)))
		}
	}
	return ""
}

// aged tells how old a cache says that its answer is, "" when it is fresh.
func aged(h http.Header) string {
	for _, age := range h.Values("Age") {
		age = strings.TrimSpace(age)
		seconds, err := strconv.ParseFloat(age, 64)
		switch {
		case age == "" || err == nil && seconds == 0:
		case err != nil || !(seconds > 0):
			return "answer came from a cache, of unknown age"
		default:
			return fmt.Sprintf("answer came from a cache, %s s old", formatNumber(seconds))
		}
	}
	return ""
}

// saysHit tells whether a cache on the way answered by itself.
func saysHit(v string) bool {
	words := strings.FieldsFunc(strings.ToLower(v), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	for i, w := range words {
		switch w {
		case "hit", "refreshhit", "stale", "updating":
			no := i+1 < len(words) && words[i+1] == "0" // hit=?0
			why := i > 0 && words[i-1] == "fwd"         // fwd=stale: it went on because of that
			if !no && !why {
				return true
			}
		}
	}
	return false
}
