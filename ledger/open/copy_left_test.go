package open

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// A copy that fails, or is taken back, leaves nothing of the ledger at its place.
func TestACopyThatFailsLeavesNothing(t *testing.T) {
	from, dir := placeOf(t, filepath.Join(t.TempDir(), "from.db")), t.TempDir()
	to := placeOf(t, filepath.Join(dir, "to.db"))
	s := need.Get(from.Make(t.Context(), Options{}, Making{}))(t)
	defer s.Close()
	need.OK(t, begins(s, "flying"))
	there := func() int { return len(need.Get(os.ReadDir(dir))(t)) }

	var trouble ledger.Trouble
	_, err := Copy(t.Context(), from, to, Options{}, CopyOptions{Progress: quiet})
	need.That(t, errors.As(err, &trouble) && trouble.Code == "in_progress", "it was told %v", err)
	need.That(t, there() == 0, "a copy that failed left %d files", there())

	ctx, stop := context.WithCancel(t.Context())
	_, err = Copy(ctx, from, to, Options{}, CopyOptions{Wait: time.Minute, Keep: true, Progress: func(CopyProgress) { stop() }})
	need.That(t, errors.Is(err, context.Canceled) && there() > 0, "a copy that is to go on left %d files: %v", there(), err)
	need.OK(t, Uncopy(t.Context(), from, to, Options{}))
	need.That(t, there() == 0, "a copy that was taken back left %d files", there())
	need.OK(t, begins(s, "open again"))
}
