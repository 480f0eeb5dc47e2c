package ledger

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// When is a moment as a person names it: a duration from now, a day, a time of day or a
// time that is written out. Its zero value names none.
type When struct {
	form byte // 'd' duration, 'D' day, 'c' time of day, 't' time
	span time.Duration
	days int // from today
	time time.Time
	zone *time.Location
}

// WhenHelp lists what ParseWhen reads.
const WhenHelp = "30m, 7d, today, yesterday, 06:00, 2026-07-14, 2026-07-14T03:00Z or '2026-07-14 05:00 CEST'"

// ParseWhen reads a duration (90s, 30m, 7d), today, yesterday, tomorrow, a time of day
// (06:00), a date, a date with a time of day, and RFC 3339. A zone is Z, an offset, a name
// as Europe/Berlin, or the short name that zone itself uses then; without one it is zone.
func ParseWhen(text string, zone *time.Location) (When, error) {
	text = strings.TrimSpace(text)
	if days, ok := map[string]int{"yesterday": -1, "today": 0, "tomorrow": 1}[strings.ToLower(text)]; ok {
		return When{form: 'D', days: days, zone: zone}, nil
	}
	if d, err := ParseDuration(text); err == nil && d > 0 {
		return When{form: 'd', span: d}, nil
	}
	if t, err := time.ParseInLocation("15:04", text, zone); err == nil {
		return When{form: 'c', time: t, zone: zone}, nil
	}
	if t, ok := parseTime(text, zone); ok {
		return When{form: 't', time: t}, nil
	}
	return When{}, fmt.Errorf("%q is not a time such as %s", text, WhenHelp)
}

// parseTime reads a time that is written out.
func parseTime(text string, zone *time.Location) (time.Time, bool) {
	short := ""
	if i := strings.LastIndexByte(text, ' '); i > 0 && !strings.Contains(text[i:], ":") {
		switch text, short = strings.TrimSpace(text[:i]), text[i+1:]; {
		case short == "UTC" || short == "GMT":
			zone, short = time.UTC, ""
		case strings.Contains(short, "/"):
			named, err := time.LoadLocation(short)
			if err != nil {
				return time.Time{}, false
			}
			zone, short = named, ""
		}
	}
	text = strings.Replace(text, " ", "T", 1)
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			name, _ := t.Zone()
			return t, short == "" || short == name
		}
	}
	return time.Time{}, false
}

// Past is the moment as one that has been: a duration before now, the last such time of
// day.
func (w When) Past(now time.Time) time.Time { return w.at(now, -1) }

// Future is the moment as one to come: a duration from now, the next such time of day.
func (w When) Future(now time.Time) time.Time { return w.at(now, 1) }

func (w When) at(now time.Time, way int) time.Time {
	switch w.form {
	case 'd':
		return now.Add(time.Duration(way) * w.span)
	case 't':
		return w.time
	}
	y, m, d := now.In(w.zone).Date()
	if w.form == 'D' {
		return time.Date(y, m, d+w.days, 0, 0, 0, 0, w.zone)
	}
	at := time.Date(y, m, d, w.time.Hour(), w.time.Minute(), 0, 0, w.zone)
	if way < 0 && at.After(now) || way > 0 && !at.After(now) {
		at = time.Date(y, m, d+way, w.time.Hour(), w.time.Minute(), 0, 0, w.zone)
	}
	return at
}

// ParseDuration reads a duration as time.ParseDuration does, and days (7d, 1d12h).
func ParseDuration(s string) (time.Duration, error) {
	wrong := fmt.Errorf("%q is not a duration such as 90s, 30m, 2h or 7d", s)
	var d time.Duration
	if days, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > 36500 {
			return 0, wrong
		}
		if d, s = time.Duration(n)*24*time.Hour, rest; rest == "" {
			return d, nil
		}
	}
	rest, err := time.ParseDuration(s)
	if err != nil {
		return 0, wrong
	}
	return d + rest, nil
}

// Brief is a time to wait, in one or two units, rounded up below a minute.
func Brief(d time.Duration) string {
	switch {
	case d <= time.Second:
		return "1 s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int((d+time.Second-1)/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d/time.Minute), int(d%time.Minute/time.Second))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d/time.Hour), int(d%time.Hour/time.Minute))
	}
	return fmt.Sprintf("%dd", int(d/(24*time.Hour)))
}

// Skew is how far the clocks of a host and of a downstream may disagree.
const Skew = time.Second
