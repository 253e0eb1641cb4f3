package admin

// Argument is one entry of an AMQP table, in the order in which it was declared.
type Argument struct {
	Name  string `msgpack:"name"`
	Value Value  `msgpack:"value"`
}

// Kind is the AMQP type of a Value, by the names that RabbitMQ uses for them (AMQP 0-9-1, 4.2.5.5 and RabbitMQ's errata).
type Kind string

// Kinds, and which field of Value holds what.
const (
	KindLongStr   Kind = "longstr"   // Text
	KindBool      Kind = "bool"      // Bool
	KindByte      Kind = "byte"      // Int
	KindShort     Kind = "short"     // Int
	KindSignedInt Kind = "signedint" // Int
	KindLong      Kind = "long"      // Int
	KindTimestamp Kind = "timestamp" // Int, seconds since 1970
	KindFloat     Kind = "float"     // Float
	KindDouble    Kind = "double"    // Float
	KindTable     Kind = "table"     // Table
	KindArray     Kind = "array"     // List
	KindBinary    Kind = "binary"    // Text
	KindVoid      Kind = "void"      // nothing
)

// Value is one AMQP field value.
type Value struct {
	Kind  Kind       `msgpack:"kind"`
	Int   int64      `msgpack:"int,omitempty"`
	Float float64    `msgpack:"float,omitempty"`
	Bool  bool       `msgpack:"bool,omitempty"`
	Text  string     `msgpack:"text,omitempty"`
	List  []Value    `msgpack:"list,omitempty"`
	Table []Argument `msgpack:"table,omitempty"`
}
