package console

import (
	"reflect"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Bubble Tea writes what View returned at the ticks of a ticker that never rests: at 60
// a second it costs about one per cent of a core through the night, and a key waits half
// a tick for its frame. frames lets it tick fast for a moment after each new view, and
// seldom after that.
type frames struct {
	reset func(time.Duration) // of the ticker
	mu    sync.Mutex
	until time.Time // it ticks fast
	calm  *time.Timer
}

const (
	frameFast   = 2 * time.Millisecond
	frameSeldom = 500 * time.Millisecond // a view that came late is drawn after all
	frameFor    = 20 * time.Millisecond
)

// newFrames governs the ticker of a program. The library has no name for it outside of
// itself: where it cannot be found, it ticks at the rate of the program.
func newFrames(p *tea.Program) *frames {
	return &frames{reset: func(d time.Duration) {
		if t := tickerOf(p); t != nil {
			t.Reset(d)
		}
	}}
}

func tickerOf(p *tea.Program) *time.Ticker {
	field := reflect.ValueOf(p).Elem().FieldByName("ticker")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*time.Ticker]() {
		return nil
	}
	return (*time.Ticker)(field.UnsafePointer())
}

func (f *frames) soon() {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.After(f.until) {
		f.reset(frameFast)
	}
	if f.until = now.Add(frameFor); f.calm == nil {
		f.calm = time.AfterFunc(frameFor, f.rest)
	} else {
		f.calm.Reset(frameFor)
	}
}

func (f *frames) rest() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !time.Now().Before(f.until) { // no view came meanwhile
		f.reset(frameSeldom)
	}
}
