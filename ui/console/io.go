package console

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"

	"indoubt/ui/ticket"

	"indoubt/ledger"
	"indoubt/reconcile"
	"indoubt/ui/safe"

	tea "charm.land/bubbletea/v2"
)

// writes counts what must end before the program may: a write that is cut off
// would itself be in doubt.
type writes struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   *sync.Cond
}

// begin takes part, unless the program is over already.
func (w *writes) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.n++
	return true
}

func (w *writes) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n--
	if w.idle != nil {
		w.idle.Broadcast()
	}
}

// Wait lets no further write begin and returns when the last one has ended.
func (w *writes) Wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.idle = sync.NewCond(&w.mu)
	for w.n > 0 {
		w.idle.Wait()
	}
}

// doneMsg is the end of something a person asked for.
type doneMsg struct {
	what  string // a sentence about what it did
	title string
	ids   []string
	err   error
	wrote bool
}

// write runs f as a write in flight: it is not cut off by leaving.
func (m *Root) write(title string, ids []string, f func(ctx context.Context) (string, error)) tea.Cmd {
	w, ctx := m.writes, context.WithoutCancel(m.ctx)
	m.writing++
	return func() tea.Msg {
		if !w.begin() {
			return doneMsg{title: title, err: errors.New("the console is closing"), wrote: true}
		}
		defer w.end()
		what, err := f(ctx)
		return doneMsg{what: what, title: title, ids: ids, err: err, wrote: true}
	}
}

func (m *Root) decide(d ledger.Decision, what, title string) tea.Cmd {
	store := m.store
	return m.write(title, []string{d.ID}, func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		_, err := ledger.Decide(ctx, store, d)
		return what + ": " + title, err
	})
}

func (m *Root) hold(h ledger.Hold) tea.Cmd {
	store := m.store
	return m.write("hold", nil, func(ctx context.Context) (string, error) {
		return "held: " + holdWords(h.Scope), store.Hold(ctx, h)
	})
}

func (m *Root) release(h ledger.Hold, reason string) tea.Cmd {
	store, actor, change := m.store, m.actor, ledger.NewID()
	return m.write("release", nil, func(ctx context.Context) (string, error) {
		return "released: " + holdWords(h.Scope), store.LiftHold(ctx, h.Scope, actor, reason, change)
	})
}

func (m *Root) retry(q reconcile.RetryRequest, title string) tea.Cmd {
	engine := m.o.Engine
	m.say("sending: "+title, false)
	return m.write(title, []string{q.ID}, func(ctx context.Context) (string, error) {
		r, err := engine.Retry(ctx, q)
		if err != nil {
			return "", err
		}
		return retryWords(r) + ": " + title, nil
	})
}

// retryWords says what became of a retry.
func retryWords(r reconcile.RetryResult) string {
	switch r.Did {
	case reconcile.DidLand:
		return "it had landed already, nothing was sent"
	case reconcile.DidGrant:
		return "one send allowed, waiting for its pipeline"
	case reconcile.DidRefuse:
		return "not sent" + ticket.Colon(safe.Of(r.Why).String())
	}
	switch r.Operation.State {
	case ledger.Committed:
		if rc := r.Operation.Receipt(); rc != "" {
			return "sent, it landed, receipt " + safe.Of(rc).String()
		}
		return "sent, it landed"
	case ledger.Failed:
		return "sent, it did not land"
	case ledger.Uncertain:
		return "sent, no clear answer: in doubt again"
	}
	return "sent"
}

// planMsg is what a retry would do, worked out for the dialog.
type planMsg struct {
	gen    int
	opener string // the key that asked
	plan   reconcile.Plan
	at     *brief
	err    error
}

// plan asks what a retry would do now; its dialog opens when that is known.
func (m *Root) plan() tea.Cmd {
	s := m.list.chosen()
	if s == nil {
		return nil
	}
	m.asking++
	opener := keyOf(m.lastName)
	gen, id, engine, store, judge, now, ctx := m.asking, s.id, m.o.Engine, m.store, m.judge, m.at, m.ctx
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		p, err := engine.Plan(ctx, id)
		if err != nil {
			return planMsg{gen: gen, opener: opener, err: err}
		}
		b, err := readBrief(ctx, store, judge, id, now, true)
		return planMsg{gen: gen, opener: opener, plan: p, at: b, err: err}
	}
}

// check makes one check of the chosen operation now.
func (m *Root) check() tea.Cmd {
	b := m.chosenBrief()
	engine, id, title, ctx := m.o.Engine, b.raw.Operation.ID, b.rec.Operation.Title, m.ctx
	m.say("checking: "+title, false)
	return func() tea.Msg {
		r, err := engine.ReadNow(ctx, id)
		return doneMsg{what: "check: " + ticket.Verdict(safe.Value(r.Read)) + ": " + title, title: title, ids: []string{id}, err: err}
	}
}

// openLink opens the downstream's own page, or says where it is.
func (m *Root) openLink() tea.Cmd {
	link := m.chosenBrief().raw
	url := m.judge(link, m.at).Link
	shown := safe.Of(url).String()
	if !strings.HasPrefix(url, "https://") && !strings.HasPrefix(url, "http://") {
		m.say("not a web address: "+shown, true)
		return nil
	}
	name := "xdg-open"
	if runtime.GOOS == "darwin" {
		name = "open"
	}
	path, err := exec.LookPath(name)
	if err != nil || runtime.GOOS == "linux" && os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		m.show(&dialog{title: "Open", facts: []fact{{"HERE", "there is no browser on this side of the connection", false}, {"COPIED", "if your terminal allows it", false}, {"LINK", shown, false}}})
		return tea.SetClipboard(safe.Exact(url))
	}
	return func() tea.Msg {
		cmd := exec.Command(path, url)
		if err := cmd.Start(); err != nil {
			return doneMsg{err: fmt.Errorf("open %s: %w", url, err)}
		}
		go func() { _ = cmd.Wait() }() // only so that no zombie is left
		return doneMsg{what: "opened " + shown}
	}
}
