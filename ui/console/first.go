package console

import (
	"fmt"

	"indoubt/ui/ticket"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

// nothing is what an empty list says. Emptiness is only an all-clear where the
// ledger is known to be alive.
func (m *Root) nothing(w int) []string {
	var lines []string
	say := func(p paint, text string) {
		for _, l := range wrap(text, max(w-2, 8)) {
			lines = append(lines, fit(" "+p.s(l), w))
		}
	}
	say(m.th.text, "")
	ago := func() string { return ticket.Age(m.at.Sub(m.info.LastWrite)) }
	switch {
	case !m.list.read && m.lost != nil:
		say(m.th.bad, "The ledger cannot be read. This is not an all-clear.")
		say(m.th.text, safe.Of(m.lost.Error()).String())
	case !m.list.read:
		say(m.th.faint, "Reading the ledger…")
	case m.counts.All == 0 && m.filter.Text == "":
		say(m.th.strong, fmt.Sprintf("Nothing was ever recorded here (created %s ago). Not an all-clear.", ticket.Age(m.at.Sub(m.info.CreatedAt))))
		say(m.th.text, "")
		say(m.th.text, "indoubt run --kind post -- curl --fail-with-body …")
		say(m.th.faint, "records a write of your pipeline; it appears here by itself.")
	case m.filter.Text != "":
		say(m.th.strong, "Nothing in this list matches /"+safe.Of(m.filter.Text).String())
		say(m.th.faint, "esc shows all of it, 0 looks in every list")
	case m.tab == ledger.TabNeedsYou:
		by := ""
		if m.info.LastBy != "" {
			by = ", " + m.info.LastBy
		}
		if m.lost != nil {
			say(m.th.bad, "Nothing needed you when the ledger was last read. It is lost now: not an all-clear.")
			break
		}
		say(m.th.good, fmt.Sprintf("Nothing needs you. %s settled. Last write %s ago%s.", ticket.Grouped(float64(m.counts.Settled), 0), ago(), by))
		if m.counts.Checking > 0 {
			say(m.th.faint, fmt.Sprintf("%d in doubt are being checked: 2 shows them.", m.counts.Checking))
		}
		if m.counts.Parked > 0 {
			say(m.th.faint, fmt.Sprintf("%d parked: 0 shows them.", m.counts.Parked))
		}
	case m.tab == ledger.TabChecking:
		say(m.th.faint, "Nothing is being checked.")
	case m.tab == ledger.TabInFlight:
		say(m.th.faint, "Nothing is in flight.")
	default:
		say(m.th.faint, "Nothing here yet.")
	}
	if m.noPolicy() && m.list.read {
		say(m.th.text, "")
		say(m.th.warn, "No policy: nothing is checked, costs are guesses.")
		say(m.th.faint, "indoubt policy init writes one to start from.")
	}
	return lines
}
