package protocol

import (
	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
	"warren/dataplane/message/wire"
)

// Version of the wire form. A change that does more than add elements at the end of an array gets a new one.
const Version = 1

// Append adds m to b as a msgpack array
//
//	[version, kind, epoch, session, the fields of the message in the order in which its type lists them …]
//
// where structs within are arrays of their fields (embedded ones inline). Decode reads it.
func Append(b []byte, m Message) []byte {
	h := m.Head()
	n := 4
	body := bodyFields[m.Kind()]
	b = wire.AppendArray(b, n+body)
	b = wire.AppendUint(b, Version)
	b = wire.AppendUint(b, uint64(m.Kind()))
	b = wire.AppendUint(b, h.Epoch)
	b = wire.AppendUint(b, h.Session)
	switch m := m.(type) {
	case *Publish:
		return appendPublish(b, m)
	case *Deliver:
		return appendDeliver(b, m)
	case *Confirm:
		return appendConfirm(b, m)
	case *Ack:
		return appendAck(b, m)
	case *Attach:
		return appendAttach(b, m)
	case *CreditGrant:
		return appendGrant(b, m)
	case *Call:
		return appendCall(b, m)
	case *CloseOrigin:
		return wire.AppendUint(b, m.Ref)
	case *Ready:
		return wire.AppendBool(b, m.Wait)
	case *Welcome:
		return appendCredit(appendCredit(b, m.Publish), m.Consumer)
	case *Reply:
		return appendReply(b, m)
	case *Cancelled:
		return wire.AppendUint(wire.AppendUint(b, m.Consumer), uint64(m.Code))
	}
	return b // Hello has no fields
}

// bodyFields is how many elements follow the header; Credit counts as two.
var bodyFields = [...]int{
	KindHello: 0, KindAttach: 4, KindPublish: 1, KindAck: 4, KindCredit: 1, KindCall: 6, KindCloseOrigin: 1,
	KindReady: 1, KindWelcome: 4, KindDeliver: 2, KindConfirm: 4, KindReply: 5, KindCancelled: 2,
}

// WireSize is at least what Append adds for a Publish or Deliver, for a buffer of the right size; about so for the others.
func WireSize(m Message) int {
	n := 64
	switch m := m.(type) {
	case *Publish:
		for i := range m.Items {
			n += 32 + message.Size(&m.Items[i].Message)
		}
	case *Deliver:
		for i := range m.Items {
			n += 48 + message.Size(&m.Items[i].Message)
		}
		n += 96 * len(m.Origins)
	case *Ack:
		n += 20*len(m.Seqs) + 128*len(m.Named)
	case *Confirm:
		n += 32 * len(m.Results)
	}
	return n
}

func appendPublish(b []byte, m *Publish) []byte {
	b = wire.AppendArray(b, len(m.Items))
	for i := range m.Items {
		it := &m.Items[i]
		b = wire.AppendArray(b, 4)
		b = wire.AppendUint(b, it.Ref)
		b = wire.AppendUint(b, it.Number)
		b = wire.AppendBool(b, it.Void)
		b = message.Append(b, &it.Message)
	}
	return b
}

func appendDeliver(b []byte, m *Deliver) []byte {
	b = wire.AppendArray(b, len(m.Origins))
	for i := range m.Origins {
		b = appendOrigin(b, &m.Origins[i])
	}
	b = wire.AppendArray(b, len(m.Items))
	for i := range m.Items {
		it := &m.Items[i]
		b = wire.AppendArray(b, 7)
		b = wire.AppendUint(b, it.Consumer)
		b = wire.AppendUint(b, it.Position.Epoch)
		b = wire.AppendUint(b, it.Position.Seq)
		b = wire.AppendUint(b, uint64(it.Origin))
		b = wire.AppendUint(b, it.Number)
		b = wire.AppendBool(b, it.Redelivered)
		b = message.Append(b, &it.Message)
	}
	return b
}

func appendConfirm(b []byte, m *Confirm) []byte {
	b = wire.AppendArray(b, len(m.Results))
	for _, r := range m.Results {
		b = wire.AppendArray(b, 4)
		b = wire.AppendUint(b, r.Ref)
		b = wire.AppendUint(b, r.First)
		b = wire.AppendUint(b, r.Last)
		b = wire.AppendBool(b, r.Nack)
	}
	b = wire.AppendUint(b, m.AckStable)
	return appendCredit(b, m.Credit)
}

func appendAck(b []byte, m *Ack) []byte {
	b = wire.AppendUint(b, m.Number)
	b = wire.AppendUint(b, uint64(m.Outcome))
	b = appendRanges(b, m.Seqs)
	b = wire.AppendArray(b, len(m.Named))
	for i := range m.Named {
		b = wire.AppendArray(b, namedFields)
		b = appendNamed(b, &m.Named[i])
	}
	return b
}

func appendAttach(b []byte, m *Attach) []byte {
	b = wire.AppendArray(b, len(m.Origins))
	for i := range m.Origins {
		o := &m.Origins[i]
		b = wire.AppendArray(b, 3)
		b = wire.AppendUint(b, o.Ref)
		b = appendOrigin(b, &o.ID)
		b = wire.AppendUint(b, o.Lowest)
	}
	b = wire.AppendArray(b, len(m.Consumers))
	for i := range m.Consumers {
		b = appendConsumer(b, &m.Consumers[i])
	}
	b = wire.AppendArray(b, len(m.Outstanding))
	for i := range m.Outstanding {
		o := &m.Outstanding[i]
		b = wire.AppendArray(b, 1+namedFields)
		b = wire.AppendUint(b, o.Consumer)
		b = appendNamed(b, &o.Named)
	}
	return wire.AppendBool(b, m.Last)
}

func appendGrant(b []byte, m *CreditGrant) []byte {
	b = wire.AppendArray(b, len(m.Items))
	for _, it := range m.Items {
		b = wire.AppendArray(b, 3)
		b = wire.AppendUint(b, it.Consumer)
		b = appendCredit(b, it.Credit)
	}
	return b
}

func appendCall(b []byte, m *Call) []byte {
	b = wire.AppendUint(b, m.ID)
	b = wire.AppendUint(b, uint64(m.Op))
	b = appendConsumer(b, &m.Consumer)
	b = wire.AppendBool(b, m.NoAck)
	b = wire.AppendBool(b, m.IfUnused)
	return wire.AppendBool(b, m.IfEmpty)
}

func appendReply(b []byte, m *Reply) []byte {
	b = wire.AppendUint(b, m.ID)
	b = wire.AppendUint(b, uint64(m.Code))
	b = wire.AppendUint(b, m.Messages)
	b = wire.AppendUint(b, m.Consumers)
	if m.Get == nil {
		return wire.AppendArray(b, 0)
	}
	b = wire.AppendArray(b, bodyFields[KindDeliver])
	return appendDeliver(b, m.Get)
}

func appendCredit(b []byte, c Credit) []byte {
	return wire.AppendInt(wire.AppendInt(b, c.Count), c.Bytes)
}

func appendRanges(b []byte, rs []backingqueue.Range) []byte {
	b = wire.AppendArray(b, len(rs))
	for _, r := range rs {
		b = wire.AppendArray(b, 2)
		b = wire.AppendUint(b, r.First)
		b = wire.AppendUint(b, r.Last)
	}
	return b
}

func appendOrigin(b []byte, id *backingqueue.OriginID) []byte {
	b = wire.AppendArray(b, 4)
	b = wire.AppendString(b, id.Node)
	b = wire.AppendUint(b, id.Incarnation)
	b = wire.AppendUint(b, id.Connection)
	return wire.AppendUint(b, id.Channel)
}

const namedFields = 4

func appendNamed(b []byte, n *Named) []byte {
	b = wire.AppendUint(b, n.Epoch)
	b = wire.AppendUint(b, n.Seq)
	b = appendOrigin(b, &n.Origin)
	return wire.AppendUint(b, n.Number)
}

func appendConsumer(b []byte, c *Consumer) []byte {
	b = wire.AppendArray(b, 8)
	b = wire.AppendUint(b, c.ID)
	b = wire.AppendUint(b, c.Call)
	b = wire.AppendString(b, c.Tag)
	b = wire.AppendUint(b, uint64(c.Prefetch))
	b = wire.AppendBool(b, c.NoAck)
	b = wire.AppendBool(b, c.Exclusive)
	b = wire.AppendInt(b, int64(c.Priority))
	return wire.AppendBytes(b, c.Args)
}
