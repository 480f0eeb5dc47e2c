package policy

import (
	"context"
	"testing"
)

func TestExampleLoadsCleanly(t *testing.T) {
	p, err := Parse("example.yaml", Example())
	if err != nil {
		t.Fatalf("the example is refused:\n%v", err)
	}
	for _, name := range p.Kinds() {
		for _, r := range p.Kind(name).RunTests(context.Background()) {
			if !r.OK {
				t.Errorf("%s, %q: got %s (%s), want %s", name, r.Test.Name, r.Got, r.Why, r.Test.Want)
			}
		}
	}
	for _, w := range p.Warnings() {
		t.Errorf("a warning about the example:\n%s", w.Error())
	}
}
