// Package wire writes and reads the part of msgpack that Warren's hot paths need, by hand and without reflection:
// unsigned and signed integers, booleans, strings, byte strings and arrays, each in its shortest form.
//
// The Append functions add to a slice, as those of strconv do. A Reader walks a slice, remembers its first error and
// never allocates: what it returns aliases its input, and every length is checked against what is left before it is
// used. Arrays carry their length, so a reader that knows fewer fields than the writer skips the rest (Reader.SkipN;
// design/upgrades.md: unknown fields are skipped).
package wire
