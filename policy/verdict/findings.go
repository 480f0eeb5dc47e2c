package verdict

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"indoubt/ledger"
)

const (
	// maxMarks bounds how many marks of others a read keeps: of its first and of its
	// last candidates.
	maxMarks = 500
	// strangersLead is how much later than an operation's end an effect of anyone must
	// have been made, by the other side's clock, to show that the check sees so late.
	strangersLead = 10 * time.Minute
)

// Siblings are other operations that the check of one finds, as a person may read them.
// They show that it can see, and how late.
type Siblings struct {
	Older   string // one whose last attempt had ended before the first of this one; "" for none
	Younger string // one whose first attempt began after the last of this one had ended; "" for none
	Cause   ledger.Cause
	Why     string // why one was not looked for, with its Cause
}

// other notes a candidate that is not the operation's: what it shows of others.
func (f *Found) Other(marks []string, made time.Time) {
	f.Marks = trimMarks(append(f.Marks, marks...))
	if made.After(f.Latest) {
		f.Latest = made
	}
}

func trimMarks(marks []string) []string {
	if over := len(marks) - maxMarks; over > 0 {
		marks = slices.Delete(marks, maxMarks/2, maxMarks/2+over)
	}
	return marks
}

// Add takes in what one more page shows, of at most so many, and gives the cursor of the
// following one; nil where none is to be asked for.
func (f *Findings) Add(page Found, most int) (next any) {
	if f.pages++; f.earlier == nil {
		f.earlier, f.cursors = map[string]bool{}, map[string]bool{}
	}
	f.Others, f.Unmarked = f.Others+page.Others, f.Unmarked+page.Unmarked
	f.Marks = trimMarks(append(f.Marks, page.Marks...))
	if page.Latest.After(f.Latest) {
		f.Latest = page.Latest
	}
	here := map[string]bool{}
	for _, e := range page.Effects {
		name := e.Receipt
		if name == "" { // two that are equal on one page are two, on two pages one
			name = "\x00" + string(e.Value)
		}
		if f.earlier[name] || e.Receipt != "" && here[name] {
			continue // pages shift while they are read
		}
		here[name] = true
		f.Effects = append(f.Effects, e)
	}
	maps.Copy(f.earlier, here)
	cursor := fmt.Sprint(page.Next)
	switch {
	case page.Complete:
	case page.Next == nil && page.Paged:
		f.Incomplete = "the list has several pages, and may have shifted while it was read"
	case page.Next == nil:
		f.Incomplete = "the answer is not known to be the whole list, and there is no further page to ask for"
	case f.cursors[cursor]:
		f.Incomplete = "the list goes round in circles"
	case f.pages == most:
		f.Incomplete = fmt.Sprintf("page limit reached: the list goes on after page %d", most)
	default:
		f.cursors[cursor] = true
		return page.Next
	}
	return nil
}
