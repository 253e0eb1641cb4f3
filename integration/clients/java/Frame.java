import com.rabbitmq.client.*;
import com.rabbitmq.client.Method;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.math.BigDecimal;
import java.util.*;
import java.util.concurrent.*;

/** The frame for scenarios in Java: each is run in a thread of its own with a time limit. */
final class Frame {
    static final long LIMIT = 20; // seconds for one scenario
    static final String URI = System.getenv().getOrDefault("AMQP_URI", "amqp://guest:guest@127.0.0.1:5672/");
    static final String[] URIS = System.getenv().getOrDefault("AMQP_URIS", URI).split(" ");

    interface Body { void run(Scenario t) throws Exception; }
    interface Named { void run(Scenario t, String queue) throws Exception; }
    interface Request { Object run(Channel ch) throws Exception; }
    interface Condition { boolean holds() throws Exception; }

    private static final Map<String, Body> all = new LinkedHashMap<>();

    static void scenario(String name, Body body) {
        if (all.put(name, body) != null) throw new IllegalStateException("two scenarios are called " + name);
    }

    /** Registers a scenario for a queue that is not mirrored, and one for a queue that is. */
    static void both(String name, Named body) {
        scenario(name, t -> body.run(t, "java." + name));
        scenario("ha." + name, t -> body.run(t, "ha.java." + name));
    }

    static Map<String, Object> table(Object... pairs) {
        Map<String, Object> m = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) m.put((String) pairs[i], pairs[i + 1]);
        return m;
    }

    static byte[] bytes(String s) { return s.getBytes(StandardCharsets.UTF_8); }

    static String text(byte[] b) {
        try {
            return quoted(StandardCharsets.UTF_8.newDecoder().decode(java.nio.ByteBuffer.wrap(b)).toString());
        } catch (CharacterCodingException e) {
            return "\"0x" + HexFormat.of().formatHex(b) + "\"";
        }
    }

    static String quoted(String s) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : s.toCharArray()) {
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (c < ' ') out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        return out.append('"').toString();
    }

    /** A value as sorted JSON, with its type where JSON has none of that name; moments of death are not compared. */
    static String show(Object v) {
        if (v instanceof LongString) return text(((LongString) v).getBytes());
        if (v instanceof String) return quoted((String) v);
        if (v instanceof byte[]) return "{\"bytes\": " + text((byte[]) v) + "}";
        if (v instanceof Date) return "{\"time\": " + ((Date) v).getTime() + "}";
        if (v instanceof Number && !(v instanceof Integer)) {
            return "{\"" + v.getClass().getSimpleName().toLowerCase() + "\": " + (v instanceof BigDecimal ? ((BigDecimal) v).toPlainString() : v) + "}";
        }
        if (v instanceof List) {
            StringJoiner out = new StringJoiner(", ", "[", "]");
            for (Object e : (List<?>) v) out.add(show(e));
            return out.toString();
        }
        if (v instanceof Map) {
            StringJoiner out = new StringJoiner(", ", "{", "}");
            for (Map.Entry<?, ?> e : new TreeMap<>((Map<?, ?>) v).entrySet()) {
                boolean moment = e.getKey().equals("time") && ((Map<?, ?>) v).containsKey("reason");
                out.add(quoted((String) e.getKey()) + ": " + (moment ? "\"TIME\"" : show(e.getValue())));
            }
            return out.toString();
        }
        return String.valueOf(v);
    }

    static String show(AMQP.BasicProperties p) {
        Map<String, Object> m = table("contentType", p.getContentType(), "contentEncoding", p.getContentEncoding(), "headers", p.getHeaders(),
            "deliveryMode", p.getDeliveryMode(), "priority", p.getPriority(), "correlationId", p.getCorrelationId(), "replyTo", p.getReplyTo(),
            "expiration", p.getExpiration(), "messageId", p.getMessageId(), "timestamp", p.getTimestamp(), "type", p.getType(),
            "userId", p.getUserId(), "appId", p.getAppId(), "clusterId", p.getClusterId());
        m.values().removeIf(Objects::isNull);
        return show(m);
    }

    static String show(Envelope e, AMQP.BasicProperties p, byte[] body) {
        return e.getDeliveryTag() + (e.isRedeliver() ? " redelivered" : "") + " exchange " + quoted(e.getExchange()) + " key " + quoted(e.getRoutingKey())
            + " " + show(p) + " " + (body.length > 200 ? body.length + " bytes" : text(body));
    }

    /** What a failure tells: the class, and what the broker said. */
    static String failure(Throwable e) {
        for (Throwable c = e; c != null; c = c.getCause()) {
            if (c instanceof ShutdownSignalException) {
                ShutdownSignalException s = (ShutdownSignalException) c;
                Method m = s.getReason();
                return (s.isHardError() ? "connection " : "channel ") + (m == null ? "closed" : m.toString());
            }
        }
        return e.getClass().getSimpleName() + ": " + e.getMessage();
    }

    static final class Scenario {
        private final List<Connection> connections = new ArrayList<>();
        private volatile boolean ended;

        synchronized void say(Object... parts) {
            if (ended) return;
            StringJoiner line = new StringJoiner(" ");
            for (Object p : parts) line.add(p instanceof String ? (String) p : show(p));
            System.out.println(line.toString().replace("\n", "\\n"));
        }

        ConnectionFactory factory() throws Exception { return factory(URI); }

        ConnectionFactory factory(String uri) throws Exception {
            ConnectionFactory f = new ConnectionFactory();
            f.setUri(uri);
            f.setVirtualHost("/");
            f.setAutomaticRecoveryEnabled(false);
            f.setThreadFactory(r -> { Thread th = new Thread(r); th.setDaemon(true); return th; });
            return f;
        }

        Connection connect() throws Exception { return connect(factory()); }

        synchronized Connection connect(ConnectionFactory f) throws Exception {
            Connection c = f.newConnection();
            connections.add(c);
            return c;
        }

        Channel open() throws Exception { return connect().createChannel(); }

        /** Tells what becomes of something. */
        void tries(String what, Callable<Object> request) {
            try {
                Object got = request.call();
                say(what, "ok", got == null ? "" : got instanceof Method ? got.toString() : got);
            } catch (Exception e) {
                say(what, "failed", failure(e));
            }
        }

        /** Makes a request on a channel of its own, since that is closed if it fails. */
        void fails(String what, Connection c, Request request) throws Exception {
            Channel ch = c.createChannel();
            tries(what, () -> request.run(ch));
            if (ch.isOpen()) ch.close();
        }

        void until(String what, Condition condition) throws Exception {
            long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(15);
            while (!condition.holds()) {
                if (System.nanoTime() > end) {
                    say("never:", what);
                    return;
                }
                Thread.sleep(10);
            }
        }

        /** Waits for n messages of a queue, and tells them. */
        List<GetResponse> take(Channel ch, String queue, int n, boolean noAck) throws Exception {
            List<GetResponse> got = new ArrayList<>();
            until(n + " messages in " + queue, () -> {
                GetResponse g = ch.basicGet(queue, noAck);
                if (g != null) {
                    got.add(g);
                    say("got", show(g.getEnvelope(), g.getProps(), g.getBody()), "left", g.getMessageCount());
                }
                return got.size() >= n;
            });
            return got;
        }

        void ready(Channel ch, String queue, int n) throws Exception {
            until(n + " ready in " + queue, () -> ch.messageCount(queue) == n);
        }

        void end() {
            ended = true;
            for (Connection c : connections) c.abort(200);
        }
    }

    static void main(String[] names) throws Exception {
        for (String n : names) if (!all.containsKey(n)) throw new IllegalArgumentException("no such scenario: " + n);
        List<String> wanted = Arrays.asList(names);
        ExecutorService pool = Executors.newCachedThreadPool(r -> { Thread th = new Thread(r); th.setDaemon(true); return th; });
        for (Map.Entry<String, Body> e : all.entrySet()) {
            if (!wanted.isEmpty() && !wanted.contains(e.getKey())) continue;
            System.out.println("== " + e.getKey());
            Scenario t = new Scenario();
            Future<?> done = pool.submit(() -> {
                try {
                    e.getValue().run(t);
                } catch (Throwable x) {
                    t.say("raised", failure(x));
                    if (System.getenv("TRACE") != null) x.printStackTrace();
                }
            });
            try {
                done.get(LIMIT, TimeUnit.SECONDS);
            } catch (TimeoutException x) {
                t.say("TIMEOUT");
            }
            t.end();
            System.out.println("== end");
            System.out.flush();
        }
        System.exit(0);
    }
}
