package need

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// heard is a test that only writes down what it is told.
type heard struct {
	testing.TB
	said []string
}

func (h *heard) Helper()                      {}
func (h *heard) Errorf(f string, args ...any) { h.said = append(h.said, fmt.Sprintf(f, args...)) }
func (h *heard) Fatal(args ...any)            { h.said = append(h.said, "ended: "+fmt.Sprint(args...)) }

func TestEachSaysWhatIsWrong(t *testing.T) {
	for want, do := range map[string]func(h *heard){
		"": func(h *heard) {
			OK(h, nil)
			That(h, true, "no")
			Equal(h, 1, 1)
			Contains(h, "abc", "a", "c")
			Lacks(h, "abc", "d")
		},
		"ended: broken":             func(h *heard) { OK(h, errors.New("broken")) },
		"ended: k: open: broken":    func(h *heard) { OK(h, errors.New("broken"), "k", "open") },
		"exit 2":                    func(h *heard) { That(h, false, "exit %d", 2) },
		"ended: gone":               func(h *heard) { Get(1, errors.New("gone"))(h) },
		`k: effects: got 2, want 1`: func(h *heard) { Equal(h, 2, 1, "k", "effects") },
		`got "", want "x"`:          func(h *heard) { Equal(h, "", "x") },
		"got a\nb, want \"\"":       func(h *heard) { Equal(h, "a\nb", "") },
		"\"d\" is missing in:\nabc": func(h *heard) { Contains(h, "abc", "a", "d") },
		"\"b\" is in:\nabc":         func(h *heard) { Lacks(h, "abc", "b") },
		"\"d\" is missing in:\na|\"e\" is missing in:\na": func(h *heard) { Contains(h, "a", "d", "e") },
	} {
		h := &heard{}
		do(h)
		if got := strings.Join(h.said, "|"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if v := Get("v", nil)(t); v != "v" {
		t.Errorf("%q", v)
	}
}
