//go:build soak

package drill

import (
	"slices"
	"strings"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/ledgertest/faults"
	"indoubt/ledger/need"
)

func init() {
	answersWithin = 2 * time.Second
	writeFaults = append(writeFaults, writeFault{faults.CommitAndHang, 1, ledger.ClassTimeout, 0}, writeFault{faults.HangBefore, 0, ledger.ClassTimeout, 0})
	hangingLists = append(hangingLists, listFault{faults.Trouble{Fault: faults.HangList}, func(_ fields, a ledger.Answer) bool { return a.Class == ledger.ClassTimeout }})
}

func TestASeedMakesTheSameNight(t *testing.T) {
	at := time.Date(2026, 3, 3, 2, 6, 0, 0, time.UTC)
	night := func() string {
		w := world(t, Options{Seed: 5, Now: at})
		var b strings.Builder
		rows := map[string]string{}
		var ids []string
		for _, r := range all(t, w) {
			rows[r.ID] = strings.Join([]string{r.ID, r.Title, string(r.State), string(r.Conflict), r.Token, r.Receipt(), string(r.ErrorClass), r.CreatedAt.UTC().String()}, " ")
			ids = append(ids, r.ID)
		}
		slices.Sort(ids)
		for _, id := range ids {
			b.WriteString(rows[id] + "\n")
		}
		return b.String()
	}
	if one, two := night(), night(); one != two {
		a, b := strings.Split(one, "\n"), strings.Split(two, "\n")
		for i := range min(len(a), len(b)) {
			need.Must(t, a[i] == b[i], "the nights differ first in\n%s\n%s", a[i], b[i])
		}
		t.Fatalf("%d and %d operations", len(a), len(b))
	}
}
