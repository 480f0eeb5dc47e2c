package transport

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/redact"
	"indoubt/policy/expr"
)

// Usable refuses an answer that no expression may be evaluated on.
func Usable(a *ledger.Answer) error {
	_, server := by(a).(overMCP)
	switch {
	case a.Err != nil && a.Status != 0 && len(a.Body) > 0:
		return fmt.Errorf("answer broke off after %d bytes: %s", len(a.Body), cmp.Or(string(a.Class), a.Err.Error()))
	case a.Err != nil && a.Class != "" && !(server && a.Class == ledger.ClassEOF): // a server that ended says why
		return fmt.Errorf("the check got no answer: %s%s", a.Class, complaint(*a))
	case a.Err != nil:
		return fmt.Errorf("the check got no answer: %w", a.Err)
	}
	return by(a).usable(a)
}

// Stale says why an answer may show less than there is now: it comes from a
// cache (RFC 9111 §5.1, §5.5; RFC 9211), or from a replica. "" when it is fresh.
func Stale(a ledger.Answer) string {
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
			return fmt.Sprintf("answer came from a cache (%s: %s)", name, expr.Shorten(v, 60))
		}
	}
	// A cache that hides itself leaves the date of what it kept. Dates are in
	// whole seconds.
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		if old := a.BeganAt.Sub(date); old > ledger.Skew+time.Second {
			return fmt.Sprintf("answer is dated %s before it was asked for: it came from a cache, or the downstream's clock is off",
				ledger.Brief(old.Round(time.Second)))
		}
	}
	return ""
}

// WithoutAge is the answer without the age that was taken account of.
func WithoutAge(a ledger.Answer) ledger.Answer {
	if _, old := a.Header["Age"]; old {
		a.Header = maps.Clone(a.Header)
		delete(a.Header, "Age")
	}
	return a
}

// aged says how old an answer is by its own headers, "" when it is fresh.
func aged(h http.Header) string {
	for _, age := range h.Values("Age") {
		age = strings.TrimSpace(age)
		seconds, err := strconv.ParseFloat(age, 64)
		switch {
		case age == "" || err == nil && seconds == 0:
		case err != nil || !(seconds > 0):
			return "answer came from a cache, of unknown age"
		default:
			return fmt.Sprintf("answer came from a cache, %s s old", expr.FormatNumber(seconds))
		}
	}
	return ""
}

// saysHit reports whether a cache on the way answered by itself.
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

const (
	// maxComplaint bounds, in bytes, how much of a command's standard error stands
	// in a reason.
	MaxComplaint = 400
	// searched is how much of the end of standard error is searched for it.
	searched = 16 << 10
)

// complaint is the end of a command's standard error as ": …" on one line, without
// what looks like a secret, and "" where the command wrote nothing. It keeps whole
// words: half a secret would not be recognised.
func complaint(a ledger.Answer) string {
	text := a.Stderr
	if len(text) > searched {
		text = text[len(text)-searched:]
		if i := bytes.IndexAny(text, " \t\r\n"); i >= 0 {
			text = text[i:]
		}
	}
	said := strings.Join(strings.Fields(redact.Without(strings.ToValidUTF8(string(text), "\uFFFD"), nil)), " ")
	if over := len(said) - MaxComplaint; over > 0 {
		if _, said, _ = strings.Cut(said[over:], " "); said != "" {
			said = "… " + said
		}
	}
	if said == "" {
		return ""
	}
	return ": " + said
}
