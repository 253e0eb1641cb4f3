import com.rabbitmq.client.*;
import java.io.IOException;
import java.math.BigDecimal;
import java.util.*;
import java.util.concurrent.*;

/** Declaring, publishing, getting, consuming. */
final class Messages {
    static void register() {
        Frame.both("queue.declare", (t, q) -> {
            Channel ch = t.open();
            t.tries("declare", () -> ch.queueDeclare(q, true, false, false, null));
            t.tries("passive", () -> ch.queueDeclarePassive(q));
            ch.queueDeclareNoWait(q, true, false, false, null);
            t.fails("inequivalent", ch.getConnection(), c -> c.queueDeclare(q, true, false, false, Frame.table("x-max-length", 5)));
            t.fails("not durable", ch.getConnection(), c -> c.queueDeclare(q, false, false, false, null));
            t.fails("unknown", ch.getConnection(), c -> c.queueDeclarePassive("java.unknown"));
            t.tries("purge", () -> ch.queuePurge(q));
            t.tries("delete", () -> ch.queueDelete(q));
        });
        Frame.both("queue.argument-types", (t, q) -> {
            Connection c = t.connect();
            for (Object v : new Object[] {5, 5L, (short) 5, (byte) 5, 5.0, 5.5f, new BigDecimal("5"), "5", true, new Date(5000), new byte[] {5}, List.of(5), Frame.table("a", 5)}) {
                t.fails(Frame.show(v), c, ch -> {
                    ch.queueDeclare(q, true, false, false, Frame.table("x-message-ttl", v, "x-own", v));
                    return ch.queueDeclare(q, true, false, false, Frame.table("x-message-ttl", 6));
                });
                c.createChannel().queueDelete(q);
            }
        });
        Frame.scenario("queue.exclusive", t -> {
            Channel ch = t.open();
            ch.queueDeclare("java.exclusive", false, true, false, null);
            Connection other = t.connect();
            t.fails("passive", other, c -> c.queueDeclarePassive("java.exclusive"));
            t.fails("bind", other, c -> c.queueBind("java.exclusive", "amq.topic", "k"));
            t.fails("own, not exclusive", ch.getConnection(), c -> c.queueDeclare("java.exclusive", false, false, false, null));
        });
        Frame.scenario("exchange.declare", t -> {
            Channel ch = t.open();
            Connection c = ch.getConnection();
            t.tries("declare", () -> ch.exchangeDeclare("java.x", BuiltinExchangeType.HEADERS, true, false, true, null));
            t.fails("publish to an internal one", c, x -> { x.basicPublish("java.x", "", null, new byte[0]); x.basicQos(1); return null; });
            t.fails("passive", c, x -> x.exchangeDeclarePassive("java.x"));
            t.fails("other type", c, x -> x.exchangeDeclare("java.x", "direct", true));
            t.fails("bind", c, x -> x.exchangeBind("java.x", "amq.fanout", "k", Frame.table("a", 1)));
            t.fails("unbind", c, x -> x.exchangeUnbind("java.x", "amq.fanout", "k", Frame.table("a", 1)));
            t.fails("unbind again", c, x -> x.exchangeUnbind("java.x", "amq.fanout", "k", Frame.table("a", 1)));
            t.fails("delete", c, x -> x.exchangeDelete("java.x", true));
            t.fails("unknown", c, x -> x.exchangeDeclarePassive("java.unknown"));
        });
        Frame.both("basic.get", (t, q) -> {
            Channel ch = t.open();
            ch.queueDeclare(q, true, false, false, null);
            t.say("empty", ch.basicGet(q, false) == null);
            for (int i = 0; i < 4; i++) ch.basicPublish("", q, MessageProperties.PERSISTENT_TEXT_PLAIN, Frame.bytes("m" + i));
            t.ready(ch, q, 4);
            List<GetResponse> got = t.take(ch, q, 3, false);
            ch.basicAck(got.get(0).getEnvelope().getDeliveryTag(), false);
            ch.basicNack(got.get(2).getEnvelope().getDeliveryTag(), true, true);
            t.ready(ch, q, 3);
            t.take(ch, q, 3, true);
            t.fails("unknown tag", ch.getConnection(), c -> { c.basicAck(99, false); return c.queueDeclarePassive(q); });
            t.say(ch.queueDelete(q).toString());
        });
        Frame.both("basic.consume", Messages::consume);
        Frame.both("basic.cancelled", (t, q) -> {
            Channel ch = t.open();
            ch.queueDeclare(q, true, false, false, null);
            CountDownLatch end = new CountDownLatch(1);
            ch.basicConsume(q, true, "tag", new DefaultConsumer(ch) {
                @Override public void handleConsumeOk(String tag) { t.say("consume-ok", tag); }
                @Override public void handleCancel(String tag) { t.say("cancelled by the broker", tag); end.countDown(); }
            });
            t.connect().createChannel().queueDelete(q);
            end.await();
            t.say(ch.isOpen());
        });
        Frame.both("basic.recover", (t, q) -> {
            Channel ch = t.open();
            ch.queueDeclare(q, true, false, false, null);
            for (int i = 0; i < 3; i++) ch.basicPublish("", q, null, Frame.bytes("m" + i));
            t.ready(ch, q, 3);
            t.take(ch, q, 3, false);
            t.tries("recover", () -> ch.basicRecover(true));
            t.take(ch, q, 3, false);
            t.tries("recover", () -> ch.basicRecover());
            t.ready(ch, q, 3);
            ch.queueDelete(q);
        });
        Frame.both("publish.confirms", Messages::confirms);
        Frame.both("publish.returns", (t, q) -> {
            Channel ch = t.open();
            ch.queueDeclare(q, true, false, false, null);
            ch.confirmSelect();
            ch.addReturnListener((code, text, exchange, key, p, body) -> t.say("returned", code, text, exchange, key, Frame.show(p), Frame.text(body)));
            ch.basicPublish("", q, true, null, Frame.bytes("routed"));
            ch.basicPublish("", q + ".none", true, new AMQP.BasicProperties.Builder().messageId("id").headers(Frame.table("a", 1)).build(), Frame.bytes("lost"));
            ch.basicPublish("amq.topic", "k", true, null, new byte[0]);
            t.say(ch.waitForConfirms(10000));
            ch.queueDelete(q);
        });
        Frame.both("publish.header-types", (t, q) -> {
            Channel ch = t.open();
            ch.queueDeclare(q, true, false, false, null);
            Map<String, Object> h = Frame.table("byte", (byte) -7, "short", (short) -300, "int", -70000, "long", Long.MIN_VALUE, "float", 1.5f,
                "double", Math.PI, "decimal", new BigDecimal("3.14"), "negative", new BigDecimal("-0.001"), "large", new BigDecimal(Integer.MAX_VALUE),
                "true", true, "false", false, "null", null, "text", "é☃\uD83D\uDE00", "empty", "", "bytes", new byte[] {0, -1, 127}, "no bytes", new byte[0],
                "time", new Date(1700000000000L), "epoch", new Date(0), "far", new Date(9999999999000L), "long text", "x".repeat(70000),
                "table", Frame.table("a", Frame.table("b", Frame.table())), "list", Arrays.asList(1, "a", null, true, List.of(List.of()), Frame.table("k", 2L)));
            ch.basicPublish("", q, new AMQP.BasicProperties.Builder().headers(h).build(), Frame.bytes("types"));
            t.until("message", () -> ch.messageCount(q) == 1);
            Map<String, Object> got = ch.basicGet(q, true).getProps().getHeaders();
            for (Map.Entry<String, Object> e : new TreeMap<>(got).entrySet()) {
                String shown = Frame.show(e.getValue());
                t.say(e.getKey(), shown.length() > 200 ? shown.length() + " characters" : shown);
            }
            ch.queueDelete(q);
        });
        Frame.both("publish.properties", (t, q) -> {
            Channel ch = t.open();
            ch.queueDeclare(q, true, false, false, null);
            ch.basicPublish("", q, new AMQP.BasicProperties("text/plain", "gzip", Frame.table("a", 1), 2, 9, "corr", "reply", "60000", "id",
                new Date(1700000000000L), "type", "guest", "app", "cluster"), Frame.bytes("all"));
            ch.basicPublish("", q, new AMQP.BasicProperties(), new byte[0]);
            ch.basicPublish("", q, new AMQP.BasicProperties.Builder().deliveryMode(1).priority(255).contentType("").build(), new byte[0]);
            t.take(ch, q, 3, true);
            ch.queueDelete(q);
        });
        Frame.both("publish.sizes", (t, q) -> {
            Channel ch = t.open();
            ch.queueDeclare(q, true, false, false, null);
            ch.confirmSelect();
            for (int size : new int[] {0, 1, 131063, 131064, 131065, 262129, 5 << 20}) {
                byte[] body = new byte[size];
                new Random(size).nextBytes(body);
                ch.basicPublish("", q, MessageProperties.PERSISTENT_BASIC, body);
                ch.waitForConfirmsOrDie(10000);
                t.say(size, Arrays.equals(body, ch.basicGet(q, true).getBody()));
            }
            ch.queueDelete(q);
        });
        Frame.scenario("publish.errors", t -> {
            Connection c = t.connect();
            t.fails("unknown exchange", c, ch -> { ch.basicPublish("java.unknown", "k", null, new byte[0]); ch.basicQos(1); return null; });
            t.fails("user-id", c, ch -> {
                ch.basicPublish("", "k", new AMQP.BasicProperties.Builder().userId("x").build(), new byte[0]);
                ch.basicQos(1);
                return null;
            });
            t.fails("expiration", c, ch -> {
                ch.basicPublish("", "k", new AMQP.BasicProperties.Builder().expiration("soon").build(), new byte[0]);
                ch.basicQos(1);
                return null;
            });
            t.fails("delivery mode", c, ch -> {
                ch.basicPublish("", "k", new AMQP.BasicProperties.Builder().deliveryMode(0).build(), new byte[0]);
                ch.basicQos(1);
                return null;
            });
            t.fails("immediate", c, ch -> { ch.basicPublish("", "k", false, true, null, new byte[0]); ch.basicQos(1); return null; });
        });
        Frame.both("tx", (t, q) -> {
            Channel ch = t.open();
            ch.queueDeclare(q, true, false, false, null);
            t.tries("select", ch::txSelect);
            ch.basicPublish("", q, MessageProperties.PERSISTENT_BASIC, Frame.bytes("m1"));
            t.say(ch.messageCount(q));
            t.tries("commit", ch::txCommit);
            t.say(ch.messageCount(q));
            GetResponse g = t.take(ch, q, 1, false).get(0);
            ch.basicNack(g.getEnvelope().getDeliveryTag(), false, true);
            t.say(ch.messageCount(q));
            t.tries("rollback", ch::txRollback);
            t.say(ch.messageCount(q));
            ch.basicReject(g.getEnvelope().getDeliveryTag(), false);
            t.tries("commit", ch::txCommit);
            t.say(ch.messageCount(q));
            ch.queueDelete(q);
            t.fails("commit without select", ch.getConnection(), Channel::txCommit);
        });
    }

    static void consume(Frame.Scenario t, String q) throws Exception {
        Channel ch = t.open();
        ch.queueDeclare(q, true, false, false, null);
        BlockingQueue<String> seen = new LinkedBlockingQueue<>();
        ch.basicQos(2);
        String tag = ch.basicConsume(q, false, "mine", true, false, Frame.table("x-priority", 3), new DefaultConsumer(ch) {
            @Override public void handleDelivery(String tag, Envelope e, AMQP.BasicProperties p, byte[] body) throws IOException {
                seen.add(tag + " " + Frame.show(e, p, body));
                if (e.getDeliveryTag() % 2 == 0) getChannel().basicAck(e.getDeliveryTag(), true);
            }
            @Override public void handleCancelOk(String tag) { seen.add("cancel-ok " + tag); }
            @Override public void handleRecoverOk(String tag) { seen.add("recover-ok"); }
        });
        for (int i = 0; i < 6; i++) ch.basicPublish("", q, null, Frame.bytes("m" + i));
        for (int i = 0; i < 6; i++) t.say(seen.take());
        t.fails("same tag elsewhere", ch.getConnection(), c -> c.basicConsume(q, true, "mine", new DefaultConsumer(c)));
        t.fails("exclusive", ch.getConnection(), c -> c.basicConsume(q, true, "x", false, true, null, new DefaultConsumer(c)));
        ch.basicCancel(tag);
        t.say(seen.take(), ch.consumerCount(q));
        ch.queueDelete(q);
    }

    static void confirms(Frame.Scenario t, String q) throws Exception {
        Channel ch = t.open();
        ch.queueDeclare(q, true, false, false, Frame.table("x-max-length", 50, "x-overflow", "reject-publish"));
        t.tries("select", ch::confirmSelect);
        ConcurrentSkipListSet<Long> open = new ConcurrentSkipListSet<>();
        ConcurrentSkipListSet<Long> nacked = new ConcurrentSkipListSet<>();
        ch.addConfirmListener(new ConfirmListener() {
            @Override public void handleAck(long tag, boolean multiple) { settle(tag, multiple, false); }
            @Override public void handleNack(long tag, boolean multiple) { settle(tag, multiple, true); }
            private void settle(long tag, boolean multiple, boolean nack) {
                Set<Long> settled = multiple ? new TreeSet<>(open.headSet(tag, true)) : Set.of(tag);
                if (nack) nacked.addAll(settled);
                open.removeAll(settled);
            }
        });
        for (int i = 0; i < 60; i++) {
            open.add(ch.getNextPublishSeqNo());
            ch.basicPublish("", q, MessageProperties.MINIMAL_PERSISTENT_BASIC, Frame.bytes("m" + i));
            if (i >= 49) t.until("settled", open::isEmpty);
        }
        t.say(nacked.size(), nacked.first(), ch.messageCount(q), ch.getNextPublishSeqNo());
        ch.queueDelete(q);
    }
}
