package ticket

import (
	"errors"
	"fmt"
	"time"

	"indoubt/ledger"
	"indoubt/ui/safe"
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

// Ago is how long ago something was. What the clock has still before it, since that was
// set back, is not news.
func Ago(d time.Duration) string {
	if d <= -time.Minute {
		return "in " + Age(-d) + " by the clock"
	}
	return Age(d) + " ago"
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

// Until reads a time to come as a person types it: see ledger.ParseWhen.
func Until(text string, now time.Time, zone *time.Location) (time.Time, error) {
	if w, err := ledger.ParseWhen(text, zone); err == nil && w.Future(now).After(now) {
		return w.Future(now), nil
	}
	return time.Time{}, errors.New("until when: 2h, 1d, tomorrow, 07:00, 2006-01-02 15:04 or an RFC 3339 time, and still to come")
}

// Failover is what may be missing since a ledger's database failed over, to the next
// whole second; an empty text where it did not.
func Failover(f ledger.Failover, zone *time.Location) safe.Text {
	if f.At.IsZero() {
		return safe.Text{}
	}
	return safe.Say("FAILOVER %s: up to %s may be missing", f.At.In(zone).Format("15:04"), Span(f.AtMost()))
}
