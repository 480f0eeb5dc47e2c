//go:build soak && unix

package connect

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"indoubt/ledger"
	"indoubt/ledger/need"
)

func TestMCPOldServerThatIsSilentBeforeInitialize(t *testing.T) {
	for _, mode := range []string{"old", "old and chatty"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			m := newMCP(t)
			q, processes := child(t, mode)
			a := m.Read(t.Context(), q)
			need.Must(t, a.Err == nil && a.RPC != nil && strings.Contains(string(a.RPC.Result), `"n":9007199254740993`), "%v %+v", a.Err, a.RPC)
			started, ended := processes()
			need.That(t, len(started) == 2 && len(ended) == 1 && !alive(started[0]), "started %v, ended %v", started, ended)
			// What was learnt holds for the next process.
			n, _ := strconv.Atoi(started[1])
			_ = syscall.Kill(n, syscall.SIGKILL)
			until(t, "the process is gone", func() bool { return !alive(started[1]) })
			until(t, "another one answers", func() bool { return m.Read(t.Context(), q).Err == nil })
			if started, _ := processes(); len(started) != 3 {
				t.Errorf("started %v", started)
			}
		})
	}
}

func TestMCPAnswerThatDoesNotEndIsTooLong(t *testing.T) {
	m := newMCP(t)
	q, _ := child(t, "endless")
	a := m.Read(t.Context(), q)
	need.That(t, a.Err != nil && a.Truncated && a.RPC == nil, "%v %+v", a.Err, a)
}

func init() {
	mcpSends = append(mcpSends, mcpSend{"hangs after the effect", "hang", 500 * time.Millisecond, false,
		func(a ledger.Answer) bool { return a.Sent && a.RPC == nil && a.Class == ledger.ClassTimeout }, 1})
}

func TestMCPServerThatSaysNothing(t *testing.T) {
	m := newMCP(t)
	mute, running := child(t, "mute")
	mute.Timeout = 300 * time.Millisecond
	a := m.Send(t.Context(), mute)
	need.That(t, !a.Sent && a.Class == ledger.ClassTimeout && a.EndedAt.Sub(a.BeganAt) <= 20*time.Second, "%+v", a)
	m.Close()
	until(t, "the mute one is gone", func() bool {
		started, _ := running()
		return len(started) == 0 || !alive(started[len(started)-1])
	})
}

func TestMCPSlowServerIsReplaced(t *testing.T) {
	m := newMCP(t)
	q, processes := child(t, "sdk")
	need.Equal(t, m.Read(t.Context(), q).Err, nil)
	slow := q
	slow.Tool, slow.Timeout = "slow", 300*time.Millisecond
	a := m.Read(t.Context(), slow)
	need.That(t, a.Class == ledger.ClassTimeout && a.EndedAt.Sub(a.BeganAt) <= 20*time.Second, "slow: %+v", a)
	need.Equal(t, m.Read(t.Context(), q).Err, nil, "after the slow one")
	started, _ := processes()
	need.That(t, len(started) == 2 && !alive(started[0]) && alive(started[1]), "started %v", started)
}
