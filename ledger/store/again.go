package store

import (
	"slices"
	"strings"

	"indoubt/ledger"
)

// others are the parts of a record that other operations and holds have a say in.
const others = ledger.PartRelated | ledger.PartHolds

// stillQuery asks whether an operation stands as it was read, in its row, in its price and in its history.
var stillQuery = `SELECT EXISTS (SELECT 1 FROM op o LEFT JOIN price p ON p.op = o.seq WHERE o.seq = ? AND o.id = ? AND o.version = ?
	AND o.moved = ? AND o.` + strings.Join(quiet, " = ? AND o.") + ` = ? AND coalesce(p.looks, 0) = ? AND coalesce(p.look_at, 0) = ?
	AND (SELECT count(*) FROM ev e WHERE e.op = o.seq) = ?
	AND (SELECT e.id FROM ev e WHERE e.op = o.seq ORDER BY e.seq DESC LIMIT 1) = ?)`

// again is what was read and is brought back, or nil where it stands no more, or is not what is asked for. To
// read it anew costs a fifth of a check.
func (l *loaded) again(tx Tx, loc ledger.Locator) (*loaded, error) {
	if l.o.ID != loc.ID || loc.Skip&others != others || len(l.ids) == 0 {
		return nil, nil
	}
	args := []any{l.seq, l.o.ID, l.o.Version, l.moved}
	for _, name := range quiet {
		i := slices.IndexFunc(columns, func(c column) bool { return c.name == name })
		args = append(args, value(columns[i].field(&l.row)))
	}
	var stands bool
	args = append(args, l.Reads, millis(l.price.ReadAt), len(l.ids), l.ids[len(l.ids)-1])
	if err := One(tx, []any{&stands}, stillQuery, args...); err != nil || !stands {
		return nil, err
	}
	is, now := *l, tx.Moment()
	is.rec.Now, is.rec.Steady, is.rec.Related, is.rec.Holds = now.Wall, now.Steady, nil, nil
	is.row.o, is.state.op = &is.rec.Operation, &is.rec.Operation
	is.attempts, is.rec.Attempts = slices.Clone(l.attempts), slices.Clone(l.rec.Attempts)
	return &is, nil
}
