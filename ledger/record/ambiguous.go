package record

import (
	"fmt"
	"regexp"
	"strconv"
)

var (
	saidStatus = regexp.MustCompile(`(?i)\b(?:HTTP(?:/[0-9.]+)?|status(?:[ _-]?code)?)[ :=]*([1-5][0-9]{2})\b`)
	saidLost   = regexp.MustCompile(`(?i)\b(?:time(?:d)?[ -]?out|reset by peer|connection reset|broken pipe|unexpected eof|empty reply|deadline exceeded|hung up|killed|no answer)\b`)
)

// Ambiguous tells what in a report of failure speaks against it: an error class,
// or a text that names an answer which proves nothing. It is "" when
// nothing does. It is for reports by people and scripts; an Answer is judged by
// Judge.
func Ambiguous(class, text string) string {
	if class != "" {
		return fmt.Sprintf("the error class %q", class)
	}
	if m := saidStatus.FindStringSubmatch(text); m != nil {
		if status, err := strconv.Atoi(m[1]); err == nil && !refusedStatus[status] {
			return fmt.Sprintf("HTTP %d", status)
		}
	}
	if m := saidLost.FindString(text); m != "" {
		return fmt.Sprintf("%q", m)
	}
	return ""
}
