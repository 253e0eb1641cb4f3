// Package clienttls is TLS for AMQP clients: what ssl_options of the configuration mean, and what a client's certificate says.
//
// Files reads the certificates, again whenever one of the files has changed, so that a renewed certificate needs no restart; while
// the new files cannot be used the old ones stay in effect. key.go reads private keys, encrypted ones too; name.go finds the user
// that a certificate stands for (EXTERNAL, rabbitmq_auth_mechanism_ssl's rules); describe.go says what operators see of a
// connection.
package clienttls
