package store

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"indoubt/ledger"
)

const (
	aboutFile   = "file:"
	pruneAtOnce = 1000    // operations in a transaction, which other writers wait for
	othersFirst = 4       // times as long as it works a prune rests at most, a millisecond for each event of others
	unended     = ".part" // what a file is called while its prune goes on
)

// prunable is the condition that the history of operation o is moved: it landed, or was refused, by its only attempt, before a
// time, and nothing about it is left to do. What was sent more than once is asked for by outages.
const prunable = `o.moved = 0 AND o.attempt = 1 AND o.state IN ('committed', 'failed') AND o.abandoned = 0
	AND NOT (o.state = 'failed' AND o.doubted = 1) AND o.conflict = '' AND o.allow_until = 0 AND o.undelivered = 0
	AND o.parked_until <= ? AND o.settled_at + o.ttl_ms < ? AND o.changed_at < ?
	AND NOT EXISTS (SELECT 1 FROM price p WHERE p.op = o.seq AND p.look_at < ?)`

// ahead is the condition that the sums have not come past event e, and summedUp that they have
// come past operation o. Both bind their place.
const (
	ahead    = `{place} > coalesce((SELECT n FROM total WHERE what = ?), 0)`
	summedUp = ` AND NOT EXISTS (SELECT 1 FROM ev e WHERE e.op = o.seq AND ` + ahead + `)`
)

// Prune moves the history of what was settled before a time, and is done with, to a file of JSON lines in a
// directory, an operation a line. The row of each operation stays, with its names and its newest event, as do events that
// outages and runs are asked of. Nothing leaves the ledger before it was read back from the file. A prune that was killed is
// ended by the next one into the same directory. On a server it waits at most ten seconds, and says nothing, for the
// transactions that others have open: what the sums have not come past by then is left to the next prune, and not counted.
// Errors: those of the directory, ErrReadOnly, ErrBusy.
func (s *Store) Prune(ctx context.Context, p ledger.Prune) (done ledger.Pruned, err error) {
	w := &pruning{}
	err = s.db.View(ctx, func(tx Tx) error {
		w.until = until(tx.Moment(), p)
		return One(tx, []any{&done.Operations}, `SELECT count(*) FROM op o WHERE `+prunable, w.until...)
	})
	if err != nil || p.DryRun {
		return done, err
	}
	begun, err := filepath.Glob(filepath.Join(p.To, "indoubt-*"+unended))
	for _, path := range begun {
		w := &pruning{Pruned: ledger.Pruned{File: strings.TrimSuffix(path, unended)}}
		err = errors.Join(err, w.resume(ctx, s.db, path))
	}
	if err != nil || done.Operations == 0 {
		return done, err
	}
	id := ledger.NewID()
	name := "indoubt-" + time.Now().UTC().Format("20060102T150405Z-") + id[len(id)-8:] + ".jsonl.gz"
	w.File = filepath.Join(p.To, name)
	if err = s.db.Update(ctx, func(tx Tx) error { return w.announce(tx, p) }); err == nil {
		err = w.catchUp(ctx, s.db)
	}
	if err == nil { // a file that no event names is another ledger's
		w.file, err = claim(w.File + unended)
	}
	if err != nil {
		return ledger.Pruned{}, err
	}
	defer w.file.Close()
	for more := true; more && err == nil; {
		more, err = w.step(ctx, s.db)
	}
	if err != nil { // whether the newest of the file have left the ledger, the next prune finds out
		return w.Pruned, err
	}
	return w.Pruned, w.end()
}

// step moves the operations whose turn is next, if there are any.
func (w *pruning) step(ctx context.Context, db Database) (more bool, err error) {
	var began time.Time
	var b batch
	newest, size := w.newest, w.size
	if err = db.View(ctx, func(tx Tx) error { began = time.Now(); b, err = w.next(tx); return err }); err != nil || len(b.ops) == 0 {
		return false, err
	}
	if err = w.write(b.text); err != nil {
		return false, err
	}
	err = db.Update(ctx, func(tx Tx) error { return w.thin(tx, b) })
	switch {
	case errors.Is(err, errChanged):
		w.size, err = size, nil // it is read anew, and overwritten
	case err == nil:
		w.after, w.Operations, w.Events = b.ops[len(b.ops)-1], w.Operations+len(b.ops), w.Events+len(b.events)
	}
	select { // who writes comes first
	case <-time.After(min(othersFirst*time.Since(began), time.Duration(w.newest-newest)*time.Millisecond)):
	case <-ctx.Done():
		err = ctx.Err()
	}
	return err == nil, err
}

// until binds the times of prunable. They are those of the beginning, so that a prune ends where times end all along.
func until(at ledger.Moment, p ledger.Prune) []any {
	now := millis(at.Wall)
	return []any{now, now, millis(p.Before), millis(ledger.Never)}
}

// pruning is a prune under way.
type pruning struct {
	ledger.Pruned
	file   *os.File // locked while it goes on
	size   int64    // of the file, with what has left the ledger
	event  int64    // that names the file
	after  int64    // the number of the operation that was moved last
	newest int64    // event of the ledger
	until  []any    // the times of prunable
	asks   string   // for the operations whose turn is next
	text   []byte   // of the newest batch
}

// claim opens a file that no other process has, makes it where there is none, and keeps it
// until it is closed. Another process may have removed it before it was locked.
func claim(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	ours, err := file.Stat()
	if err == nil && unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
		if there, err := os.Stat(name); err == nil && os.SameFile(ours, there) {
			return file, nil
		}
	}
	file.Close()
	return nil, cmp.Or(err, fmt.Errorf("%w: another process writes %s", ledger.ErrBusy, name))
}

// announce leaves the event that names the file.
func (w *pruning) announce(tx Tx, p ledger.Prune) error {
	e := p.Event(filepath.Base(w.File))
	return errors.Join(Tell(tx, e), One(tx, []any{&w.event}, `SELECT seq FROM ev WHERE op = 0 AND id = ?`, e.ID))
}

// catchUp has the sums come to where the prune begins. On a server they wait for the transactions
// that others have open; what they have not come past in ten seconds is left to the next prune.
func (w *pruning) catchUp(ctx context.Context, db Database) error {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		there := false
		if err := sumUp(ctx, db); err != nil {
			return err
		}
		if err := db.View(ctx, func(tx Tx) error {
			return One(tx, []any{&there}, `SELECT NOT EXISTS (SELECT 1 FROM ev e WHERE e.seq = ? AND `+ahead+`)`, w.event, placeName)
		}); err != nil || there || time.Since(began) > 10*time.Second {
			return err
		}
	}
}

// batch is what is moved at once.
type batch struct {
	ops      []int64
	versions int64   // of the operations, added up: a version only grows
	events   []int64 // that leave the ledger
	text     []byte  // a line for each operation
}

// errChanged says that an operation was changed after it was read.
var errChanged = errors.New("changed since it was read")

// ask makes the question for the operations whose turn is next, with their history. Lists are asked of the newest event, and
// outages and runs of theirs.
func (w *pruning) ask(tx Tx) error {
	names, err := Collect(tx, word, `{columns}`, "ev")
	isJSON := jsonColumns("ev")
	var said []string
	for _, name := range names {
		if !isJSON[name] {
			said = append(said, "'"+name+"', e."+name)
		}
	}
	w.asks = `SELECT ` + bare("o.seq", "o.version", "o.says", "e.seq",
		"CASE WHEN e.id = o.change_id OR e.lost_at <> 0 OR e.about <> '' THEN 1 ELSE 0 END",
		"{object "+strings.Join(said, ", ")+"}", "coalesce({text e.facts}, '')", "coalesce({text e.payload}, '')") + `
		FROM (SELECT o.seq, o.version, o.change_id, {object 'seq', o.seq, 'id', o.id, 'kind', o.kind, 'name', o.name} AS says FROM op o
			WHERE o.seq > ? AND ` + prunable + summedUp + ` ORDER BY o.seq LIMIT ?) o CROSS JOIN ev e ON e.op = o.seq`
	return err
}

// next reads the operations whose turn is next, with their history. What else is said of an operation stays in its row.
func (w *pruning) next(tx Tx) (b batch, err error) {
	if w.asks == "" {
		if err = w.ask(tx); err != nil {
			return b, err
		}
	}
	events, err := Collect(tx, func(rows Rows) (e moving, err error) {
		return e, rows.Scan(&e.op, &e.version, &e.is, &e.seq, &e.stays, &e.says, &e.facts, &e.payload)
	}, w.asks, slices.Concat([]any{w.after}, w.until, []any{placeName, pruneAtOnce})...)
	slices.SortFunc(events, func(a, b moving) int { return cmp.Or(cmp.Compare(a.op, b.op), cmp.Compare(a.seq, b.seq)) })
	b.text = w.text[:0]
	for i, e := range events {
		before, after := `,`, ``
		if i == 0 || e.op != events[i-1].op {
			b.ops, b.versions = append(b.ops, e.op), b.versions+e.version
			before = `{"op":` + e.is + `,"ev":[`
		}
		if i == len(events)-1 || e.op != events[i+1].op {
			after = "]}\n"
		}
		b.text = append(append(b.text, before...), e.json()...)
		b.text = append(b.text, after...)
		if e.stays == 0 {
			b.events = append(b.events, e.seq)
		}
	}
	w.text = b.text
	return b, err
}

// moving is an event of an operation whose turn it is.
type moving struct {
	op, version, seq int64
	is, says         string // the operation and the event, as objects
	facts, payload   string // of the event
	stays            int64  // in the ledger, too
}

// json is the event in one line: in JSON, a line ends only where a space may be.
func (e moving) json() string {
	text := strings.TrimSuffix(e.says, "}")
	if e.facts != "" {
		text += `,"facts":` + oneLine.Replace(e.facts)
	}
	if e.payload != "" {
		text += `,"payload":` + oneLine.Replace(e.payload)
	}
	return text + "}"
}

var oneLine = strings.NewReplacer("\n", " ", "\r", " ")

// thin takes out of the ledger what was read, if it is as it was. Events that came since stay.
func (w *pruning) thin(tx Tx, b batch) error {
	marks, seqs := among(b.ops)
	if err := exec(tx, `UPDATE op AS o SET moved = ?, payload = NULL, change_id = '' WHERE o.seq IN (`+marks+`) AND `+prunable,
		slices.Concat([]any{w.event}, seqs, w.until)...); err != nil {
		return err
	}
	var moved int
	var versions int64
	err := One(tx, []any{&moved, &versions, &w.newest}, `SELECT count(*), CAST(coalesce(sum(o.version), 0) AS {int}),
		(SELECT max(seq) FROM ev) FROM op o WHERE o.seq IN (`+marks+`) AND o.moved = ?`, append(seqs, w.event)...)
	switch {
	case err != nil:
		return err
	case moved != len(b.ops) || versions != b.versions:
		return errChanged
	case len(b.events) == 0:
		return nil
	}
	marks, seqs = among(b.events)
	return exec(tx, `DELETE FROM ev WHERE seq IN (`+marks+`)`, seqs...)
}

// write adds text to the file, and reads it back.
func (w *pruning) write(text []byte) error {
	var packed bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed) // the writers of the ledger wait for their processor
	_, err := zip.Write(text)
	if err = errors.Join(err, zip.Close(), w.file.Truncate(w.size)); err != nil {
		return err
	}
	_, err = w.file.WriteAt(packed.Bytes(), w.size)
	if err = errors.Join(err, w.file.Sync()); err != nil {
		return err
	}
	unzip, err := gzip.NewReader(io.NewSectionReader(w.file, w.size, int64(packed.Len())))
	if err != nil {
		return err
	}
	back, err := io.ReadAll(unzip)
	if err == nil && !bytes.Equal(back, text) {
		err = fmt.Errorf("%s does not hold what was written", w.file.Name())
	}
	w.size += int64(packed.Len())
	return err
}

// end gives the file its name.
func (w *pruning) end() error {
	if w.size == 0 {
		name := w.file.Name()
		w.File = ""
		return os.Remove(name)
	}
	err := errors.Join(w.file.Truncate(w.size), w.file.Sync(), os.Rename(w.file.Name(), w.File))
	if dir, failed := os.Open(filepath.Dir(w.File)); failed == nil {
		err = errors.Join(err, dir.Sync(), dir.Close())
	}
	return err
}

// resume ends a prune of this ledger that was killed: its file keeps what has left the ledger, and nothing that
// has not.
func (w *pruning) resume(ctx context.Context, db Database, path string) error {
	half, err := claim(path)
	if err != nil {
		return err
	}
	defer half.Close()
	name, ours, left := aboutFile+filepath.Base(w.File), false, 0
	if err := db.View(ctx, func(tx Tx) error {
		return One(tx, []any{&ours}, `SELECT EXISTS (SELECT 1 FROM ev WHERE about = ? AND op = 0)`, name)
	}); err != nil || !ours {
		return err
	}
	if w.file, err = claim(w.File + ".ended"); err != nil {
		return err
	}
	defer os.Remove(w.file.Name())
	defer w.file.Close()
	var file error // which the database must not take for its own
	err = db.View(ctx, func(tx Tx) (failed error) {
		failed = One(tx, []any{&left}, `SELECT count(*) FROM op o JOIN ev e ON e.seq = o.moved WHERE e.about = ?`, name)
		if failed == nil {
			file = w.copy(half, func(line string) (string, error) {
				moved := false
				failed = One(tx, []any{&moved}, `SELECT EXISTS (SELECT 1 FROM op o JOIN ev e ON e.seq = o.moved
					WHERE o.seq = ? AND e.about = ?)`, digits(strings.TrimSpace(parse(parse(line).get("op")).get("seq"))), name)
				if !moved {
					return "", failed
				}
				left--
				return line, failed
			})
		}
		return failed
	})
	switch {
	case err != nil:
		return err
	case file != nil && !errors.Is(file, errCut): // what was cut off has not left the ledger
		return file
	case left != 0:
		return fmt.Errorf("%s is damaged: it lacks %d of the operations that were moved to it", path, left)
	}
	// The half goes last: while it is there, the next prune ends it anew.
	if err = w.end(); err != nil {
		return err
	}
	return os.Remove(path)
}

// errCut says that a file ends within a line.
var errCut = errors.New("the file is cut off, or damaged")

// copy writes each line of another file as its reader gives it back. What comes before a cut is
// written.
func (w *pruning) copy(from io.ReadSeeker, read func(line string) (string, error)) error {
	_, err := from.Seek(0, io.SeekStart)
	if err != nil {
		return err
	}
	w.size = 0
	unzip, err := gzip.NewReader(from)
	if err != nil {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	lines := bufio.NewReader(unzip)
	for err == nil {
		var some []byte
		for range pruneAtOnce {
			var line string
			if line, err = lines.ReadString('\n'); err != nil {
				break
			}
			if line, err = read(line); err != nil {
				return err
			}
			some = append(some, line...)
		}
		if len(some) > 0 {
			if bad := w.write(some); bad != nil {
				return bad
			}
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("%w: %w", errCut, err)
}

// Forget leaves nothing but their ids of operations in a file that a prune made. The file is
// written anew, and takes the place of the old one when it is whole. Errors: those of the file.
func (*Store) Forget(path string, ids []string) error {
	old, err := os.Open(path)
	if err != nil {
		return err
	}
	defer old.Close()
	w := &pruning{Pruned: ledger.Pruned{File: path}}
	if w.file, err = claim(path + ".anew"); err != nil {
		return err
	}
	defer os.Remove(w.file.Name())
	defer w.file.Close()
	err = w.copy(old, func(line string) (string, error) {
		if id := quoted(parse(parse(line).get("op")).get("id")); slices.Contains(ids, id) {
			line = fmt.Sprintf(`{"op":{"id":%q},"ev":[]}`+"\n", id)
		}
		return line, nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return w.end()
}
