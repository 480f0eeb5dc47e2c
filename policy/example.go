package policy

import (
	_ "embed"
)

//go:embed example.yaml
var example []byte

// Example is a commented policy that loads as it is.
func Example() []byte { return append([]byte(nil), example...) }
