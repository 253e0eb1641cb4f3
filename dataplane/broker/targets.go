package broker

import (
	"warren/dataplane/amqp"
)

// mayDeadLetter: who declares a queue must be allowed to read it, and to write to where its dead letters go (RabbitMQ's rule).
func (s *session) mayDeadLetter(d amqp.QueueDeclare) error {
	x, ok := d.Arguments["x-dead-letter-exchange"].(string)
	if !ok {
		return nil
	}
	if err := s.access.read(d.Name); err != nil {
		return err
	}
	return s.access.exchange("write", x)
}

// mayAlternate is the same for an exchange and its alternate.
func (s *session) mayAlternate(d amqp.ExchangeDeclare) error {
	x, ok := d.Arguments["alternate-exchange"].(string)
	if !ok || s.life.routes.hasExchange(s.info.VHost, d.Name) {
		return nil
	}
	if err := s.access.exchange("read", d.Name); err != nil {
		return err
	}
	return s.access.exchange("write", x)
}
