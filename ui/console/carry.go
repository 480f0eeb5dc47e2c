package console

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"indoubt/ledger"
	"indoubt/ui/act"
	"indoubt/ui/console/ask"
	"indoubt/ui/console/dialog"
	"indoubt/ui/console/draw"
	"indoubt/ui/console/feed"
	"indoubt/ui/console/prompt"
	"indoubt/ui/console/table"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"

	tea "charm.land/bubbletea/v2"
)

// doneMsg is the end of something a person asked for.
type doneMsg struct {
	what  safe.Text // a sentence about what it did
	title safe.Text
	id    string // of the operation it was about
	err   error
	wrote bool
	form  *dialog.Dialog // that asked for it, where something was typed
}

// write runs f as a write in flight: it is not cut off by leaving.
func (m *Root) write(title safe.Text, id string, f func(ctx context.Context) (safe.Text, error)) tea.Cmd {
	ctx, form := context.WithoutCancel(m.ctx), m.asking.form
	m.writing++
	return func() tea.Msg {
		if !m.writes.TryRLock() {
			return doneMsg{title: title, err: errors.New("the console is closing"), wrote: true}
		}
		defer m.writes.RUnlock()
		what, err := f(ctx)
		return doneMsg{what: what, title: title, id: id, err: err, wrote: true, form: form}
	}
}

func (m *Root) carry(action dialog.Action) tea.Cmd {
	store, engine, actor, now := m.feed.Store, m.o.Engine, m.actor, m.o.Clock()
	switch a := action.(type) {
	case ask.Decide:
		a.ChangeID, a.Actor = ledger.NewID(), actor
		return m.write(a.Title, a.ID, func(ctx context.Context) (safe.Text, error) {
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			_, err := ledger.Decide(ctx, store, a.Decision)
			return safe.Say("%s: %s", a.Done, a.Title), err
		})
	case ask.Send:
		a.ChangeID, a.Actor = ledger.NewID(), actor
		m.say("sending: %s", a.Title)
		return m.write(a.Title, a.ID, func(ctx context.Context) (safe.Text, error) {
			r, err := engine.Retry(ctx, a.RetryRequest)
			word, own := act.Words(r)
			return safe.Say("%s%s: %s", word, own, a.Title), err
		})
	case ask.Outage:
		a.ChangeID, a.Actor = ledger.NewID(), actor
		return changeOutage(m, a.OutageChange, a.Title, safe.Say("%s: %s", a.Done, a.Title))
	case ask.Hold:
		a.ChangeID, a.Actor, a.CreatedAt = ledger.NewID(), actor, now
		p := m.o.Policy()
		return m.write(safe.Say("hold"), "", func(ctx context.Context) (safe.Text, error) {
			var err error
			if a.Kinds, err = act.KindsOf(ctx, store, now, a.Scope, p.Kinds(), p.DownstreamOf); err == nil {
				err = store.Hold(ctx, a.Hold)
			}
			return safe.Say("held: %s", ticket.Scope(a.Scope)), err
		})
	case ask.Release:
		lift := ledger.Lift{Scope: a.Scope, Actor: actor, Reason: a.Reason, ChangeID: ledger.NewID()}
		p := m.o.Policy()
		act.LookFirst(&lift, m.feed.Info, p.Kinds(), p.RemembersOf)
		return m.write(safe.Say("release"), "", func(ctx context.Context) (safe.Text, error) {
			return safe.Say("released: %s", ticket.Scope(a.Scope)), store.LiftHold(ctx, lift)
		})
	case ask.Copy:
		m.say("copied the %s, if your terminal allows it: %s", a.What, begins(a.Text))
		if a.Page {
			return tea.SetClipboard(safe.ExactLines(a.Text))
		}
		return tea.SetClipboard(safe.Exact(a.Text).String())
	case ask.Start:
		return m.start(a)
	case ask.GoOn:
		return driveOn(m, a.Run)
	case ask.Halt:
		return halt(m, a.Run, a.End)
	case ask.Show:
		return find(m.ctx, store, a.ID, func(m *Root) tea.Cmd { return accountFor(m, a.From) })
	case ask.OpenRun, ask.ListRuns:
		return m.question(feed.Patience, told(m, a))
	case prompt.Show:
		return filtered(m, a)
	case prompt.Seek:
		m.sought, m.scrolled = a.Text, 0
	case prompt.Run:
		return m.command(a)
	}
	return leads(m, action)
}

// leads carries out what leads on to another question.
func leads(m *Root, action dialog.Action) tea.Cmd {
	switch a := action.(type) {
	case ask.Name:
		m.actor.Name, m.o.AskName = a.Name, false
		return pressed(m, a.Key)
	case ask.Key:
		return choose(m, string(a))
	case dialog.Held:
		return m.o.after(dialog.Typing, heldMsg(a))
	case dialog.Unanswered:
		m.warn("%s", a.Why)
		m.asking.hush = dialog.Typing // the rest of the word
	}
	return nil
}

// filtered shows the selection that was typed, or goes back to where it was asked for.
func filtered(m *Root, a prompt.Show) tea.Cmd {
	if a.Back {
		return ascend(m)
	}
	if a.Kept && m.typed {
		m.own = a.Filter
	}
	return m.setFilter(a.Filter)
}

func begins(text string) string {
	first, _, more := strings.Cut(text, "\n")
	if more {
		first += " …"
	}
	return draw.Cut(first, 60)
}

// questionMsg is a dialog that was worked out off the update loop.
type questionMsg struct {
	gen    int
	opener string // the key that asked
	dialog *dialog.Dialog
	err    error
}

// question works a dialog out in a command, and opens it unless another one was
// asked for since.
func (m *Root) question(patience time.Duration, work func(ctx context.Context) (*dialog.Dialog, error)) tea.Cmd {
	m.asking.gen++
	m.asking.due = true
	msg, ctx := questionMsg{gen: m.asking.gen, opener: keyOf(m.lastName)}, m.ctx
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		msg.dialog, msg.err = work(ctx)
		return msg
	}
}

func marked(m *Root) func(context.Context) ([]table.Mark, error) {
	rows := m.table.Marked()
	return func(context.Context) ([]table.Mark, error) { return rows, nil }
}

// freeze judges each of the rows by itself; then a dialog asks. Where they are of an
// outage, that suggests the reason, and group is the one of it that they are; nil: none.
func (m *Root) freeze(verb ledger.Verb, rows func(context.Context) ([]table.Mark, error), of *ticket.Outage, group *ticket.Group) tea.Cmd {
	read, engine, desk := m.feed.Reader(false), m.o.Engine, m.desk()
	desk.Outage = nil
	return m.question(time.Minute, func(ctx context.Context) (*dialog.Dialog, error) {
		marked, err := rows(ctx)
		if err != nil {
			return nil, err
		}
		set, err := ask.Freeze(ctx, verb, marked, read, engine, desk)
		if err != nil {
			return nil, err
		}
		if set.Outage, set.Group = of, group; group != nil && len(marked) == groupAtMost {
			set.Beyond = group.Sum.N - groupAtMost
		}
		return ask.Bulk(desk.Frame, set), nil
	})
}

// plan asks what a retry would do now.
func (m *Root) plan() tea.Cmd {
	read, engine, desk, id := m.feed.Reader(true), m.o.Engine, m.desk(), m.table.Chosen().ID
	return m.question(feed.Patience, func(ctx context.Context) (*dialog.Dialog, error) {
		p, err := engine.Plan(ctx, id)
		if err != nil {
			return nil, err
		}
		if desk.Brief, err = read(ctx, id); err != nil {
			return nil, err
		}
		if p.Refused != nil {
			return ask.Refused(desk.Title(), p.Refused), nil
		}
		return desk.Retry(p), nil
	})
}

// check makes one check of the chosen operation now, or of each that is marked.
func check(m *Root) tea.Cmd {
	if n := len(m.table.Marks); n > 0 {
		return checkEach(m, safe.Say("check of the %s marked", ledger.Count(n)), n, marked(m))
	}
	b := m.feed.Brief()
	engine, id, title, ctx := m.o.Engine, b.ID(), b.Title(), m.ctx
	m.say("checking: %s", title)
	return func() tea.Msg {
		r, err := engine.ReadNow(ctx, id)
		return doneMsg{what: safe.Say("check: %s: %s", ticket.Verdict(r.Read), title), title: title, id: id, err: err}
	}
}

// openLink opens the downstream's own page, or says where it is.
func openLink(m *Root) tea.Cmd {
	url, title := m.feed.Link(), m.feed.Brief().Title()
	if !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") {
		m.warn("not a web address: %s", url)
		return nil
	}
	name := "xdg-open"
	if runtime.GOOS == "darwin" {
		name = "open"
	}
	path, err := exec.LookPath(name)
	if err != nil || runtime.GOOS == "linux" && os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		d := &dialog.Dialog{Title: safe.Say("Open"), Head: title}
		d.Add("HERE", "there is no browser on this side of the connection")
		d.Add("COPIED", "if your terminal allows it")
		d.Add("LINK", "%s", url)
		m.show(d)
		return tea.SetClipboard(safe.Exact(url).String())
	}
	return func() tea.Msg {
		cmd := exec.Command(path, url)
		if err := cmd.Start(); err != nil {
			return doneMsg{err: fmt.Errorf("open %s: %w", url, err)}
		}
		go func() { _ = cmd.Wait() }() // only so that no zombie is left
		return doneMsg{what: safe.Say("opened %s: %s", url, title)}
	}
}
