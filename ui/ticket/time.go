package ticket

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"indoubt/ledger"
)

// Age is a span in at most three cells where it can: 9s, 41m, 23h, 3d.
func Age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	case d < 1000*24*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
	return fmt.Sprintf("%dy", int(d.Hours()/24/365))
}

// Span is a countdown: 40s, 9m12s, 23h07m, 6d.
func Span(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 10*time.Minute:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 72*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// Moment is a time of day, with the weekday when it is not today's, and the
// date when it is not this week's.
func Moment(t, now time.Time, loc *time.Location) string {
	t, now = t.In(loc), now.In(loc)
	layout := "15:04:05"
	if t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		layout = "Mon 15:04"
		if d := now.Sub(t); d > 6*24*time.Hour || d < -6*24*time.Hour {
			layout = "2006-01-02 15:04"
		}
	}
	return t.Format(layout)
}

// Until reads a time to come as a person types it: a duration from now, a time of
// day (the next one there is), a date with a time, or RFC 3339.
func Until(text string, now time.Time, zone *time.Location) (time.Time, error) {
	text = strings.TrimSpace(text)
	if d, err := ledger.ParseDuration(text); err == nil && d > 0 {
		return now.Add(d), nil
	}
	here := now.In(zone)
	if t, err := time.ParseInLocation("15:04", text, zone); err == nil {
		at := time.Date(here.Year(), here.Month(), here.Day(), t.Hour(), t.Minute(), 0, 0, zone)
		if !at.After(now) {
			at = time.Date(here.Year(), here.Month(), here.Day()+1, t.Hour(), t.Minute(), 0, 0, zone)
		}
		return at, nil
	}
	if t, err := ledger.ParseTime(text, zone); err == nil && t.After(now) {
		return t, nil
	}
	return time.Time{}, errors.New("until when: 2h, 1d, 07:00, 2006-01-02 15:04 or an RFC 3339 time, and still to come")
}
