package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
)

// A ledger that was put back (a snapshot, a dump, a standby that took over) lacks its end, and would have that
// sent again. So each process remembers the newest change that it wrote or followed, with its operation, and
// asks for it before it lets anyone send. An account has it in a file, too, for who starts later. That is not
// synced, and lies best on another disk than the ledger.

// newest is that change.
type newest struct {
	dir string // of the files, one for each ledger; "": none is kept

	mu    sync.Mutex
	of    string   // the ledger's id
	ready bool     // the file was looked at
	file  *os.File // nil where none is kept
	known known
}

// known is a change of an operation.
type known struct {
	Operation, Change string // ids
	At                time.Time
}

const newestQuery = `SELECT coalesce((SELECT value FROM meta WHERE name = 'id'), ''), EXISTS (SELECT 1 FROM op o
	WHERE o.id = ? AND (o.moved <> 0 OR EXISTS (SELECT 1 FROM ev e WHERE e.op = o.seq AND e.id = ?)))`

// get is what is known now. It comes before the state that is asked for it is taken: what others write
// down meanwhile is not in that.
func (n *newest) get() known {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open()
	return n.known
}

// saw remembers a change that was committed.
func (n *newest) saw(k known) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.open()
	if k.Change == "" || k.At.Before(n.known.At) {
		return
	}
	n.known = k
	if n.file != nil && !k.At.Before(n.filed().At) {
		_, _ = n.file.WriteAt(k.line(), 0)
	}
}

// asks refuses a ledger that lacks what was known of it. One that was adopted since has another id, and
// nothing is known of it yet. Errors: *lacking.
func (n *newest) asks(tx Tx, k known) error {
	var id string
	var has bool
	if err := One(tx, []any{&id, &has}, newestQuery, k.Operation, k.Change); err != nil {
		return err
	}
	if n.enter(id) || has || k.Change == "" {
		return nil
	}
	return &lacking{k, id}
}

// enter takes up a ledger, and reports whether it is another one than before.
func (n *newest) enter(id string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if id == n.of {
		return false
	}
	n.shut()
	n.of, n.ready, n.known = id, false, known{}
	return true
}

// open looks at the file, once.
func (n *newest) open() {
	if n.ready || n.of == "" {
		return
	}
	n.ready = true
	if n.dir == "" || !fileLike.MatchString(n.of) || os.MkdirAll(n.dir, 0o700) != nil {
		return
	}
	if n.file, _ = os.OpenFile(filepath.Join(n.dir, n.of), os.O_CREATE|os.O_RDWR, 0o600); n.file != nil {
		n.known = n.filed()
	}
}

func (n *newest) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.shut()
}

func (n *newest) shut() {
	if n.file != nil {
		n.file.Close()
		n.file = nil
	}
}

var fileLike = lazyregexp.New(`^[0-9A-Za-z-]{1,64}$`)

// lineSize is that of the one line of a file. It is written at once, so a kill leaves the line before it or this one.
const lineSize = 256

// line is nothing where ids do not fit: other writers may give any.
func (k known) line() []byte {
	text := fmt.Sprintf("%d %s %s", k.At.UnixMilli(), k.Operation, k.Change)
	if len(strings.Fields(text)) != 3 || len(text) >= lineSize {
		return nil
	}
	return []byte(text + strings.Repeat(" ", lineSize-1-len(text)) + "\n")
}

// filed is what the file says, nothing where it says nothing that is whole.
func (n *newest) filed() known {
	var text [lineSize]byte
	if _, err := n.file.ReadAt(text[:], 0); err != nil {
		return known{}
	}
	words := strings.Fields(string(text[:]))
	if len(words) != 3 {
		return known{}
	}
	ms, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return known{}
	}
	return known{words[1], words[2], time.UnixMilli(ms)}
}

// lacking says that a ledger lacks a change that was recorded in it. It is ledger.ErrFailover.
type lacking struct {
	known
	Ledger string
}

func (e *lacking) reason() string {
	return fmt.Sprintf("the ledger is an older state of itself: it lacks change %s of operation %s, of %s", e.Change, e.Operation,
		e.At.UTC().Format(time.RFC3339))
}

func (e *lacking) Error() string { return e.Trouble(ledger.InFull).Error() }

func (*lacking) Is(target error) bool { return target == ledger.ErrFailover }

// Trouble says what ends it.
func (e *lacking) Trouble(func(string) string) ledger.Trouble {
	return ledger.Trouble{Code: "failover", Message: e.reason(),
		Do: "bring its newest state back; where that is lost, look at the other sides for what was sent since, and then `indoubt adopt`"}
}

// program signs what nobody in particular has done.
var program = ledger.Actor{Name: "indoubt", Machine: true}

// hold stops begins for everyone because of what a ledger lacks, if it still does: it may have been adopted since. Where
// they are held already, that is left as it is.
func (e *lacking) hold(ctx context.Context, db Database) error {
	return db.Update(ctx, func(tx Tx) error {
		err := (&newest{of: e.Ledger}).asks(tx, e.known)
		if err == nil || !errors.As(err, new(*lacking)) {
			return err
		}
		now := tx.Moment().Wall
		standing, _, err := holdsAt(tx, now)
		if err != nil || slices.ContainsFunc(standing, func(h ledger.Hold) bool { return h.Scope == "all" && h.Begins }) {
			return err
		}
		return holding{Scope: "all", Begins: true, Actor: program, Reason: e.reason(), ChangeID: ledger.NewID()}.save(tx, e)
	})
}

// Enter takes up the ledger with an id, before anything is asked of it.
func (s *Store) Enter(id string) { s.newest.enter(id) }

// unlacked refuses to release a scope that is held because the ledger lacks something, while it does.
func unlacked(tx Tx, scope ledger.HoldScope) error {
	events, err := EventsOf(tx, `e.op = 0 AND e.id = (SELECT change_id FROM hold WHERE scope = ?)`, string(scope))
	if err != nil || len(events) == 0 {
		return err
	}
	var d struct{ Lacks lacking }
	if json.Unmarshal(events[0].Detail, &d) != nil || d.Lacks.Ledger == "" {
		return nil
	}
	return (&newest{of: d.Lacks.Ledger}).asks(tx, d.Lacks.known)
}

// Lacking asks, together with what is asked next, what the ledger lacks of what this account knows; "" where it is whole.
func (s *Store) Lacking(tx Tx) (answer func() (string, error)) {
	must := s.newest.get()
	Ahead(tx, newestQuery, must.Operation, must.Change)
	return func() (string, error) {
		var l *lacking
		err := s.newest.asks(tx, must)
		if errors.As(err, &l) {
			return l.reason(), nil
		}
		return "", err
	}
}
