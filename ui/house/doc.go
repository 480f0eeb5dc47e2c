// Package house has tests of the source itself: who imports whom, how large a
// struct, a type, a file or a function may be, and whether the pages name what is
// there. Nothing imports it.
package house
