package postgres

import "sync"

// crew is what a store has done beside what is asked of it. Who asks something of a store
// that is being closed, or was, begins nothing with it any more.
type crew struct {
	mu    sync.Mutex
	ended bool
	all   sync.WaitGroup
}

// work has it done, or reports that nothing is begun any more.
func (c *crew) work(do func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.all.Go(do)
	}
	return !c.ended
}

// end waits until all is done.
func (c *crew) end() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.all.Wait()
}
