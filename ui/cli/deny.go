package cli

import (
	"github.com/spf13/cobra"

	"indoubt/ledger"
)

// refuses says what comes of the same request once it was denied or abandoned.
const refuses = `The same again is refused: for the ttl of its key, or for good; where all its words name
it, for a day after it was sent. A kind that replaces what is on its target runs again
after another one.`

func newDenyCommand(a *app) *cobra.Command {
	var flags decideFlags
	cmd := a.newDecidingCommand("deny", "Say that it did not land",
		`Say that a write in doubt did not land, and how you know. It is your word, not
proof: sending it again still counts as taking a risk.
`+refuses,
		"  indoubt deny 0198c1de-7a3b@3 --reason 'their support says no such charge, ticket 4411'", &flags, inDoubt)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.decide(cmd.Context(), "deny", args, &flags, needs{version: true, reason: true}, decision(ledger.VerbDeny, nil))
	}
	return cmd
}
