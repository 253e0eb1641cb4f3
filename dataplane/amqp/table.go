package amqp

// Table is an AMQP field table as RabbitMQ encodes it. Values have these types, by tag:
//
//	t bool      b int8       B uint8     s int16    u uint16    I int32   i uint32   l int64
//	L uint64    f float32    d float64   D Decimal  S string    x []byte  T Timestamp
//	A []any     F Table      V nil
type Table map[string]any

// Decimal is a field value of type D.
type Decimal struct {
	Scale uint8
	Value uint32
}

// Timestamp is a field value of type T: seconds since 1970.
type Timestamp uint64
