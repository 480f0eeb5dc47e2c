package console

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"

	"indoubt/ledger/need"
)

// A view is drawn at once, and one that follows it; then the ticker slows down, and stays so.
func TestFramesAreFastForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		began := time.Now()
		f := &frames{reset: func(d time.Duration) { got = append(got, fmt.Sprint(time.Since(began), " ", d)) }}
		f.soon()
		time.Sleep(15 * time.Millisecond)
		f.soon()
		time.Sleep(time.Minute)
		f.soon()
		time.Sleep(time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		want := []string{"0s 2ms", "35ms 500ms", "1m0.015s 2ms", "1m0.035s 500ms"}
		need.That(t, slices.Equal(got, want), "%q\nmust be %q", got, want)
	})
}

// The library's ticker is where it is looked for: a program that draws once in a second
// draws each key long before that.
func TestAKeyDoesNotWaitForATick(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *world) {
		o := nightOptions()
		o.Store = nightStore()
		term := start(t, 120, 40, o, tea.WithFPS(1))
		term.wait("sort: lost")
		began := time.Now()
		const help = "/ search  esc back"
		for range 5 {
			term.em.SendText("?")
			term.wait(help)
			term.em.SendText("\x1b")
			term.until("the list again", func(s string) bool { return !strings.Contains(s, help) })
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("ten keys were drawn after %s", took)
		}
		term.keys("q")
		term.left()
	})
}

// What waits until the console is shown takes no time from its first frame, which comes
// when the size of the terminal is known.
func TestItIsShownAfterItsFirstFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, drawn := &Root{}, 0
		var shown atomic.Int32
		view := shownOnce(func() { drawn++ }, m, func() { shown.Add(1) })
		view()
		time.Sleep(time.Second)
		need.That(t, shown.Load() == 0, "it is shown without a size")
		m.w = 80
		view()
		synctest.Wait()
		need.That(t, shown.Load() == 0, "it is shown before the frame can have been written")
		time.Sleep(frameFor)
		view()
		time.Sleep(time.Second)
		need.That(t, shown.Load() == 1 && drawn == 3, "shown %d times, drawn %d times", shown.Load(), drawn)
	})
}
