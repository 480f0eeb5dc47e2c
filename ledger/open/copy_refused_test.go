package open

import (
	"errors"
	"path/filepath"
	"testing"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// A file and a database keep a ledger in different tables.
func TestAFileIsNotCopied(t *testing.T) {
	file := need.Get(At(filepath.Join(t.TempDir(), "ledger.db")))(t)
	database := need.Get(At("postgres://indoubt@db.example/ledger"))(t)
	for _, way := range [][2]Place{{file, database}, {database, file}, {file, file}} {
		var trouble ledger.Trouble
		_, err := Copy(t.Context(), way[0], way[1], Options{}, CopyOptions{})
		need.That(t, errors.As(err, &trouble) && trouble.Code == "usage", "from %s to %s: %v", way[0], way[1], err)
	}
}
