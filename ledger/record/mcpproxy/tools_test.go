package mcpproxy

import (
	"encoding/json"
	"testing"
)

// TestI1_AnOldListIsNotLearnt: what was said before the list changed is not taken
// for what is said after it.
func TestI1_AnOldListIsNotLearnt(t *testing.T) {
	var known tools
	page := []json.RawMessage{json.RawMessage(`{"name":"put","annotations":{"readOnlyHint":true}}`)}
	asked := known.list()
	known.forget() // list_changed, while the answer is under way
	known.learn(page, asked)
	if readOnly, _ := known.known("put"); readOnly {
		t.Error("a tool passes as a read by an old list")
	}
	known.learn(page, known.list())
	if readOnly, _ := known.known("put"); !readOnly {
		t.Error("the new list is not learnt")
	}
}
