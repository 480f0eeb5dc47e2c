package policy

import (
	_ "embed"
)

//go:embed schema.json
var schema []byte

// Schema is the JSON Schema (2020-12) of a policy file, for editors. It knows
// the fields; what expressions mean only the check knows.
func Schema() []byte { return append([]byte(nil), schema...) }

//go:embed example.yaml
var example []byte

// Example is a commented policy that loads as it is.
func Example() []byte { return append([]byte(nil), example...) }
