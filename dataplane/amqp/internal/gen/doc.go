// Command gen makes the method codec of package amqp from spec.txt: one struct per method with its encoder and decoder,
// the methods' names and a constructor by id. Run it with go generate in dataplane/amqp.
package main
