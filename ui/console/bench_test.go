package console

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"testing"

	"indoubt/ledger"

	tea "charm.land/bubbletea/v2"
)

// manyRows is a console over a list that is longer than a screen of 200x60.
func manyRows(b *testing.B) *bench {
	s := newMemory(night)
	for n := 100; n < 600; n++ {
		s.put(doubt(n, "stripe.charge", fmt.Sprintf("charge cus_%d %d.00", n, n), "billing", "02:50:00", "02:50:30", ledger.ClassTimeout, 0.5, amount(float64(2*n)), amount(float64(n))))
	}
	o := nightOptions()
	o.Store = s
	w := newBench(b, 200, 60, o).judged(nightFacts)
	for range 8 {
		w.keys("ctrl+d")
	}
	w.keys("g")
	return w
}

// BenchmarkCursorStep is one key to one drawn frame, without Bubble Tea's own
// parse and diff.
func BenchmarkCursorStep(b *testing.B) {
	w := manyRows(b)
	keys := []tea.Msg{keyMsg("j"), keyMsg("k")}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		w.m.Update(keys[i%2])
		w.m.View()
	}
}

// BenchmarkView is one frame drawn anew.
func BenchmarkView(b *testing.B) {
	w := manyRows(b)
	b.ReportAllocs()
	for b.Loop() {
		w.m.dirty = true
		w.m.View()
	}
}

// BenchmarkViewMemoised is a message that changes nothing.
func BenchmarkViewMemoised(b *testing.B) {
	w := manyRows(b)
	b.ReportAllocs()
	for b.Loop() {
		w.m.Update(struct{}{})
		w.m.View()
	}
}

// firstFrame waits until a text was written, and then leaves.
type firstFrame struct {
	want []byte
	mu   sync.Mutex
	buf  bytes.Buffer
	seen chan struct{}
	once sync.Once
}

func (f *firstFrame) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buf.Write(p)
	if bytes.Contains(f.buf.Bytes(), f.want) {
		f.once.Do(func() { close(f.seen) })
	}
	return len(p), nil
}

type bare struct{}

func (bare) Init() tea.Cmd                       { return nil }
func (bare) Update(tea.Msg) (tea.Model, tea.Cmd) { return bare{}, nil }
func (bare) View() tea.View {
	v := tea.NewView("hello")
	v.AltScreen = true
	return v
}

// BenchmarkFirstFrame is the time from the start to a first whole frame, beside
// the smallest Bubble Tea program.
func BenchmarkFirstFrame(b *testing.B) {
	options := func(f *firstFrame) []tea.ProgramOption {
		in, _ := io.Pipe()
		return []tea.ProgramOption{tea.WithInput(in), tea.WithOutput(f), tea.WithWindowSize(200, 60), tea.WithoutSignals(), tea.WithEnvironment([]string{"TERM=xterm-256color"})}
	}
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			f := &firstFrame{want: []byte("hello"), seen: make(chan struct{})}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() {
				_, _ = tea.NewProgram(bare{}, append(options(f), tea.WithContext(ctx))...).Run()
				close(done)
			}()
			<-f.seen
			b.StopTimer()
			cancel()
			<-done
			b.StartTimer()
		}
	})
	b.Run("console", func(b *testing.B) {
		s := nightStore()
		o := nightOptions()
		o.Store = s
		for b.Loop() {
			f := &firstFrame{want: []byte("12,000.00"), seen: make(chan struct{})}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() {
				_ = Run(ctx, o, options(f)...)
				close(done)
			}()
			<-f.seen
			b.StopTimer()
			cancel()
			<-done
			b.StartTimer()
		}
	})
}
