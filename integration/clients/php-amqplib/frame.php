<?php
// The frame for scenarios in PHP: each is a function, run in a process of its own with a time limit.

require_once '/usr/share/php/PhpAmqpLib/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPAbstractCollection;

const LIMIT = 20; // seconds for one scenario

$uri = parse_url(getenv('AMQP_URI') ?: 'amqp://guest:guest@127.0.0.1:5672/');
$all = [];

function scenario(string $name, callable $body): void
{
    global $all;
    $all[$name] = $body;
}

/** Registers a scenario for a queue that is not mirrored, and one for a queue that is. */
function both(string $name, callable $body): void
{
    scenario($name, fn () => $body("php.$name"));
    scenario("ha.$name", fn () => $body("ha.php.$name"));
}

/** A value as JSON can hold it; moments of death are not compared. */
function plain($v)
{
    if ($v instanceof AMQPAbstractCollection) {
        $v = $v->getNativeData();
    }
    if ($v instanceof DateTimeInterface) {
        return ['time' => $v->getTimestamp()];
    }
    if ($v instanceof PhpAmqpLib\Wire\AMQPDecimal) {
        return ['decimal' => $v->asBCvalue()];
    }
    if (is_string($v) && !mb_check_encoding($v, 'UTF-8')) {
        return '0x' . bin2hex($v);
    }
    if (!is_array($v)) {
        return $v;
    }
    if (!array_is_list($v)) {
        ksort($v, SORT_STRING);
        if (isset($v['time'], $v['reason'])) {
            $v['time'] = 'TIME';
        }
    }
    return array_map('plain', $v);
}

function say(...$parts): void
{
    $line = implode(' ', array_map(fn ($p) => is_string($p) ? $p
        : json_encode(plain($p), JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION), $parts));
    fwrite(STDOUT, str_replace("\n", '\n', $line) . "\n");
}

function connect(string $user = 'guest', string $password = 'guest', string $vhost = '/', string $login = 'AMQPLAIN', int $heartbeat = 0)
{
    global $uri;
    return new AMQPStreamConnection($uri['host'], $uri['port'], $user, $password, $vhost, false, $login, null, 'en_US', 5.0, 15.0, null, false, $heartbeat);
}

/** Tells what becomes of something. */
function tries(string $what, callable $body): void
{
    try {
        $got = $body();
        say($what, 'ok', $got);
    } catch (Throwable $e) {
        say($what, 'failed', (new ReflectionClass($e))->getShortName(), $e->getCode(), $e->getMessage());
    }
}

/** Makes a request on a channel of its own, since that is closed if it fails. */
function fails(string $what, $connection, callable $body): void
{
    $ch = $connection->channel();
    tries($what, fn () => $body($ch));
    if ($ch->is_open()) {
        $ch->close();
    }
}

function until(string $what, callable $condition): void
{
    $end = microtime(true) + 15;
    while (!$condition()) {
        if (microtime(true) > $end) {
            say('never:', $what);
            return;
        }
        usleep(10000);
    }
}

function count_of($ch, string $queue): int
{
    return $ch->queue_declare($queue, true)[1];
}

function told(AMQPMessage $m): string
{
    $properties = $m->get_properties();
    unset($properties['delivery_info']);
    $body = strlen($m->body) > 200 ? strlen($m->body) . ' bytes' : $m->body;
    return $m->getDeliveryTag() . ' ' . json_encode([(bool) $m->isRedelivered(), $m->getExchange(), $m->getRoutingKey()]) . ' '
        . json_encode(plain($properties), JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE) . ' ' . json_encode(plain($body));
}

/** Waits for a message of a queue, and tells it. */
function take($ch, string $queue, bool $noAck = true): AMQPMessage
{
    $m = null;
    until("a message in $queue", function () use ($ch, $queue, $noAck, &$m) {
        return ($m = $ch->basic_get($queue, $noAck)) !== null;
    });
    say('got', told($m), 'left', $m->getMessageCount());
    return $m;
}

function run_all(array $names): void
{
    global $all;
    foreach ($names as $n) {
        if (!isset($all[$n])) {
            fwrite(STDERR, "no such scenario: $n\n");
            exit(1);
        }
    }
    foreach ($all as $name => $body) {
        if ($names && !in_array($name, $names, true)) {
            continue;
        }
        fwrite(STDOUT, "== $name\n");
        $pid = pcntl_fork();
        if ($pid === 0) {
            try {
                $body();
            } catch (Throwable $e) {
                say('raised', (new ReflectionClass($e))->getShortName(), $e->getCode(), $e->getMessage());
            }
            posix_kill(getmypid(), SIGKILL); // nothing more is said, by destructors neither
        }
        $end = microtime(true) + LIMIT;
        while (pcntl_waitpid($pid, $status, WNOHANG) === 0) {
            if (microtime(true) > $end) {
                posix_kill($pid, SIGKILL);
                pcntl_waitpid($pid, $status);
                fwrite(STDOUT, "TIMEOUT\n");
                break;
            }
            usleep(5000);
        }
        fwrite(STDOUT, "== end\n");
    }
}
