package sqlite

import (
	"errors"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

// The last room on a disk is for the outcomes of what is in flight: nothing is begun
// in it, and everything is once there is room again.
func TestI10_TheLastRoomIsForOutcomes(t *testing.T) {
	t.Parallel()
	s, _ := openTest(t)
	flying := begin(t, s)
	free := func(bytes int64) {
		s.writer.roomy = time.Time{} // it is asked again
		s.writer.room = func(string) (int64, int64, error) { return bytes, 1 << 40, nil }
	}
	free(spare - 1)
	_, err := ledger.Begin(ctx, s, request())
	need.That(t, errors.Is(err, ledger.ErrFull), "begun on a full disk: %v", err)
	settleAs(t, s, flying.Attempt.ID, ledger.OutcomeCommitted)
	free(1 << 30)
	begin(t, s)
	// What is in the log needs room in the ledger too.
	need.That(t, tooLittle(spare+9, 10) && !tooLittle(spare+10, 10), "the log takes no room")
}
