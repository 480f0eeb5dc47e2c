// Command bare is the smallest Bubble Tea program, to compare a start with.
package main

import (
	"os"

	tea "charm.land/bubbletea/v2"
)

type model struct{}

func (model) Init() tea.Cmd                       { return nil }
func (model) Update(tea.Msg) (tea.Model, tea.Cmd) { return model{}, nil }
func (model) View() tea.View {
	v := tea.NewView("hello")
	v.AltScreen = true
	return v
}

func main() {
	if _, err := tea.NewProgram(model{}).Run(); err != nil {
		os.Exit(1)
	}
}
