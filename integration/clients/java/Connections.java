import com.rabbitmq.client.*;
import java.io.*;
import java.net.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;

/** Connections, channels, recovery. */
final class Connections {
    static void register() {
        Frame.scenario("connection.server-properties", t -> {
            for (Map.Entry<String, Object> e : new TreeMap<>(t.connect().getServerProperties()).entrySet()) t.say(Frame.table(e.getKey(), e.getValue()));
        });
        Frame.scenario("connection.tune", t -> {
            for (int[] n : new int[][] {{0, 0, 0}, {5, 4096, 10}, {2047, 131072, 60}, {0, 200000, 1000}}) {
                ConnectionFactory f = t.factory();
                f.setRequestedChannelMax(n[0]);
                f.setRequestedFrameMax(n[1]);
                f.setRequestedHeartbeat(n[2]);
                t.tries(Arrays.toString(n), () -> {
                    Connection c = t.connect(f);
                    return c.getChannelMax() + " " + c.getFrameMax() + " " + c.getHeartbeat();
                });
            }
        });
        Frame.scenario("connection.heartbeat", t -> {
            ConnectionFactory f = t.factory();
            f.setRequestedHeartbeat(1);
            Connection c = t.connect(f);
            Thread.sleep(3200);
            t.say(c.isOpen(), c.createChannel().queueDeclare("java.heartbeat", false, true, true, null).toString());
        });
        Frame.scenario("connection.authentication", t -> {
            for (String[] user : new String[][] {{"guest", "guest"}, {"guest", "x"}, {"nobody", "x"}, {"limited", "limited"}, {"", ""}}) {
                ConnectionFactory f = t.factory();
                f.setUsername(user[0]);
                f.setPassword(user[1]);
                t.tries(user[0] + ":" + user[1], () -> { t.connect(f); return null; });
            }
        });
        Frame.scenario("connection.vhosts", t -> {
            for (String vhost : new String[] {"/", "compare", "closed", "unknown"}) {
                ConnectionFactory f = t.factory();
                f.setVirtualHost(vhost);
                t.tries(vhost, () -> { t.connect(f); return null; });
            }
        });
        Frame.scenario("connection.client-properties", t -> {
            ConnectionFactory f = t.factory();
            Map<String, Object> all = f.getClientProperties();
            all.put("connection_name", "java");
            all.put("list", List.of(1, "a", Frame.table("b", true)));
            all.put("big", "x".repeat(3000));
            f.setClientProperties(all);
            t.say(t.connect(f).createChannel().isOpen());
        });
        Frame.scenario("channel.numbers", t -> {
            ConnectionFactory f = t.factory();
            f.setRequestedChannelMax(5);
            Connection c = t.connect(f);
            for (int i = 0; i < 7; i++) {
                Channel ch = c.createChannel();
                t.say(ch == null ? "none" : ch.getChannelNumber());
            }
            Connection other = t.connect();
            t.say(other.createChannel(77).getChannelNumber(), other.createChannel(2047).getChannelNumber());
        });
        Frame.scenario("channel.shutdown", t -> {
            Connection c = t.connect();
            Channel a = c.createChannel();
            Channel b = c.createChannel();
            CountDownLatch down = new CountDownLatch(1);
            StringBuffer told = new StringBuffer(); // the listener and the failed request run at the same time
            a.addShutdownListener(e -> { told.append(Frame.failure(e)).append(' ').append(e.isInitiatedByApplication()); down.countDown(); });
            t.tries("declare", () -> a.queueDeclarePassive("java.unknown"));
            down.await();
            t.say("down", told.toString());
            t.say(a.isOpen(), b.isOpen(), c.isOpen());
            t.tries("on a closed channel", () -> a.queueDeclare());
        });
        Frame.scenario("connection.shutdown", t -> {
            Connection c = t.connect();
            CountDownLatch down = new CountDownLatch(1);
            StringBuffer told = new StringBuffer();
            c.addShutdownListener(e -> { told.append(Frame.failure(e)).append(' ').append(e.isInitiatedByApplication()); down.countDown(); });
            t.tries("declare", () -> c.createChannel().exchangeDeclare("java.x", "java-type"));
            down.await();
            t.say("down", told.toString());
            t.say(c.isOpen());
        });
        Frame.scenario("connection.close-reason", t -> {
            Connection c = t.connect();
            c.createChannel().close(200, "no more");
            c.close(200, "good-bye");
            t.say(c.isOpen(), c.getCloseReason().getMessage());
        });
        Frame.scenario("connection.many-threads", t -> {
            Connection c = t.connect();
            ExecutorService pool = Executors.newFixedThreadPool(8);
            AtomicInteger confirmed = new AtomicInteger();
            List<Future<?>> all = new ArrayList<>();
            for (int i = 0; i < 8; i++) {
                String queue = "java.thread" + i;
                all.add(pool.submit(() -> {
                    Channel ch = c.createChannel();
                    ch.queueDeclare(queue, false, true, true, null);
                    ch.confirmSelect();
                    for (int n = 0; n < 50; n++) ch.basicPublish("", queue, null, Frame.bytes("m" + n));
                    ch.waitForConfirmsOrDie(10000);
                    confirmed.addAndGet((int) ch.messageCount(queue));
                    ch.close();
                    return null;
                }));
            }
            for (Future<?> f : all) f.get();
            t.say(confirmed.get());
            pool.shutdown();
        });
        Frame.both("recovery.topology", Connections::recovers);
        Frame.scenario("recovery.confirms", t -> {
            try (Proxy proxy = new Proxy(Frame.URI)) {
                ConnectionFactory f = t.factory(proxy.uri());
                f.setAutomaticRecoveryEnabled(true);
                f.setNetworkRecoveryInterval(100);
                Connection c = t.connect(f);
                Channel ch = c.createChannel();
                ch.queueDeclare("java.recovery.confirms", true, false, false, null);
                ch.confirmSelect();
                for (int i = 0; i < 20; i++) ch.basicPublish("", "java.recovery.confirms", MessageProperties.PERSISTENT_BASIC, Frame.bytes("m" + i));
                t.say(ch.waitForConfirms(10000));
                CountDownLatch back = recovered(c);
                proxy.cut();
                back.await();
                for (int i = 0; i < 20; i++) ch.basicPublish("", "java.recovery.confirms", MessageProperties.PERSISTENT_BASIC, Frame.bytes("n" + i));
                t.say(ch.waitForConfirms(10000), ch.getNextPublishSeqNo());
                t.say(ch.queueDelete("java.recovery.confirms").toString());
            }
        });
    }

    static CountDownLatch recovered(Connection c) {
        CountDownLatch back = new CountDownLatch(1);
        ((Recoverable) c).addRecoveryListener(new RecoveryListener() {
            @Override public void handleRecovery(Recoverable r) { back.countDown(); }
            @Override public void handleRecoveryStarted(Recoverable r) { }
        });
        return back;
    }

    /** The client's own recovery declares everything again after its connection broke. */
    static void recovers(Frame.Scenario t, String q) throws Exception {
        try (Proxy proxy = new Proxy(Frame.URI)) {
            ConnectionFactory f = t.factory(proxy.uri());
            f.setAutomaticRecoveryEnabled(true);
            f.setNetworkRecoveryInterval(100);
            Connection c = t.connect(f);
            Channel ch = c.createChannel();
            String x = q + ".x";
            ch.exchangeDeclare(x, "topic", false, true, null);
            ch.queueDeclare(q, true, false, false, null);
            ch.queueBind(q, x, "k.#");
            String own = ch.queueDeclare().getQueue();
            ch.queueBind(own, x, "own");
            ch.basicQos(10);
            BlockingQueue<String> got = new LinkedBlockingQueue<>();
            DefaultConsumer consumer = new DefaultConsumer(ch) {
                @Override public void handleDelivery(String tag, Envelope e, AMQP.BasicProperties p, byte[] body) throws IOException {
                    got.add(tag + " " + e.getRoutingKey() + " " + new String(body) + (e.isRedeliver() ? " again" : ""));
                    if (!new String(body).startsWith("kept")) getChannel().basicAck(e.getDeliveryTag(), false);
                }
            };
            ch.basicConsume(q, false, "durable", consumer);
            ch.basicConsume(own, false, "own", consumer);
            ch.basicPublish(x, "k.1", null, Frame.bytes("before"));
            t.say(got.take());
            ch.basicPublish(x, "k.1", null, Frame.bytes("kept"));
            t.say(got.take());
            CountDownLatch back = recovered(c);
            proxy.cut();
            back.await();
            t.say(got.take());
            ch.basicPublish(x, "k.2", null, Frame.bytes("after"));
            t.say(got.take());
            ch.basicPublish(x, "own", null, Frame.bytes("own after"));
            t.say(got.take());
            t.say(ch.queueDelete(q).toString());
        }
    }

    /** Passes a connection on until it is cut. */
    static final class Proxy implements AutoCloseable {
        private final ServerSocket listener = new ServerSocket(0, 10, InetAddress.getByName("127.0.0.1"));
        private final List<Socket> open = Collections.synchronizedList(new ArrayList<>());
        private final URI to;

        Proxy(String uri) throws Exception {
            to = new URI(uri);
            daemon(() -> {
                while (true) {
                    Socket in = listener.accept();
                    Socket out = new Socket(to.getHost(), to.getPort());
                    open.add(in);
                    open.add(out);
                    daemon(() -> in.getInputStream().transferTo(out.getOutputStream()));
                    daemon(() -> out.getInputStream().transferTo(in.getOutputStream()));
                }
            });
        }

        interface Work { void run() throws Exception; }

        private void daemon(Work w) {
            Thread th = new Thread(() -> {
                try {
                    w.run();
                } catch (Exception e) {
                    cut(); // one end is gone
                }
            });
            th.setDaemon(true);
            th.start();
        }

        String uri() { return "amqp://" + to.getUserInfo() + "@127.0.0.1:" + listener.getLocalPort() + "/"; }

        void cut() {
            synchronized (open) {
                for (Socket s : open) {
                    try {
                        s.close();
                    } catch (IOException e) {
                        // it is closed
                    }
                }
                open.clear();
            }
        }

        @Override public void close() throws IOException {
            listener.close();
            cut();
        }
    }
}
