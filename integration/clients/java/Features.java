import com.rabbitmq.client.*;
import java.io.IOException;
import java.util.*;
import java.util.concurrent.*;

/** RabbitMQ's extensions. */
final class Features {
    static void register() {
        Frame.both("dlx.reasons", (t, q) -> {
            Channel ch = t.open();
            String dead = q + ".dead";
            ch.queueDeclare(dead, true, false, false, null);
            ch.queueDeclare(q, true, false, false, Frame.table("x-dead-letter-exchange", "", "x-dead-letter-routing-key", dead, "x-max-length", 1));
            ch.basicPublish("", q, new AMQP.BasicProperties.Builder().headers(Frame.table("n", 1, "x-death", "mine")).deliveryMode(2).build(), Frame.bytes("rejected"));
            GetResponse g = t.take(ch, q, 1, false).get(0);
            ch.basicReject(g.getEnvelope().getDeliveryTag(), false);
            t.take(ch, dead, 1, true);
            ch.basicPublish("", q, new AMQP.BasicProperties.Builder().expiration("10").build(), Frame.bytes("expired"));
            t.take(ch, dead, 1, true);
            ch.basicPublish("", q, null, Frame.bytes("m1"));
            ch.basicPublish("", q, null, Frame.bytes("m2"));
            t.take(ch, dead, 1, true);
            ch.queueDelete(q);
            ch.queueDelete(dead);
        });
        Frame.both("dlx.counts", (t, q) -> {
            Channel ch = t.open();
            ch.queueDeclare(q, true, false, false, Frame.table("x-dead-letter-exchange", "", "x-dead-letter-routing-key", q));
            ch.basicPublish("", q, null, Frame.bytes("m"));
            for (int i = 0; i < 4; i++) {
                GetResponse g = t.take(ch, q, 1, false).get(0);
                ch.basicNack(g.getEnvelope().getDeliveryTag(), false, false);
            }
            t.take(ch, q, 1, true);
            ch.queueDelete(q);
        });
        Frame.both("priority", (t, q) -> {
            Channel ch = t.open();
            ch.queueDeclare(q, true, false, false, Frame.table("x-max-priority", 3));
            for (int p : new int[] {0, 1, 2, 3, 4, 1, 3}) ch.basicPublish("", q, new AMQP.BasicProperties.Builder().priority(p).build(), Frame.bytes("p" + p));
            t.ready(ch, q, 7);
            t.take(ch, q, 7, true);
            ch.queueDelete(q);
        });
        Frame.both("single-active", (t, q) -> {
            Connection c = t.connect();
            Channel ch = c.createChannel();
            ch.queueDeclare(q, true, false, false, Frame.table("x-single-active-consumer", true));
            BlockingQueue<String> seen = new LinkedBlockingQueue<>();
            List<Channel> channels = new ArrayList<>();
            for (String tag : new String[] {"a", "b", "c"}) {
                Channel x = c.createChannel();
                channels.add(x);
                x.basicConsume(q, true, tag, new DefaultConsumer(x) {
                    @Override public void handleDelivery(String tag, Envelope e, AMQP.BasicProperties p, byte[] body) { seen.add(tag + " " + new String(body)); }
                });
            }
            for (int i = 0; i < 3; i++) {
                ch.basicPublish("", q, null, Frame.bytes("m" + i));
                t.say(seen.take());
                channels.get(i).close();
            }
            ch.queueDelete(q);
        });
        Frame.both("consumer.exclusive-waits", (t, q) -> {
            Connection c = t.connect();
            Channel ch = c.createChannel();
            ch.queueDeclare(q, true, false, false, null);
            ch.basicConsume(q, true, "x", false, true, null, new DefaultConsumer(ch));
            t.fails("second", c, x -> x.basicConsume(q, true, new DefaultConsumer(x)));
            t.fails("get", c, x -> x.basicGet(q, true));
            ch.basicCancel("x");
            t.fails("after", c, x -> x.basicConsume(q, true, "y", false, true, null, new DefaultConsumer(x)));
            ch.queueDelete(q);
        });
        Frame.scenario("rpc.client", t -> {
            Connection c = t.connect();
            Channel server = c.createChannel();
            String queue = server.queueDeclare("java.rpc", false, true, true, null).getQueue();
            server.basicConsume(queue, true, new DefaultConsumer(server) {
                @Override public void handleDelivery(String tag, Envelope e, AMQP.BasicProperties p, byte[] body) throws IOException {
                    getChannel().basicPublish("", p.getReplyTo(), new AMQP.BasicProperties.Builder().correlationId(p.getCorrelationId()).build(),
                        Frame.bytes(new String(body) + "!"));
                }
            });
            Channel ch = c.createChannel();
            RpcClient direct = new RpcClient(ch, "", queue, "amq.rabbitmq.reply-to", 5000);
            for (int i = 0; i < 5; i++) t.say(new String(direct.primitiveCall(Frame.bytes("direct " + i))));
            String replies = ch.queueDeclare().getQueue();
            RpcClient queued = new RpcClient(c.createChannel(), "", queue, replies, 5000);
            for (int i = 0; i < 5; i++) t.say(new String(queued.primitiveCall(Frame.bytes("queued " + i))));
        });
        Frame.scenario("headers-exchange", t -> {
            Channel ch = t.open();
            ch.exchangeDeclare("java.headers", "headers", false, true, null);
            Map<String, Map<String, Object>> bindings = new TreeMap<>();
            bindings.put("all", Frame.table("x-match", "all", "i", 1, "s", "a"));
            bindings.put("any", Frame.table("x-match", "any", "i", 1, "s", "a"));
            bindings.put("bytes", Frame.table("b", new byte[] {1, 2}));
            bindings.put("date", Frame.table("d", new Date(1700000000000L)));
            bindings.put("decimal", Frame.table("m", new java.math.BigDecimal("1.50")));
            bindings.put("list", Frame.table("l", List.of(1, 2)));
            bindings.put("none", Frame.table("i", null));
            for (Map.Entry<String, Map<String, Object>> e : bindings.entrySet()) {
                ch.queueDeclare("java.headers." + e.getKey(), false, true, true, null);
                ch.queueBind("java.headers." + e.getKey(), "java.headers", "", e.getValue());
            }
            List<Map<String, Object>> all = List.of(Frame.table("i", 1), Frame.table("i", 1L), Frame.table("i", (short) 1, "s", "a"), Frame.table("i", 1.0, "s", "a"),
                Frame.table("b", new byte[] {1, 2}), Frame.table("b", "\u0001\u0002"), Frame.table("d", new Date(1700000000000L)),
                Frame.table("m", new java.math.BigDecimal("1.50")), Frame.table("m", new java.math.BigDecimal("1.5")), Frame.table("l", List.of(1, 2)),
                Frame.table("l", List.of(2, 1)), Frame.table("i", "1", "s", "b"));
            for (int i = 0; i < all.size(); i++) {
                ch.basicPublish("java.headers", "", new AMQP.BasicProperties.Builder().headers(all.get(i)).build(), Frame.bytes("" + i));
            }
            ch.basicQos(1);
            for (String name : bindings.keySet()) {
                StringJoiner got = new StringJoiner(" ");
                for (GetResponse g = ch.basicGet("java.headers." + name, true); g != null; g = ch.basicGet("java.headers." + name, true)) got.add(new String(g.getBody()));
                t.say(name, got.toString());
            }
        });
        Frame.scenario("consistent-hash", t -> {
            Channel ch = t.open();
            ch.confirmSelect();
            for (Map<String, Object> args : List.of(Frame.table("hash-header", "h"), Frame.table("hash-property", "message_id"),
                Frame.table("hash-property", "correlation_id"), Frame.table("hash-property", "timestamp"))) {
                ch.exchangeDeclare("java.hash", "x-consistent-hash", false, false, args);
                for (String q : new String[] {"java.hash1", "java.hash2", "java.hash3"}) {
                    ch.queueDeclare(q, false, true, false, null);
                    ch.queueBind(q, "java.hash", "1");
                }
                for (int i = 0; i < 30; i++) { // the same property: one queue takes them all
                    ch.basicPublish("java.hash", "key" + i, new AMQP.BasicProperties.Builder().headers(Frame.table("h", "same")).messageId("same")
                        .correlationId("same").timestamp(new Date(5000)).build(), new byte[0]);
                }
                ch.waitForConfirmsOrDie(5000);
                List<Integer> counts = new ArrayList<>();
                for (String q : new String[] {"java.hash1", "java.hash2", "java.hash3"}) counts.add(ch.queueDelete(q).getMessageCount());
                Collections.sort(counts);
                t.say(args, counts);
                ch.exchangeDelete("java.hash");
            }
        });
        Frame.scenario("blocked-listener", t -> {
            Connection c = t.connect();
            c.addBlockedListener(reason -> t.say("blocked", reason), () -> t.say("unblocked"));
            Channel ch = c.createChannel();
            ch.basicPublish("", "java.none", null, new byte[0]);
            ch.basicQos(1);
            t.say(c.isOpen());
        });
        Frame.both("ttl", (t, q) -> {
            Channel ch = t.open();
            ch.queueDeclare(q, true, false, false, Frame.table("x-message-ttl", 100L, "x-expires", 60000));
            ch.basicPublish("", q, new AMQP.BasicProperties.Builder().expiration("60000").build(), Frame.bytes("m"));
            t.take(ch, q, 1, false);
            ch.basicRecover(true);
            t.ready(ch, q, 0);
            t.say(ch.queueDelete(q).toString());
        });
        Frame.scenario("access", t -> {
            ConnectionFactory f = t.factory();
            f.setUsername("limited");
            f.setPassword("limited");
            Connection c = t.connect(f);
            t.fails("declare", c, ch -> ch.queueDeclare("java.q", false, true, true, null));
            t.fails("exchange", c, ch -> ch.exchangeDeclare("java.x", "fanout"));
            t.fails("publish", c, ch -> { ch.basicPublish("amq.topic", "k", null, new byte[0]); ch.basicQos(1); return null; });
            t.fails("own", c, ch -> ch.queueDeclare("limited.java", false, true, true, null));
            t.fails("bind", c, ch -> ch.queueBind("limited.java", "amq.topic", "k"));
        });
    }
}
