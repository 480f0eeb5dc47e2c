package store

import (
	"indoubt/ledger"
	"indoubt/ledger/need"
)

// InMemory makes an empty database. Who imports this package sets it.
var InMemory func(ledger.Clock, ledger.SteadyClock) (Database, error)

// lasting is a database that is one transaction from its beginning to its end.
type lasting interface {
	Database
	Tx
}

func inMemory(t need.T) lasting { return need.Get(InMemory(nil, nil))(t).(lasting) }
