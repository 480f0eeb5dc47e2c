package ledger

import (
	"fmt"
	"strings"
)

// Meant is a hint at the candidate that is closest to a word, "" when none is close.
func Meant(word string, candidates []string) string {
	best, bestDistance := "", 64
	for _, c := range candidates {
		d, most := distance(strings.ToLower(word), strings.ToLower(c)), max(1, len(word)/3)
		if word != "" && c != "" && strings.EqualFold(word[:1], c[:1]) {
			most = len(word)/3 + 1 // a slip is seldom in the first letter
		}
		if d <= most && d < bestDistance {
			best, bestDistance = c, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean `%s`?", best)
}

// DidYouMean is Meant, else a list of all candidates if they are few.
func DidYouMean(word string, candidates []string) string {
	if hint := Meant(word, candidates); hint != "" {
		return hint
	}
	if len(candidates) > 0 && len(candidates) <= 12 {
		return "known here: " + strings.Join(candidates, ", ")
	}
	return ""
}

// distance counts the letters to insert, drop, change or swap.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	two, one := []int(nil), make([]int, len(b)+1)
	for j := range one {
		one[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(row[j-1]+1, one[j]+1, one[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], two[j-2]+1)
			}
		}
		two, one = one, row
	}
	return one[len(b)]
}
