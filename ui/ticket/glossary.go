package ticket

import _ "embed"

// Glossary is every word and column of the screen: a line of "# " and the place where they stand,
// then for each the word, a tab and what it means.
//
//go:embed glossary.txt
var Glossary string
