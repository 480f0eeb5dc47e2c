package policy

import (
	"bytes"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/record/secret"
)

const (
	// maxComplaint bounds, in bytes, how much of a command's standard error stands
	// in a reason.
	maxComplaint = 400
	// searched is how much of its end is looked at for that.
	searched = 16 << 10
)

// Complaint is the end of what a command said on standard error, as ": …" on one
// line and without what looks like a secret. It is empty
// where the command said nothing. Only whole lines are kept, and of a line that
// is too long whole words: half a secret would not be recognised any more.
func Complaint(a ledger.Answer) string {
	text := a.Stderr
	if len(text) > searched {
		text = text[len(text)-searched:]
		if i := bytes.IndexAny(text, " \t\r\n"); i >= 0 {
			text = text[i:]
		}
	}
	clean := secret.Without(strings.ToValidUTF8(string(text), "\uFFFD"), nil)
	said := ""
	for lines := strings.Split(clean, "\n"); len(lines) > 0; lines = lines[:len(lines)-1] {
		line := strings.Join(strings.Fields(lines[len(lines)-1]), " ")
		if line == "" {
			continue
		}
		if len(line)+len(said) >= maxComplaint {
			if said == "" {
				said = lastWords(line)
			}
			break
		}
		said = strings.TrimSuffix(line+" "+said, " ")
	}
	if said == "" {
		return ""
	}
	return ": " + said
}

// lastWords is the end of a line from the beginning of a word on, marked.
func lastWords(line string) string {
	_, end, _ := strings.Cut(line[len(line)-maxComplaint:], " ")
	if end == "" {
		return ""
	}
	return "… " + end
}
