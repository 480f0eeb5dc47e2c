package policy

import (
	_ "embed"
)

//go:embed schema.json
var schema []byte

// Schema is the JSON Schema (2020-12) of a policy file, for editors. It knows
// the fields; what expressions mean only the check knows.
func Schema() []byte { return append([]byte(nil), schema...) }
