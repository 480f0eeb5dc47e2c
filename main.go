// Command indoubt is a terminal console for operations in doubt: writes to the
// outside world whose answer never came.
package main

import (
	"os"

	"indoubt/ui/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
