package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"

	"indoubt/ledger"
	"indoubt/ledger/boot"
)

// home is where a ledger lives. A file that finds itself elsewhere is a copy:
// two files that both take writes would each know half of what was sent.
type home struct{ host, device, inode, boot string }

func homeFrom(m map[string]string) home {
	return home{m["home.host"], m["home.device"], m["home.inode"], m["home.boot"]}
}

func homeOf(path string) (home, error) {
	h := home{boot: boot.ID()}
	h.host, _ = os.Hostname()
	f, err := fileAt(path)
	h.device, h.inode = fmt.Sprint(f.device), fmt.Sprint(f.inode)
	return h, err
}

// differs says why a ledger that calls home its own is not there, or "". Device
// numbers are handed out anew when a host starts, so they count only until then.
func (h home) differs(home home) string {
	switch {
	case home.host != h.host:
		return fmt.Sprintf("it belongs to the host %s, this is %s", home.host, h.host)
	case home.inode != h.inode, home.device != h.device && home.boot == h.boot:
		return "its file was copied from another one"
	}
	return ""
}

func readMeta(q querier) (map[string]string, error) {
	m := map[string]string{}
	_, err := collect(q, func(rows *sql.Rows) (none struct{}, err error) {
		var name, value string
		err = rows.Scan(&name, &value)
		m[name] = value
		return none, err
	}, `SELECT name, value FROM meta`)
	return m, err
}

func (tx *tx) setMeta(name, value string) error {
	return tx.exec(`INSERT INTO meta (name, value) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`, name, value)
}

func (tx *tx) setHome(h home) error {
	for _, kv := range [][2]string{{"home.host", h.host}, {"home.device", h.device}, {"home.inode", h.inode}, {"home.boot", h.boot}} {
		if err := tx.setMeta(kv[0], kv[1]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) settleDown(ctx context.Context, h home) error {
	return s.writer.do(ctx, func(tx *tx) error { return tx.setHome(h) })
}

// Adopt makes a copy a ledger of its own: this file, here, takes writes from now
// on, under a new id. The original is not told.
func Adopt(ctx context.Context, path string, a ledger.Actor) error {
	s, err := Open(ctx, path, Options{Actor: a})
	if err != nil {
		return err
	}
	defer s.Close()
	if s.copied == "" {
		return nil
	}
	h, err := homeOf(s.path)
	if err != nil {
		return fmt.Errorf("look at the ledger's file: %w", err)
	}
	return s.writer.do(ctx, func(tx *tx) error {
		if err := tx.setHome(h); err != nil {
			return err
		}
		if err := tx.setMeta("id", ledger.NewID()); err != nil {
			return err
		}
		return tx.event(ledger.Event{ID: ledger.NewID(), At: s.now(), Verb: "adopt", Actor: a, Reason: "adopted here: " + s.copied})
	})
}
