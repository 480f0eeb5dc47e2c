package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/charmbracelet/x/ansi"

	"indoubt/ledger"
	"indoubt/ui/safe"
)

// watchable is a list of T: how it is read, and how it is printed.
type watchable[T any] struct {
	*app
	// look reads the list, and of what has moved and is not in it the rows that are
	// known or wanted: they have left the list, or come after its limit.
	look  func(ctx context.Context, s ledger.Store, moved []string, known map[string]string) (all, besides []T, err error)
	mark  func(T) (id, mark string) // a row has changed when its mark has
	data  func([]T) map[string]any
	text  func(*safe.Writer, []T)
	below func(ctx context.Context, s ledger.Store, n int) (string, error)
}

const (
	watchStep = 5 * time.Second // a deadline passes without an event
	lostStep  = 2 * time.Second
	lookTime  = time.Minute // a ledger that takes longer counts as lost
	mostKnown = 10_000      // rows
)

// watcher prints a list for as long as it changes.
type watcher[T any] struct {
	watchable[T]
	screen  bool // the list is drawn in place
	store   ledger.Store
	changed <-chan struct{}
	end     context.CancelFunc // of changed
	info    ledger.Info
	place   ledger.Cursor
	known   map[string]string // the mark of each row when it was printed
	all     []T
	fresh   []T // to be printed
	cost    time.Duration
	drawn   string
}

// watch prints the list, and then what changes in it, until ctx ends or no one reads.
func (l watchable[T]) watch(ctx context.Context, s ledger.Store) error {
	if l.json { // one object has no end
		l.format, l.json = "jsonl", false
	}
	ctx, stop := whileRead(ctx, l.rawOut)
	defer stop()
	w := &watcher[T]{watchable: l, screen: l.format == "text" && isTerminal(l.rawOut)}
	if !w.screen {
		w.kept = new([]int)
	}
	w.over(ctx, s)
	err := w.read(ctx)
	for ctx.Err() == nil && err == nil {
		if err = w.show(ctx, ""); err != nil {
			break
		}
		w.wait(ctx)
		if trouble := w.read(ctx); trouble != nil {
			err = w.regain(ctx, trouble)
		}
	}
	if ctx.Err() != nil || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// over goes over to a store.
func (w *watcher[T]) over(ctx context.Context, s ledger.Store) {
	if w.end != nil {
		w.end()
	}
	ctx, w.end = context.WithCancel(ctx)
	w.store, w.changed, w.place = s, s.Watch(ctx), ""
}

// read reads the list, and what of it is to be printed.
func (w *watcher[T]) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	began := time.Now()
	info, err := w.store.Info(ctx)
	if err != nil {
		return err
	}
	if w.info.ID != info.ID || w.known == nil {
		w.known, w.place = map[string]string{}, info.Cursor
	}
	var moved []string
	if w.place == "" {
		w.place = info.Cursor
	}
	for {
		events, next, err := w.store.Follow(ctx, w.place, logStep)
		if other := (*ledger.CursorError)(nil); errors.As(err, &other) { // a failover: what was missed is in the list
			next, err = info.Cursor, nil
		}
		if err != nil {
			return err
		}
		w.place, moved = next, append(moved, operationsOf(events)...)
		if len(events) < logStep {
			break
		}
	}
	all, besides, err := w.look(ctx, w.store, moved, w.known)
	if err == nil {
		err = ctx.Err() // a search that was cut
	}
	if err != nil {
		return err
	}
	w.info, w.all, w.fresh = info, all, nil
	standing := map[string]bool{}
	for i, row := range append(all[:len(all):len(all)], besides...) {
		id, mark := w.mark(row)
		if standing[id] = i < len(all); w.known[id] != mark {
			w.known[id], w.fresh = mark, append(w.fresh, row)
		}
	}
	for id := range w.known {
		if len(w.known) > mostKnown && !standing[id] {
			delete(w.known, id)
		}
	}
	w.cost = time.Since(began)
	return nil
}

// show prints what has changed; a screen is drawn anew when it would be another.
func (w *watcher[T]) show(ctx context.Context, trouble string) error {
	var out bytes.Buffer
	to := safe.NewWriter(&out)
	switch {
	case w.screen:
		below, err := w.below(ctx, w.store, len(w.all))
		if err != nil && trouble == "" {
			return w.regain(ctx, err)
		}
		w.text(to, w.all)
		return w.draw(out.String(), safe.Lines(strings.TrimLeft(below+"\n"+trouble, "\n")))
	case len(w.fresh) == 0:
		return nil
	case w.format == "text":
		w.text(to, w.fresh)
	default:
		if err := w.rows(to, w.data(w.fresh)); err != nil {
			return err
		}
		w.sparse = true
	}
	_, err := w.rawOut.Write(out.Bytes())
	return err
}

// draw puts a table and the lines below it in the place of those before.
func (w *watcher[T]) draw(table, below string) error {
	width, height := sizeOf(w.rawOut)
	lines := func(text string) []string {
		return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	}
	rows, foot := lines(table), append(lines(below), "Ctrl-C ends")
	if room := max(2, height-1-len(foot)); len(rows) > room {
		rows = append(rows[:room-1:room-1], fmt.Sprintf("… %s more", ledger.Count(len(rows)-room+1)))
	}
	var frame strings.Builder
	for _, line := range append(rows, foot...) {
		frame.WriteString(ansi.Truncate(line, max(1, width), "…") + "\n")
	}
	if frame.String() == w.drawn {
		return nil
	}
	up := ""
	if n := screenLines(w.drawn, width); n > 0 {
		up = fmt.Sprintf("\x1b[%dA", min(n, height-1))
	}
	w.drawn = frame.String()
	_, err := fmt.Fprint(w.rawOut, up, "\r", strings.ReplaceAll(w.drawn, "\n", "\x1b[K\n"), "\x1b[J")
	return err
}

// wait waits for a change, or until time may have made one. A list that is dear to
// read is read more seldom.
func (w *watcher[T]) wait(ctx context.Context) {
	sleep(ctx, 4*w.cost)
	wait(ctx, w.changed, max(watchStep, 100*w.cost))
}

// wait waits until a ledger may have changed, at most for so long, or for another size of
// the terminal.
func wait(ctx context.Context, changed <-chan struct{}, most time.Duration) {
	tick := time.NewTimer(most)
	defer tick.Stop()
	resized, stop := onResize()
	defer stop()
	select {
	case <-ctx.Done():
	case <-changed:
	case <-tick.C:
	case <-resized:
	}
}

// regain says that the ledger is lost, and tries it until it is back.
func (w *watcher[T]) regain(ctx context.Context, err error) error {
	say := func(line string) {
		if w.screen {
			_ = w.show(ctx, line) // the next write says it again
			return
		}
		w.errOut.Println(line)
	}
	before := w.info.ID
	regain(ctx, w.app, err, say, func(s ledger.Store) { w.over(ctx, s) }, func() error { return w.read(ctx) })
	switch {
	case ctx.Err() != nil:
	case w.info.ID != before:
		say("another ledger stands here now: what was shown before is not in it")
	case !w.screen:
		say("the ledger is back")
	}
	return nil
}

// regain says that the ledger is lost, and tries to read it, also from a store that it
// opens anew and goes over to, until that succeeds.
func regain(ctx context.Context, a *app, err error, say func(string), over func(ledger.Store), read func() error) {
	if ctx.Err() == nil {
		say("the ledger is lost: " + strings.TrimSuffix(asFailure(err).Message, ".") + "; it is tried again until it is back")
	}
	for ctx.Err() == nil && err != nil {
		sleep(ctx, lostStep)
		if err = read(); err == nil {
			break
		}
		var s ledger.Store
		if s, err = a.open(ctx, toLook); err != nil {
			continue
		}
		a.store.Close()
		keep(a, s)
		over(s)
		err = read()
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
