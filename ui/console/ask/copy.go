package ask

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"indoubt/ledger"
	"indoubt/ledger/lazyregexp"
	"indoubt/ui/console/dialog"
	"indoubt/ui/console/draw"
	"indoubt/ui/safe"
	"indoubt/ui/ticket"
)

var bareWord = lazyregexp.New(`^[\pL\pN_.:@/+,-]+$`)

// shellWord is a text as one word of a command line.
func shellWord(s string) string {
	if bareWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// CopyMenu lists what can be copied, each with its key.
func (c Case) CopyMenu() *dialog.Dialog {
	d := c.about("Copy")
	d.Keys = map[string]dialog.Action{}
	o := &c.told().Record.Operation
	shown := safe.Of
	add := func(key, name, value string) {
		if value != "" {
			d.Put(ticket.Fact{Label: safe.Say("%s  %s", key, name), Text: shown(draw.Cut(value, 200))})
			d.Keys[key] = Copy{What: name, Text: value}
		}
	}
	add("i", "id", o.ID)
	add("v", "id@version", fmt.Sprintf("%s@%d", o.ID, o.Version))
	add("k", "key", o.KeyToSend())
	add("t", "token", o.Token)
	add("r", "receipt", o.Receipt())
	for i := 1; i < len(o.Receipts) && i < 9; i++ {
		add(fmt.Sprint(i+1), fmt.Sprintf("receipt %d", i+1), o.Receipts[i])
	}
	add("l", "link", c.told().Facts.Link)
	var input bytes.Buffer
	if json.Compact(&input, o.Input) == nil {
		shown = safe.JSON
		add("n", "input", input.String())
	}
	shown = safe.Of
	add("s", "command", "indoubt show "+shellWord(o.ID))
	return d
}

// Menu is an empty list of what can be done about the operation.
func (c Case) Menu() *dialog.Dialog {
	d := &dialog.Dialog{Title: safe.Say("What can I do with the %s marked? Press its key", ledger.Count(c.Marks.N)), Head: c.Marks.Words()}
	if c.Marks.N == 0 {
		d = c.about("What can I do? Press its key")
	}
	d.Keys = map[string]dialog.Action{}
	return d
}
