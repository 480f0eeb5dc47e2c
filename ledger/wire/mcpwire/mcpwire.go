// Package mcpwire carries MCP messages as the lines they are: Parse looks at a
// line without changing it, Set and Append change one value in it and leave
// every other byte, Start and Dial connect to a server over stdio and over
// streamable HTTP.
//
// It knows no operation and no policy, and imports transmit for the one
// transmission only: what a line means for the record is its caller's business.
package mcpwire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// MaxLine is the length of the longest line that is carried, in bytes. A server
// that sends a longer one ends its connection.
const MaxLine = 64 << 20

// ErrLineTooLong ends a connection whose server sent a line above MaxLine, and
// refuses one to send.
var ErrLineTooLong = fmt.Errorf("an MCP message of more than %d MiB", MaxLine>>20)

// ErrClosed is what Send says on a connection that was closed.
var ErrClosed = errors.New("the connection to the MCP server is closed")

// ErrEnded says that the server has ended by itself.
var ErrEnded = errors.New("the MCP server has ended")

// Conn is a line-oriented connection to an MCP server.
type Conn interface {
	// Send transmits one message, once. A missing newline at its end is added
	// where the transport needs one. sent reports whether at least one byte may
	// have reached the server: with sent false nothing did and nothing will,
	// whatever err says. The context bounds the sending alone, not the answer:
	// no first byte leaves once it has ended. Send is safe for many goroutines.
	Send(ctx context.Context, line []byte) (sent bool, err error)

	// Recv returns the next line of the server, with its newline as it came. A
	// *Lost error tells that no answer will come to one request, and more may
	// follow; after any other error, io.EOF at an orderly end and ErrEnded where
	// the server ended by itself, nothing does.
	// There is one receiver.
	Recv() ([]byte, error)

	// Close ends the connection in the order the protocol names and returns
	// when the server has gone or was made to. It may be called more than once.
	Close() error
}

// Lost is what Recv returns for a request that gets no answer, although the
// connection goes on. What the request did is not known, unless Sent is false or
// Refused is true. Over stdio there is none: there answers are lost when the
// connection ends.
type Lost struct {
	ID   json.RawMessage // the request's id, as it was written
	Sent bool            // at least one byte may have reached the server

	// Status is that of an HTTP answer other than a success; 0 for no answer and
	// for a success whose message did not come.
	Status int
	Body   []byte // such an answer's beginning, at most 64 KiB
	// Refused: the request was not taken up, as HTTP and MCP define that status. It
	// lacked a credential (401), or named a session that has ended (404).
	Refused bool
	Err     error // what happened
}

func (l *Lost) Error() string {
	return fmt.Sprintf("no answer to request %s: %v", l.ID, l.Err)
}

func (l *Lost) Unwrap() error { return l.Err }
