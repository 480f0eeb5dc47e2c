//go:build soak

package cli_test

import "testing"

// Every block of the pages that use programs of others does what its page says.
func TestThePagesRunWithOtherPrograms(t *testing.T) {
	for _, name := range pagesOfOthers {
		t.Run(name, func(t *testing.T) { runPage(t, name) })
	}
}
