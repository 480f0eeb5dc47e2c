package postgres

import (
	"sync"
	"time"
)

// channel is what the processes of a ledger listen to.
const channel = "indoubt"

// notifyEvery is how often a process notifies at most. A NOTIFY keeps all others of its
// database from committing at the same time: it is a transaction of its own, for
// whatever was committed before it.
const notifyEvery = 50 * time.Millisecond

// notifier tells other processes of commits, outside of the transactions.
type notifier struct {
	store *handle
	wake  chan struct{} // full while there is something to tell
	stop  chan struct{}
	once  sync.Once // to begin
	ended sync.Once
	done  crew
}

func newNotifier(s *handle) *notifier {
	return &notifier{store: s, wake: make(chan struct{}, 1), stop: make(chan struct{})}
}

// notify tells of a commit soon, together with those that come meanwhile.
func (n *notifier) notify() {
	n.once.Do(func() { n.done.work(n.run) })
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *notifier) run() {
	for {
		select {
		case <-n.wake:
			n.send()
		case <-n.stop:
			select {
			case <-n.wake: // the process may be one that made a single change
				n.send()
			default:
			}
			return
		}
		select {
		case <-time.After(notifyEvery):
		case <-n.stop:
		}
	}
}

// send tells, or lets those who poll find out.
func (n *notifier) send() { n.store.aside(`SELECT pg_notify('` + channel + `', '')`) }

func (n *notifier) close() {
	n.ended.Do(func() { close(n.stop) })
	n.done.end()
}
