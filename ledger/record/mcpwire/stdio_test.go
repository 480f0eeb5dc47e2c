package mcpwire

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"
)

func start(t *testing.T, script string) Conn {
	t.Helper()
	c, err := Start(context.Background(), StdioOptions{Argv: []string{"sh", "-c", script}, Grace: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestLinesPassAsTheyAre(t *testing.T) {
	c := start(t, "cat; printf last")
	for _, line := range []string{"{ \"id\" : 12345678901234567890 }\r\n", "\n", "log noise\n", "\xff\xfe\x00\n"} {
		if sent, err := c.Send(context.Background(), []byte(line)); !sent || err != nil {
			t.Fatal(sent, err)
		}
		got, err := c.Recv()
		if err != nil || string(got) != line {
			t.Fatalf("%q came back as %q, %v", line, got, err)
		}
	}
	go c.Close()
	if got, err := c.Recv(); string(got) != "last" || err != nil {
		t.Fatalf("a last line without its newline: %q, %v", got, err)
	}
	if _, err := c.Recv(); err != io.EOF && !errors.Is(err, ErrClosed) {
		t.Fatal("after the last line:", err)
	}
}
