package console

import (
	"context"
	"errors"
	"strings"

	"indoubt/ledger"
	"indoubt/ui/act"
	"indoubt/ui/console/ask"
	"indoubt/ui/console/dialog"
	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"

	tea "charm.land/bubbletea/v2"
)

// A bulk run is a record of the ledger. This console drives one at a time; any other
// console sees how far it is, and goes on where this one stops.

func hands(m *Root) act.Hands {
	h := act.Hands{Store: m.feed.Store, Actor: m.actor, Looks: func(kind string) ledger.Looks { return m.o.Policy().Kind(kind).Looks }}
	if m.o.Engine != nil {
		h.Engine = m.o.Engine
	}
	return h
}

// start begins a bulk run. Each of its items goes the way of a single one.
func (m *Root) start(a ask.Start) tea.Cmd {
	items := make([]ledger.RunItem, len(a.Items))
	for i, it := range a.Items {
		items[i] = it.RunItem
	}
	record := ledger.DecisionRun{Verb: string(a.Verb), Actor: m.actor, CreatedAt: m.Now, Terms: ledger.RunTerms{Outage: a.OfOne(), Reason: a.Reason, Reference: a.Reference, Truth: a.Truth, Until: a.Until}}
	if record.Sends() {
		record.Terms.Policy = m.o.Policy().Digest()
	}
	m.run = act.New(m.feed.Store, record, items, hands(m).Step(record))
	m.form = m.asking.form
	m.table.Marks = nil
	return m.proceed()
}

// driveOn drives a run of the ledger on from here, unless another one is driven.
func driveOn(m *Root, run ledger.DecisionRun) tea.Cmd {
	if m.run != nil { // it was chosen from :runs
		m.warn("%s", underWay)
		return nil
	}
	m.form, m.run = nil, act.Resume(m.feed.Store, run, m.actor, hands(m).Step(run))
	return m.proceed()
}

// stepMsg is the end of one step of a bulk run.
type stepMsg struct {
	run    *act.Run
	result act.Result
}

// proceed carries out the next step of the run, or shows what became of it.
func (m *Root) proceed() tea.Cmd {
	run := m.run
	if run == nil || m.leaving.asked {
		return nil
	}
	if run.Over() {
		m.run = nil
		if err := run.Err(); err != nil && !run.Begun() { // what was typed stays
			if m.form != nil {
				m.form.Again()
				m.show(m.form)
			}
			m.show(ask.Refused(ask.RunTitle(run.Record), err))
			return m.feed.Reload()
		} else if err != nil {
			m.warn("the run stops here: %s", err)
		}
		if in := run.Record.Terms.Outage; run.Err() == nil && run.Record.State == ledger.RunDone && m.screen == onOutage && in == m.outage.ID {
			return m.feed.Reload() // it ends where it was begun: its line stands there
		}
		return tea.Batch(m.feed.Reload(), accountFor(m, ask.OpenRun{ID: run.Record.ID}))
	}
	work := run.Next()
	if work == nil {
		return nil
	}
	ctx := context.WithoutCancel(m.ctx)
	m.writing++
	return func() tea.Msg {
		if !m.writes.TryRLock() {
			return nil // the program is over
		}
		defer m.writes.RUnlock()
		return stepMsg{run, work(ctx)}
	}
}

// halt pauses a run, from wherever it is driven, or ends it.
func halt(m *Root, run ledger.DecisionRun, end bool) tea.Cmd {
	store, actor := m.feed.Store, m.actor
	word := safe.Say("paused, after what is under way")
	if end {
		word = safe.Say("ended")
	}
	return m.write(ask.RunTitle(run), "", func(ctx context.Context) (safe.Text, error) {
		err := act.Halt(ctx, store, run, actor, "", end)
		return safe.Say("%s: %s", ask.RunTitle(run), word), err
	})
}

// openOrPause pauses the run that is driven from here, or shows the newest one.
func openOrPause(m *Root) tea.Cmd {
	if m.run != nil {
		return halt(m, m.run.Record, false)
	}
	return accountFor(m, ask.OpenRun{ID: m.feed.Runs[0].ID})
}

func accountFor(m *Root, of ask.OpenRun) tea.Cmd { return m.question(feed.Patience, told(m, of)) }

var runsAtMost = 100

// told reads a run, or the list of them, for a dialog.
func told(m *Root, what dialog.Action) func(context.Context) (*dialog.Dialog, error) {
	store, frame, clock := m.feed.Store, m.Frame, m.o.Clock
	closed, sends := m.feed.Closed(m.o.ReadOnly), m.o.Engine != nil
	return func(ctx context.Context) (*dialog.Dialog, error) {
		of, one := what.(ask.OpenRun)
		if !one {
			runs, err := store.Runs(ctx, ledger.RunQuery{Limit: runsAtMost + 1})
			frame.Now = clock()
			return ask.List(&frame, runs, runsAtMost), err
		}
		r, err := act.Read(ctx, store, of.ID)
		if errors.Is(err, ledger.ErrNotFound) {
			err = errors.New("this run is not in the ledger: nothing was begun")
		}
		if err != nil {
			return nil, err
		}
		frame.Now = clock()
		return ask.Sheet(&frame, r, of, closed, sends), nil
	}
}

// renewMsg is a dialog as it would be asked now.
type renewMsg struct{ dialog *dialog.Dialog }

// renew reads anew what an open dialog tells: a run goes on while it is looked at.
func renew(m *Root) tea.Cmd {
	d := m.dialogs.Top()
	if d == nil || d.Renew == nil {
		return nil
	}
	work, ctx := told(m, d.Renew), m.ctx
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, feed.Patience)
		defer cancel()
		now, err := work(ctx)
		if err != nil { // the next look may work
			return nil
		}
		return renewMsg{now}
	}
}

// progress shows the run that is driven from here: █████░░░ 41/68   40 landed · 1 unclear.
func progress(m *Root, w int) string {
	m.Ticks = true
	text := safe.Say(" %s", bar(m.run.Record))
	return keyed(m, "p pause", w, safe.Say("%s   %s", text, m.run.Tally()), text)
}

// openRun shows the newest run that waits, stands still or is driven from elsewhere.
func openRun(m *Root, w int) string {
	run := m.feed.Runs[0]
	m.Ticks = m.Ticks || run.State == ledger.RunRunning
	how := act.State(run, m.Now)
	text := safe.Say(" %s %s: %s", bar(run), ask.RunTitle(run), how)
	return keyed(m, "p look", w, safe.Say("%s   %s", text, act.Account{Record: run}.Tally()), text, safe.Say(" %s %s", bar(run), how), safe.Say(" %s", how))
}

// keyed is the longest of these lines that fits, with its key at the end, which is never
// cut off.
func keyed(m *Root, key string, w int, lines ...safe.Text) string {
	texts := make([]string, len(lines))
	for i, line := range lines {
		texts[i] = line.String()
	}
	room := max(w-draw.Width(key)-3, 0)
	line := draw.Cut(ticket.Fit(room, texts...), room)
	return m.Strong.Render(line) + "   " + m.Accent.Render(draw.Left(key, max(w-draw.Width(line)-3, 0)))
}

func bar(run ledger.DecisionRun) safe.Text {
	const room = 8
	full := room * run.Done() / max(run.Size, 1)
	return safe.Say("%s%s %s/%s", strings.Repeat("█", full), strings.Repeat("░", room-full), ledger.Count(run.Done()), ledger.Count(run.Size))
}
