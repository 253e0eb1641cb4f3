<?php
// Scenarios of php-amqplib.

require __DIR__ . '/frame.php';

use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPArray;
use PhpAmqpLib\Wire\AMQPDecimal;
use PhpAmqpLib\Wire\AMQPTable;

scenario('connection.authentication', function () {
    foreach (['AMQPLAIN', 'PLAIN', 'EXTERNAL', 'OTHER'] as $login) {
        tries("$login right", function () use ($login) { connect('guest', 'guest', '/', $login)->close(); });
        tries("$login wrong", function () use ($login) { connect('guest', 'x', '/', $login); });
    }
    tries('unknown user', function () { connect('nobody', 'x'); });
    tries('other user', function () { return connect('limited', 'limited')->isConnected(); });
});

scenario('connection.vhosts', function () {
    foreach (['/', 'compare', 'closed', 'unknown'] as $vhost) {
        tries($vhost, function () use ($vhost) { return connect('guest', 'guest', $vhost)->isConnected(); });
    }
});

scenario('connection.server-properties', function () {
    $properties = connect()->getServerProperties();
    ksort($properties);
    say('{' . implode(', ', array_map(fn ($k, $v) => json_encode($k) . ': ' . json_encode(plain($v[1])), array_keys($properties), $properties)) . '}');
});

scenario('connection.heartbeat', function () {
    $c = connect('guest', 'guest', '/', 'PLAIN', 1);
    $ch = $c->channel();
    for ($i = 0; $i < 6; $i++) {
        usleep(500000);
        $c->checkHeartBeat();
    }
    say($ch->queue_declare('php.heartbeat', false, false, true, true), $c->isConnected());
});

both('queue.declare', function ($q) {
    $c = connect();
    $ch = $c->channel();
    tries('declare', fn () => $ch->queue_declare($q, false, true, false, false));
    tries('again', fn () => $ch->queue_declare($q, false, true, false, false));
    fails('otherwise', $c, fn ($x) => $x->queue_declare($q, false, false, false, false));
    fails('with arguments', $c, fn ($x) => $x->queue_declare($q, false, true, false, false, false, new AMQPTable(['x-message-ttl' => 5000])));
    fails('passive', $c, fn ($x) => $x->queue_declare('php.unknown', true));
    fails('reserved', $c, fn ($x) => $x->queue_declare('amq.php', false, true));
    fails('bind', $c, fn ($x) => $x->queue_bind($q, 'php.unknown'));
    fails('bind an unknown one', $c, fn ($x) => $x->queue_bind('php.unknown', 'amq.direct'));
    tries('purge', fn () => $ch->queue_purge($q));
    tries('delete', fn () => $ch->queue_delete($q));
    tries('delete again', fn () => $ch->queue_delete($q));
});

scenario('queue.server-named', function () {
    $ch = connect()->channel();
    [$name, $messages, $consumers] = $ch->queue_declare();
    say($name, $messages, $consumers);
    $ch->queue_bind($name, 'amq.topic', 'a.*');
    $ch->basic_publish(new AMQPMessage('m'), 'amq.topic', 'a.b');
    take($ch, $name);
});

scenario('exchange.declare', function () {
    $c = connect();
    $ch = $c->channel();
    tries('declare', fn () => $ch->exchange_declare('php.x', 'fanout', false, true, false));
    fails('otherwise', $c, fn ($x) => $x->exchange_declare('php.x', 'direct', false, true, false));
    fails('passive', $c, fn ($x) => $x->exchange_declare('php.unknown', 'direct', true));
    tries('bind', fn () => $ch->exchange_bind('php.x', 'amq.topic', 'k'));
    fails('bind to unknown', $c, fn ($x) => $x->exchange_bind('php.unknown', 'amq.topic', 'k'));
    fails('delete if unused', $c, fn ($x) => $x->exchange_delete('php.x', true));
    tries('unbind', fn () => $ch->exchange_unbind('php.x', 'amq.topic', 'k'));
    tries('delete', fn () => $ch->exchange_delete('php.x'));
    fails('unknown type', $c, fn ($x) => $x->exchange_declare('php.y', 'php-type'));
});

both('basic.get', function ($q) {
    $ch = connect()->channel();
    $ch->queue_declare($q, false, true, false, false);
    say('empty', $ch->basic_get($q));
    foreach (['m1', 'm2', ''] as $m) {
        $ch->basic_publish(new AMQPMessage($m, ['delivery_mode' => 2, 'content_type' => 'text/plain']), '', $q);
    }
    until('three', fn () => count_of($ch, $q) === 3);
    $m = take($ch, $q, false);
    $n = take($ch, $q, false);
    $m->ack();
    $n->nack(true);
    until('two', fn () => count_of($ch, $q) === 2);
    take($ch, $q)->body;
    take($ch, $q)->body;
    tries('unknown tag', function () use ($ch, $q) { $ch->basic_ack(9); count_of($ch, $q); });
    connect()->channel()->queue_delete($q);
});

both('basic.consume', function ($q) {
    $c = connect();
    $ch = $c->channel();
    $ch->queue_declare($q, false, true, false, false);
    $ch->basic_qos(0, 2, false);
    $seen = 0;
    say($ch->basic_consume($q, 'tag', false, false, false, false, function (AMQPMessage $m) use (&$seen) {
        say('delivered', $m->getConsumerTag(), told($m));
        $seen++ % 2 === 0 ? $m->ack() : $m->reject(!$m->isRedelivered());
    }));
    for ($i = 0; $i < 3; $i++) {
        $ch->basic_publish(new AMQPMessage("m$i"), '', $q);
        $want = $seen + 1;
        while ($seen < $want) {
            $ch->wait(null, false, 10);
        }
    }
    while ($seen < 4) {
        $ch->wait(null, false, 10);
    }
    fails('exclusive', $c, fn ($x) => $x->basic_consume($q, '', false, true, true));
    say($ch->basic_cancel('tag'), $ch->queue_delete($q));
});

both('basic.cancelled', function ($q) {
    $ch = connect()->channel();
    $ch->queue_declare($q, false, true, false, false);
    $ch->basic_consume($q, 'tag', false, true, false, false, fn ($m) => say(told($m)));
    connect()->channel()->queue_delete($q);
    tries('wait', fn () => $ch->wait(null, false, 10));
});

both('publish.confirms', function ($q) {
    $ch = connect()->channel();
    $ch->queue_declare($q, false, true, false, false, false, new AMQPTable(['x-max-length' => 2, 'x-overflow' => 'reject-publish']));
    $ch->set_ack_handler(fn ($m) => say('acked', $m->body));
    $ch->set_nack_handler(fn ($m) => say('nacked', $m->body));
    $ch->set_return_listener(fn ($code, $text, $exchange, $key, $m) => say('returned', $code, $text, $exchange, $key, $m->body));
    $ch->confirm_select();
    foreach (['m1', 'm2', 'm3'] as $m) {
        $ch->basic_publish(new AMQPMessage($m, ['delivery_mode' => 2]), '', $q, true);
        $ch->wait_for_pending_acks_returns(10);
    }
    $ch->basic_publish(new AMQPMessage('lost'), '', "$q.none", true);
    $ch->wait_for_pending_acks_returns(10);
    say($ch->queue_delete($q));
});

both('publish.types', function ($q) {
    $ch = connect()->channel();
    $ch->queue_declare($q, false, true, false, false);
    $headers = new AMQPTable([
        'int' => 5, 'negative' => -70000, 'long' => 5000000000, 'float' => 2.5, 'text' => 'é☃', 'empty' => '', 'true' => true, 'null' => null,
        'time' => new DateTime('@1700000000'), 'decimal' => new AMQPDecimal(314, 2), 'list' => new AMQPArray([1, 'a', [true]]), 'table' => ['a' => ['b' => 1]],
    ]);
    $headers->set('short', -300, AMQPTable::T_INT_SHORT);
    $headers->set('octet', -5, AMQPTable::T_INT_SHORTSHORT);
    $headers->set('bytes', "\x00\xff", AMQPTable::T_BYTES);
    $ch->basic_publish(new AMQPMessage('types', [
        'application_headers' => $headers, 'content_encoding' => 'gzip', 'priority' => 3, 'correlation_id' => 'c', 'reply_to' => 'r', 'expiration' => '60000',
        'message_id' => 'id', 'timestamp' => 1700000000, 'type' => 't', 'user_id' => 'guest', 'app_id' => 'a', 'cluster_id' => 'cl',
    ]), '', $q);
    take($ch, $q);
    $ch->queue_delete($q);
});

both('publish.large', function ($q) {
    $ch = connect()->channel();
    $ch->queue_declare($q, false, true, false, false);
    foreach ([0, 131064, 131065, 5 << 20] as $size) {
        $body = str_repeat('abcdefg', intdiv($size, 7)) . str_repeat('z', $size % 7);
        $ch->basic_publish(new AMQPMessage($body), '', $q);
        until('message', fn () => count_of($ch, $q) === 1);
        say($size, $ch->basic_get($q, true)->body === $body);
    }
    $ch->queue_delete($q);
});

scenario('publish.errors', function () {
    $c = connect();
    fails('unknown exchange', $c, function ($ch) { $ch->basic_publish(new AMQPMessage('m'), 'php.unknown', 'k'); $ch->basic_qos(0, 1, false); });
    fails('user-id', $c, function ($ch) { $ch->basic_publish(new AMQPMessage('m', ['user_id' => 'x']), '', 'k'); $ch->basic_qos(0, 1, false); });
    fails('delivery mode', $c, function ($ch) { $ch->basic_publish(new AMQPMessage('m', ['delivery_mode' => 3]), '', 'k'); $ch->basic_qos(0, 1, false); });
    fails('immediate', $c, function ($ch) { $ch->basic_publish(new AMQPMessage('m'), '', 'k', false, true); $ch->basic_qos(0, 1, false); });
});

both('tx', function ($q) {
    $ch = connect()->channel();
    $ch->queue_declare($q, false, true, false, false);
    $ch->tx_select();
    $ch->basic_publish(new AMQPMessage('m1'), '', $q);
    say(count_of($ch, $q));
    $ch->tx_commit();
    say(count_of($ch, $q));
    $ch->basic_publish(new AMQPMessage('m2'), '', $q);
    $ch->tx_rollback();
    say(count_of($ch, $q));
    say($ch->queue_delete($q));
});

both('dead-letters', function ($q) {
    $ch = connect()->channel();
    $ch->queue_declare("$q.dead", false, true, false, false);
    $ch->queue_declare($q, false, true, false, false, false, new AMQPTable(['x-dead-letter-exchange' => '', 'x-dead-letter-routing-key' => "$q.dead"]));
    $ch->basic_publish(new AMQPMessage('rejected'), '', $q);
    take($ch, $q, false)->reject(false);
    take($ch, "$q.dead");
    $ch->basic_publish(new AMQPMessage('expired', ['expiration' => '10']), '', $q);
    take($ch, "$q.dead");
    $ch->queue_delete($q);
    $ch->queue_delete("$q.dead");
});

run_all(array_slice($argv, 1));
