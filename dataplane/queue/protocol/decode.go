package protocol

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unique"

	"warren/dataplane/backingqueue"
	"warren/dataplane/message"
	"warren/dataplane/message/wire"
)

// What Decode returns, wrapped.
var (
	// ErrVersion: written by a version that this one does not know.
	ErrVersion = errors.New("unknown version of the queue protocol")
	// ErrMalformed: not a message, or one that exceeds the limits.
	ErrMalformed = errors.New("malformed queue message")
)

// Decode reads one message, which is all of b. Messages of publishers alias b, which must not change any more; everything
// else is copied. Elements of a later version are skipped.
func Decode(b []byte) (Message, error) {
	d := decoder{Reader: wire.NewReader(b)}
	n := d.Array()
	version, kind := d.Uint(), Kind(min(d.Uint(), 255))
	h := Header{Epoch: d.Uint(), Session: d.Uint()}
	if err := d.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if version != Version {
		return nil, fmt.Errorf("%w: %d", ErrVersion, version)
	}
	if int(kind) >= len(bodyFields) || kind == 0 {
		return nil, fmt.Errorf("%w: kind %d", ErrVersion, kind)
	}
	if n < 4+bodyFields[kind] {
		return nil, fmt.Errorf("%w: kind %d with %d elements", ErrMalformed, kind, n)
	}
	m := d.body(kind, h)
	d.SkipN(n - 4 - bodyFields[kind])
	if err := d.failed(); err != nil {
		return nil, fmt.Errorf("%w: kind %d: %w", ErrMalformed, kind, err)
	}
	if d.Len() != 0 {
		return nil, fmt.Errorf("%w: kind %d: %d bytes behind it", ErrMalformed, kind, d.Len())
	}
	return m, nil
}

type decoder struct {
	wire.Reader
	err error // beyond those of the Reader
}

func (d *decoder) failed() error {
	if err := d.Err(); err != nil {
		return err
	}
	return d.err
}

func (d *decoder) refuse(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
}

func (d *decoder) body(k Kind, h Header) Message {
	switch k {
	case KindPublish:
		return &Publish{Header: h, Items: list(d, 4, (*decoder).publishItem)}
	case KindDeliver:
		m := d.deliver(h)
		return &m
	case KindConfirm:
		return &Confirm{Header: h, Results: list(d, 4, (*decoder).result), AckStable: d.Uint(), Credit: d.credit()}
	case KindAck:
		return d.ack(h)
	case KindAttach:
		return &Attach{
			Header: h, Origins: list(d, 3, (*decoder).attachOrigin), Consumers: d.consumers(),
			Outstanding: list(d, 1+namedFields, (*decoder).outstanding), Last: d.Bool(),
		}
	case KindCredit:
		return &CreditGrant{Header: h, Items: list(d, 3, (*decoder).consumerCredit)}
	case KindCall:
		return &Call{
			Header: h, ID: d.Uint(), Op: Op(d.small(255)), Consumer: element(d, 8, (*decoder).consumer),
			NoAck: d.Bool(), IfUnused: d.Bool(), IfEmpty: d.Bool(),
		}
	case KindCloseOrigin:
		return &CloseOrigin{Header: h, Ref: d.Uint()}
	case KindReady:
		return &Ready{Header: h, Wait: d.Bool()}
	case KindWelcome:
		return &Welcome{Header: h, Publish: d.credit(), Consumer: d.credit()}
	case KindReply:
		return d.reply(h)
	case KindCancelled:
		return &Cancelled{Header: h, Consumer: d.Uint(), Code: Code(d.small(255))}
	}
	return &Hello{Header: h}
}

// element reads a struct of at least known fields and skips what a later version added.
func element[T any](d *decoder, known int, read func(*decoder) T) (v T) {
	n := d.Array()
	if d.Err() == nil && n < known {
		d.refuse("%d elements in place of %d", n, known)
	}
	if d.failed() != nil {
		return v
	}
	v = read(d)
	d.SkipN(n - known)
	return v
}

// list reads elements of known fields each; more than MaxItems are refused before anything is allocated for them.
func list[T any](d *decoder, known int, read func(*decoder) T) []T {
	n := d.Array()
	if n > MaxItems {
		d.refuse("list of %d elements", n)
	}
	if n == 0 || d.failed() != nil {
		return nil
	}
	items := make([]T, 0, n)
	for range n {
		items = append(items, element(d, known, read))
		if d.failed() != nil {
			return nil
		}
	}
	return items
}

func (d *decoder) publishItem() PublishItem {
	return PublishItem{Ref: d.Uint(), Number: d.Uint(), Void: d.Bool(), Message: d.message()}
}

func (d *decoder) deliver(h Header) Deliver {
	return Deliver{
		Header: h, Origins: list(d, 4, (*decoder).originFields), Items: list(d, 7, (*decoder).deliverItem),
	}
}

func (d *decoder) deliverItem() DeliverItem {
	return DeliverItem{
		Consumer: d.Uint(), Position: Position{Epoch: d.Uint(), Seq: d.Uint()},
		Origin: uint32(d.small(1<<32 - 1)), Number: d.Uint(), Redelivered: d.Bool(), Message: d.message(),
	}
}

func (d *decoder) result() Result {
	return Result{Ref: d.Uint(), First: d.Uint(), Last: d.Uint(), Nack: d.Bool()}
}

func (d *decoder) ack(h Header) *Ack {
	m := &Ack{Header: h, Number: d.Uint(), Outcome: Outcome(d.small(255))}
	m.Seqs = list(d, 2, func(d *decoder) backingqueue.Range { return backingqueue.Range{First: d.Uint(), Last: d.Uint()} })
	covered := uint64(0)
	for _, r := range m.Seqs {
		if r.Last < r.First || r.Last-r.First >= MaxItems-covered {
			d.refuse("ranges of more than %d positions", MaxItems)
			return m
		}
		covered += r.Last - r.First + 1
	}
	m.Named = list(d, namedFields, (*decoder).named)
	if m.Outcome < Acked || m.Outcome > Requeued {
		d.refuse("outcome %d", m.Outcome)
	}
	return m
}

func (d *decoder) reply(h Header) *Reply {
	m := &Reply{Header: h, ID: d.Uint(), Code: Code(d.small(255)), Messages: d.Uint(), Consumers: d.Uint()}
	n := d.Array()
	if n == 0 {
		return m
	}
	if n < bodyFields[KindDeliver] {
		d.refuse("delivery of %d elements", n)
		return m
	}
	get := d.deliver(h)
	d.SkipN(n - bodyFields[KindDeliver])
	if len(get.Items) != 1 {
		d.refuse("get with %d messages", len(get.Items))
	}
	m.Get = &get
	return m
}

func (d *decoder) attachOrigin() AttachOrigin {
	return AttachOrigin{Ref: d.Uint(), ID: d.origin(), Lowest: d.Uint()}
}

func (d *decoder) outstanding() Outstanding {
	return Outstanding{Consumer: d.Uint(), Named: d.named()}
}

func (d *decoder) named() Named {
	return Named{Position: Position{Epoch: d.Uint(), Seq: d.Uint()}, Origin: d.origin(), Number: d.Uint()}
}

func (d *decoder) origin() backingqueue.OriginID { return element(d, 4, (*decoder).originFields) }

// originFields interns the node's name: it outlives the buffer, and there are few of them.
func (d *decoder) originFields() backingqueue.OriginID {
	return backingqueue.OriginID{
		Node: unique.Make(d.String()).Value(), Incarnation: d.Uint(), Connection: d.Uint(), Channel: d.Uint(),
	}
}

func (d *decoder) consumers() []Consumer { return list(d, 8, (*decoder).consumer) }

func (d *decoder) consumer() Consumer {
	return Consumer{
		ID: d.Uint(), Call: d.Uint(), Tag: strings.Clone(d.String()), Prefetch: uint32(d.small(1<<32 - 1)),
		NoAck: d.Bool(), Exclusive: d.Bool(), Priority: d.int32(), Args: bytes.Clone(d.Bytes()),
	}
}

func (d *decoder) consumerCredit() ConsumerCredit {
	return ConsumerCredit{Consumer: d.Uint(), Credit: d.credit()}
}

func (d *decoder) credit() Credit {
	c := Credit{Count: d.Int(), Bytes: d.Int()}
	if c.Count < 0 || c.Bytes < 0 {
		d.refuse("negative credit")
	}
	return c
}

func (d *decoder) message() message.Message {
	m, err := message.Decode(&d.Reader)
	if err != nil {
		d.refuse("%w", err)
	}
	return m
}

func (d *decoder) small(most uint64) uint64 {
	v := d.Uint()
	if v > most {
		d.refuse("number %d above %d", v, most)
		return 0
	}
	return v
}

func (d *decoder) int32() int32 {
	v := d.Int()
	if int64(int32(v)) != v {
		d.refuse("number %d out of range", v)
	}
	return int32(v)
}
