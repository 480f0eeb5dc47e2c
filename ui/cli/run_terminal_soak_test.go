//go:build soak && linux

package cli_test

import "testing"

// TestRunAskedToEndAtTheTerminal: a command that catches the key and exits 0 is in doubt,
// also where the terminal was its own; one that no key asked is not.
func TestRunAskedToEndAtTheTerminal(t *testing.T) {
	for key, name := range map[string]string{"\x03": "INT", "\x1c": "QUIT"} {
		t.Run(name, func(t *testing.T) {
			s := sit(t, place(t), "sh", "-c", `trap : INT QUIT; indoubt run --kind k --key a -- sh -c 'trap "echo heard; exit 0" `+name+`; echo asking; read word'; echo "exit $?"`)
			s.sees("asking")
			s.types(key)
			s.sees("heard")
			s.sees("exit 106")
		})
	}
}
