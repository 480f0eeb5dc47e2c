package console

import (
	"context"
	"time"

	"indoubt/ledger"

	tea "charm.land/bubbletea/v2"
)

const (
	// arrives is how long the cursor rests on a row before others are told of it, and
	// atKeys how long after the last key its person still counts as looking.
	arrives = 3 * time.Second
	atKeys  = 2 * time.Minute
	// refreshed is how often others are told again.
	refreshed = 30 * time.Second
)

// attendance is what this console has told the others that its person looks at.
type attendance struct {
	told  ledger.Presence
	at    time.Time
	row   string // under the cursor or on the screen, since then
	since time.Time
}

type attendedMsg struct{}

// lookedAt is the id of the operation or the outage that is on the screen or under the
// cursor.
func lookedAt(m *Root) string {
	if o := outageAt(m); o != nil {
		return o.ID
	} else if row := m.table.Chosen(); row != nil && m.screen != onIncident {
		return row.ID
	}
	return ""
}

// attend tells other consoles which row or outage is looked at here, and whether a dialog about
// it is open.
func (m *Root) attend() tea.Cmd {
	a := &m.attendance
	now := ledger.Presence{Console: a.told.Console, Person: m.actor.Name}
	switch id, d := lookedAt(m), m.dialogs.Top(); {
	case m.feed.Closed(m.o.ReadOnly) != "" || m.o.AskName || m.feed.LastKey.IsZero() || m.Now.Sub(m.feed.LastKey) > atKeys:
	case d != nil && d.ID != "":
		now.Subject, now.Asks = d.ID, true
	case id != "":
		if now.Subject = id; a.row != id {
			a.row, a.since = id, m.Now
		}
		if m.Now.Sub(a.since) < arrives {
			return nil
		}
	}
	if now.Subject != "" {
		now.Until = m.Now.Add(ledger.PresenceLasts)
	}
	same := now.Person == a.told.Person && now.Subject == a.told.Subject && now.Asks == a.told.Asks
	if same && (now.Subject == "" || m.Now.Sub(a.at) < refreshed) {
		return nil
	}
	a.told, a.at = now, m.Now
	store, ctx := m.feed.Store, m.ctx
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_ = store.Attend(ctx, now) // else the others are told the next time
		return attendedMsg{}
	}
}

// end tells others that no one looks here any more. Of a console that ends without it
// they think so for as long as its presence lasts.
func (a attendance) end(ctx context.Context, store ledger.Store) {
	if a.told.Subject == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = store.Attend(ctx, ledger.Presence{Console: a.told.Console})
}
