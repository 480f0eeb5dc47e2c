package mcpwire

import (
	"bytes"
	"context"
)

// remember keeps how the client began its session.
func (c *overHTTP) remember(f Frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case f.Kind == Request && f.Method == "initialize":
		c.hello, c.greeted = bytes.Clone(f.Raw), nil
	case f.Kind == Notification && f.Method == "notifications/initialized":
		c.greeted = bytes.Clone(f.Raw)
	}
}

// toolsChanged is what a server says whose tools may be others than before.
const toolsChanged = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n"

// renew begins a session in place of one that the server has ended, as the client began
// that one: it cannot do so itself, because no line says that a session has ended. What
// was sent in the old session is not sent again.
func (c *overHTTP) renew(ended string) {
	c.renewing.Lock()
	defer c.renewing.Unlock()
	c.mu.Lock()
	hello, greeted := c.hello, c.greeted
	c.mu.Unlock()
	if session, _ := c.dialect.current(); session != ended || hello == nil {
		return
	}
	fresh := &overHTTP{url: c.url, header: c.header, sender: c.sender, closed: make(chan struct{}), out: make(chan received, 16), streams: map[string]*exchange{}}
	fresh.ctx, fresh.cancel = context.WithTimeout(c.ctx, acceptWait)
	defer fresh.cancel() // and not Close, which would end the session
	if _, err := fresh.Send(fresh.ctx, hello); err != nil {
		return
	}
	for {
		session, version := fresh.dialect.agreed()
		if version != "" {
			c.dialect.adopt(session, version)
			break
		}
		if _, err := fresh.Recv(); err != nil {
			return
		}
	}
	if greeted != nil {
		_, _ = c.Send(c.ctx, greeted)
	}
	c.emit(received{line: []byte(toolsChanged)})
}
