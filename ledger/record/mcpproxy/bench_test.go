package mcpproxy_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"indoubt/ledger/ledgertest"
	"indoubt/ledger/need"
	"indoubt/ledger/record"
	"indoubt/ledger/record/mcpproxy"
	"indoubt/ledger/wire/mcpwire"
)

// BenchmarkCall is one call through the proxy to a server in the same process and
// back, with a ledger in memory: what the proxy costs beside its commits.
func BenchmarkCall(b *testing.B) {
	for _, c := range []struct{ name, tool string }{{"recorded", "put"}, {"passing", "get"}} {
		b.Run(c.name, func(b *testing.B) { benchmarkCall(b, c.tool) })
	}
	b.Run("relay", benchmarkRelay)
}

func answerer(f *fake, line []byte) {
	frame := mcpwire.Parse(line)
	if frame.Method == "tools/list" {
		f.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}`+"\n", frame.ID, listed)
		return
	}
	f.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"did put"}]}}`+"\n", frame.ID)
}

// listTools has the server tell which of its tools only reads.
func listTools(b *testing.B, say io.Writer, lines *bufio.Reader) {
	fmt.Fprintln(say, `{"jsonrpc":"2.0","id":"tools","method":"tools/list"}`)
	need.Get(lines.ReadString('\n'))(b)
}

func benchmarkCall(b *testing.B, tool string) {
	in, say := io.Pipe()
	hear, out := io.Pipe()
	store := ledgertest.NewMemory(time.Now, nil)
	p := mcpproxy.New(mcpproxy.Options{
		Recorder: record.New(store, nil, record.Options{}), In: in, Out: out, Server: "s", Scope: "x",
		Connect: func(context.Context) (mcpwire.Conn, error) { return newFake(answerer), nil },
	})
	ended := make(chan error, 1)
	go func() { ended <- p.Run(context.Background()) }()
	lines := bufio.NewReader(hear)
	listTools(b, say, lines)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		fmt.Fprintf(say, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"n":%d,"entities":[{"name":"a","observations":["b","c"]}]}}}`+"\n", i, tool, i)
		need.Get(lines.ReadString('\n'))(b)
	}
	say.Close()
	<-ended
}

// BenchmarkBigAnswer is a call with an answer of 50 MB: of a tool that only reads and
// passes, and of one that is recorded, for which the answer is judged and kept.
func BenchmarkBigAnswer(b *testing.B) {
	for _, shape := range []struct{ name, inside string }{
		{"text", `{"type":"text","text":"` + strings.Repeat("0123456789abcdef", 50<<20/16) + `"}`},
		{"parts", strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"one of many rows"},`, 50<<20/42), ",")},
	} {
		for _, c := range []struct{ name, tool string }{{"passing", "get"}, {"recorded", "put"}} {
			b.Run(shape.name+"/"+c.name, func(b *testing.B) { benchmarkBigAnswer(b, c.tool, shape.inside) })
		}
	}
}

func benchmarkBigAnswer(b *testing.B, tool, inside string) {
	in, say := io.Pipe()
	hear, out := io.Pipe()
	store := ledgertest.NewMemory(time.Now, nil)
	p := mcpproxy.New(mcpproxy.Options{
		Recorder: record.New(store, nil, record.Options{}), In: in, Out: out, Server: "s", Scope: "x",
		Connect: func(context.Context) (mcpwire.Conn, error) {
			return newFake(func(f *fake, line []byte) {
				frame := mcpwire.Parse(line)
				if frame.Method == "tools/list" {
					answerer(f, line)
					return
				}
				f.lines <- fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"content":[%s]}}`+"\n", frame.ID, inside)
			}), nil
		},
	})
	ended := make(chan error, 1)
	go func() { ended <- p.Run(context.Background()) }()
	lines := bufio.NewReaderSize(hear, 1<<20)
	listTools(b, say, lines)
	b.SetBytes(int64(len(inside)))
	for i := 0; b.Loop(); i++ {
		fmt.Fprintf(say, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"n":%d}}}`+"\n", i, tool, i)
		for more := true; more; {
			_, err := lines.ReadSlice('\n')
			more = errors.Is(err, bufio.ErrBufferFull)
			if err != nil && !more {
				b.Fatal(err)
			}
		}
	}
	say.Close()
	<-ended
}

func benchmarkRelay(b *testing.B) {
	conn := newFake(answerer)
	in, say := io.Pipe()
	hear, out := io.Pipe()
	go func() {
		lines := bufio.NewReader(in)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			conn.Send(context.Background(), line)
		}
	}()
	go func() {
		for {
			line, err := conn.Recv()
			if err != nil {
				return
			}
			out.Write(line)
		}
	}()
	lines := bufio.NewReader(hear)
	for i := 0; b.Loop(); i++ {
		fmt.Fprintf(say, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"put","arguments":{"n":%d}}}`+"\n", i, i)
		need.Get(lines.ReadString('\n'))(b)
	}
	say.Close()
	conn.Close()
}
