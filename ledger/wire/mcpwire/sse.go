package mcpwire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"
)

type event struct {
	name string        // "" means message
	data []byte        // its data lines, joined by newlines
	id   string        // of the stream up to its end: where to go on after it
	wait time.Duration // the server's word on when to come back, 0 for none
}

// events reads a text/event-stream (WHATWG HTML, "Server-sent events"). An event
// whose end did not come is dropped, as that standard says.
type events struct {
	in    *bufio.Reader
	id    string // of the last event that came whole
	wait  time.Duration
	begun bool
	cr    bool // the line before ended with a carriage return
}

func newEvents(r io.Reader) *events { return &events{in: bufio.NewReaderSize(r, 16<<10)} }

// next returns the next event that carries data: an empty one only says where a stream
// can be gone on with. The error is the reader's, or ErrLineTooLong.
func (e *events) next() (event, error) {
	var v event
	var has bool
	id := e.id
	for {
		line, err := e.line(MaxLine - len(v.data))
		if err != nil {
			return event{}, err
		}
		if len(line) == 0 {
			e.id = id
			if len(bytes.TrimSpace(v.data)) > 0 {
				v.id, v.wait = e.id, e.wait
				return v, nil
			}
			v, has = event{}, false
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) { // a comment has no name
		case "data":
			if has {
				v.data = append(v.data, '\n')
			}
			v.data, has = append(v.data, value...), true
		case "event":
			v.name = string(value)
		case "id":
			if bytes.IndexByte(value, 0) < 0 && len(value) <= maxHeaderValue {
				id = string(value)
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				e.wait = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

// line reads up to the next \n, \r\n or \r, at most limit bytes. A line without
// its end is none.
func (e *events) line(limit int) ([]byte, error) {
	var line []byte
	for {
		c, err := e.in.ReadByte()
		if err != nil {
			return nil, err
		}
		if e.cr {
			e.cr = false
			if c == '\n' {
				continue
			}
		}
		switch c {
		case '\r', '\n':
			e.cr = c == '\r'
			if !e.begun {
				e.begun = true
				line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
			}
			return line, nil
		}
		if len(line) >= limit {
			return nil, ErrLineTooLong
		}
		line = append(line, c)
	}
}

// oneLine puts a JSON text on one line with a newline at its end. In JSON a line
// break stands between tokens only, where a space means the same; nothing else
// is changed.
func oneLine(text []byte) []byte {
	text = bytes.Trim(text, " \t\r\n")
	line := make([]byte, len(text), len(text)+1)
	for i, c := range text {
		if c == '\n' || c == '\r' {
			c = ' '
		}
		line[i] = c
	}
	return append(line, '\n')
}

// readAll reads a body of at most MaxLine bytes.
func readAll(r io.Reader) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, MaxLine+1))
	if err == nil && len(body) > MaxLine {
		err = ErrLineTooLong
	}
	return body, err
}

var errUnanswered = errors.New("the server ended its answer before the message came")
