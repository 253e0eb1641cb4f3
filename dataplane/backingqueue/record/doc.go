// Package record is the format of the store's files: the journal's and the segments' alike.
//
// A file is a header (HeaderSize bytes: magic, format version, the file's number, checksum) and then records. A record is
// its payload's length and CRC-32C, four bytes each, little endian, and the payload: a type byte, the queue's id and the
// record's number within that queue, both as varints, and what the type needs (see Record).
//
// Records are written in batches, each with one write and one sync after the batch before it was synced. A batch begins
// with a mark: a record that holds a magic number, the file's number and its own offset. So a reader that meets a bad
// record knows what it is: if a mark follows, what is bad had been synced, and it is damage; if none does, it is the torn
// end of a batch that nobody was told about (Scan).
package record
