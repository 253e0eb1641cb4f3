// Package ledger keeps the books of a measurement: which messages were published, confirmed and delivered. It is what keeps a
// measurement honest: a confirm for a message that was never published, a second confirm for the same one, a negative one and
// a body that nobody sent are errors at once, and [Book.Audit] at the end names what was confirmed and never delivered.
//
// Start at [New]; a publisher has one [Book], and each body carries the book's id and the message's number ([Head]).
package ledger
