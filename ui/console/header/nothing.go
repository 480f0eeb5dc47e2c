package header

import (
	"indoubt/ledger"
	"indoubt/ui/console/draw"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

// Nothing is what an empty list says. Emptiness is only an all-clear where the
// ledger is known to be alive.
func (h *Header) Nothing(tab ledger.Tab, filter string, w int) []string {
	var lines []string
	say := func(p draw.Paint, format safe.Format, args ...any) {
		for _, l := range draw.Wrap(safe.Say(format, args...).String(), max(w-2, 8)) {
			lines = append(lines, draw.Left(" "+p.Render(l), w))
		}
	}
	say(h.Text, "")
	ago := func() string { return ticket.Ago(h.Now.Sub(h.Info.LastWrite)) }
	switch {
	case !h.Read && h.Lost != nil:
		say(h.Bad, "The ledger cannot be read. This is not an all-clear.")
		say(h.Text, "%s", h.Lost)
	case !h.Read:
		say(h.Faint, "Reading the ledger…")
	case h.Counts.All == 0 && filter == "":
		say(h.Strong, "Nothing was ever recorded here (created %s ago). Not an all-clear.", ticket.Age(h.Now.Sub(h.Info.CreatedAt)))
		say(h.Text, "")
		say(h.Text, "indoubt run --kind post -- curl --fail-with-body …")
		say(h.Faint, "records a write of your pipeline; it appears here by itself.")
	case h.Search.Running:
		say(h.Strong, "Nothing matches /%s so far.", filter)
	case h.Search.Stopped:
		say(h.Strong, "Nothing matches /%s in what was searched. The rest may hold some.", filter)
	case filter != "":
		say(h.Strong, "Nothing in this list matches /%s", filter)
		say(h.Faint, "esc shows all of it, 0 looks in every list")
	case tab == ledger.TabNeedsYou:
		by := safe.Text{}
		if h.Info.LastBy != "" {
			by = safe.Say(", %s", h.Info.LastBy)
		}
		if h.Lost != nil {
			say(h.Bad, "Nothing needed you when the ledger was last read. It is lost now: not an all-clear.")
			break
		}
		say(h.Good, "Nothing needs you. %s settled. Last write %s%s.", ledger.Count(h.Counts.Settled), ago(), by)
		if h.Counts.Checking > 0 {
			say(h.Faint, "%s in doubt are being checked: 2 shows them.", ledger.Count(h.Counts.Checking))
		}
		if h.Counts.Parked > 0 {
			say(h.Faint, "%s parked: 5 shows them.", ledger.Count(h.Counts.Parked))
		}
	case tab == ledger.TabChecking:
		say(h.Faint, "Nothing is being checked.")
	case tab == ledger.TabParked:
		say(h.Faint, "Nothing is parked.")
	case tab == ledger.TabInFlight:
		say(h.Faint, "Nothing is in flight.")
	default:
		say(h.Faint, "Nothing here yet.")
	}
	switch {
	case !h.Policy.Empty() || !h.Read:
	case h.Broken != nil:
		say(h.Text, "")
		say(h.Warn, "The policy file is broken: nothing is checked, costs are guesses.")
		say(h.Faint, ":policy says why.")
	default:
		say(h.Text, "")
		say(h.Warn, "No policy: nothing is checked, costs are guesses.")
		say(h.Faint, "indoubt policy init writes one to start from.")
	}
	return lines
}

// Searching says under a list how far its filter has come, where that is not to the end:
// no line, or one of w cells. esc is what Esc does to it.
func (h *Header) Searching(w int, esc safe.Format) []string {
	s := h.Search
	so := safe.Say("about %s of %s", ticket.Money(float64(s.Searched)), ticket.Money(float64(max(s.Of, s.Searched))))
	switch {
	case s.Running && h.Lost != nil:
		return []string{h.Bad.Render(draw.Left(safe.Say(" searched %s, and the ledger is lost", so).String(), w))}
	case s.Running:
		return []string{h.Warn.Render(draw.Left(safe.Say(" searched %s… %s", so, safe.Say(esc)).String(), w))}
	case s.Stopped:
		return []string{h.Warn.Render(draw.Left(safe.Say(" stopped after %s: not all was searched; / ↵ goes on", so).String(), w))}
	}
	return nil
}
