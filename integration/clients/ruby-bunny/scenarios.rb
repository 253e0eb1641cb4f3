# Scenarios of ruby's bunny.
require_relative "frame"

scenario("connection.login") do
  [%w[guest guest], %w[guest wrong], %w[nobody x]].each do |user, password|
    uri = URIS.first.sub("guest:guest", "#{user}:#{password}")
    Bunny.new(uri, automatically_recover: false, logger: Logger.new(IO::NULL)).start.close
    say(user, password, "open")
  rescue StandardError => e
    say(user, password, e.class.name, e.message)
  end
end

scenario("connection.vhosts") do
  %w[compare closed unknown].each do |vhost|
    c = Bunny.new(URI_ONE.sub(%r{/$}, "/#{vhost}"), automatically_recover: false, logger: Logger.new(IO::NULL))
    c.start
    say(vhost, "open")
    c.close
  rescue StandardError => e
    say(vhost, e.class.name, e.message)
  end
end

scenario("connection.server") do
  say(connection.server_capabilities)
  say({ heartbeat: connection.heartbeat, frame_max: connection.frame_max, channel_max: connection.channel_max })
  c = connect(heartbeat: 7, frame_max: 8192, channel_max: 5)
  say({ heartbeat: c.heartbeat, frame_max: c.frame_max, channel_max: c.channel_max })
end

scenario("queue.equivalence") do
  q = queue("q", arguments: { "x-message-ttl" => 1000 })
  attempt("same") { |ch| ch.queue(q.name, arguments: { "x-message-ttl" => 1000 }) }
  attempt("durable") { |ch| ch.queue(q.name, durable: true, arguments: { "x-message-ttl" => 1000 }) }
  attempt("other ttl") { |ch| ch.queue(q.name, arguments: { "x-message-ttl" => 2000 }) }
  attempt("no ttl") { |ch| ch.queue(q.name) }
  attempt("auto-delete") { |ch| ch.queue(q.name, auto_delete: true, arguments: { "x-message-ttl" => 1000 }) }
  attempt("float ttl") { |ch| ch.queue(name("f"), arguments: { "x-message-ttl" => 1.5 }) }
end

scenario("queue.declare-counts", mirrored: true) do
  q = queue("q", durable: true)
  3.times { |i| publish(q.name, "m#{i}", persistent: true) }
  say({ messages: q.message_count, consumers: q.consumer_count })
  consumer = q.subscribe(manual_ack: true) {}
  depth(q.name, 0)
  say({ messages: q.message_count, consumers: q.consumer_count })
  consumer.cancel
end

scenario("queue.server-named") do
  q = channel.queue("", exclusive: true)
  say(q.name, q.server_named?)
  publish(q.name, "found")
  drain(q.name, 1)
end

scenario("queue.exclusive", mirrored: true) do
  q = queue("q", exclusive: true)
  other = connect(node: 2)
  attempt("declare elsewhere", connection: other) { |ch| ch.queue(q.name, exclusive: true) }
  attempt("get elsewhere", connection: other) { |ch| ch.basic_get(q.name) }
  attempt("delete elsewhere", connection: other) { |ch| ch.queue_delete(q.name) }
end

scenario("queue.delete-conditions", mirrored: true) do
  q = queue("q")
  publish(q.name, "m")
  attempt("if empty") { |ch| ch.queue_delete(q.name, if_empty: true) }
  held = channel.queue(q.name).subscribe(manual_ack: true) {}
  attempt("if unused") { |ch| ch.queue_delete(q.name, if_unused: true) }
  held.cancel
  attempt("unused") { |ch| ch.queue_delete(q.name, if_unused: true) }
  attempt("again") { |ch| ch.queue_delete(q.name) }
end

scenario("queue.purge", mirrored: true) do
  q = queue("q")
  4.times { |i| publish(q.name, "m#{i}") }
  attempt("purge") { |ch| ch.queue_purge(q.name) }
  depth(q.name, 0)
end

scenario("exchange.errors") do
  attempt("reserved") { |ch| Bunny::Exchange.new(ch, :direct, "amq.mine") }
  x = exchange("x", :topic, durable: true)
  attempt("other type") { |ch| Bunny::Exchange.new(ch, :fanout, x.name, durable: true) }
  attempt("transient") { |ch| Bunny::Exchange.new(ch, :topic, x.name) }
  attempt("passive unknown") { |ch| Bunny::Exchange.new(ch, :topic, name("y"), passive: true) }
  attempt("delete predeclared") { |ch| ch.exchange_delete("amq.topic") }
end

scenario("exchange.to-exchange", mirrored: true) do
  a, b, q = exchange("a", :topic), exchange("b", :fanout), queue("q")
  b.bind(a, routing_key: "k.#")
  q.bind(b)
  publish("k.1", "through", exchange: a.name)
  publish("other", "lost", exchange: a.name)
  drain(q.name, 1, details: true)
  b.unbind(a, routing_key: "k.#")
  publish("k.1", "unbound", exchange: a.name)
  depth(q.name, 0)
end

scenario("exchange.headers") do
  x, all, any = exchange("x", :headers), queue("all"), queue("any")
  all.bind(x, arguments: { "x-match" => "all", "a" => 1, "b" => "two" })
  any.bind(x, arguments: { "x-match" => "any", "a" => 1, "b" => "two" })
  [{ "a" => 1 }, { "a" => 1, "b" => "two" }, { "b" => "three" }, {}, { "a" => 1.0 }].each { |h| publish("", h.to_s, exchange: x.name, headers: h) }
  say("all", count(all.name), "any", count(any.name))
end

scenario("exchange.alternate") do
  last = exchange("last", :fanout)
  x, q = exchange("x", :direct, arguments: { "alternate-exchange" => last.name }), queue("q")
  q.bind(last)
  publish("nowhere", "by the alternate", exchange: x.name)
  drain(q.name, 1, details: true)
end

scenario("publish.mandatory", mirrored: true) do
  returned = []
  x = channel.default_exchange
  x.on_return { |info, properties, body| returned << [info.reply_code, info.reply_text, info.exchange, info.routing_key, body, properties.to_h] }
  x.publish("lost", routing_key: name("nobody"), mandatory: true, headers: { "a" => 1 })
  wait("a return") { !returned.empty? }
  say(returned)
end

scenario("publish.unknown-exchange") do
  attempt("publish") do |ch|
    ch.confirm_select
    ch.basic_publish("x", name("unknown"), "k")
    ch.queue(name("q"), passive: true)
  end
end

scenario("publish.confirms", mirrored: true) do
  q = queue("q", durable: true)
  ch = connection.create_channel
  ch.confirm_select
  50.times { |i| ch.basic_publish("m#{i}", "", q.name, persistent: true) }
  say("all confirmed", ch.wait_for_confirms, ch.nacked_set.to_a, ch.unconfirmed_set.to_a)
  say("depth", count(q.name))
end

scenario("publish.properties", mirrored: true) do
  q = queue("q")
  publish(q.name, "all", content_type: "t/p", content_encoding: "e", persistent: true, priority: 4, correlation_id: "c", reply_to: "r", expiration: "60000",
                         message_id: "m", timestamp: 1_700_000_000, type: "ty", user_id: "guest", app_id: "app",
                         headers: { "i" => 1, "big" => 1 << 40, "f" => 1.5, "t" => true, "n" => nil, "l" => [1, "a"], "h" => { "x" => { "y" => "z" } }, "u" => "ü" })
  drain(q.name, 1, details: true)
end

scenario("publish.user-id") do
  attempt("other's") do |ch|
    ch.confirm_select
    ch.basic_publish("x", "", name("q"), user_id: "other")
    ch.queue(name("q"), passive: true)
  end
end

scenario("publish.large-bodies", mirrored: true) do
  q = queue("q")
  [0, 131_064, 131_065, 1_000_000].each { |n| publish(q.name, "x" * n) }
  4.times { say(channel.basic_get(q.name, manual_ack: false)[2].size) }
end

scenario("consume.subscribe", mirrored: true) do
  q, seen = queue("q"), Queue.new
  3.times { |i| publish(q.name, "m#{i}") }
  consumer = q.subscribe(manual_ack: true, consumer_tag: "tag") { |info, _, body| seen << [info.consumer_tag, info.delivery_tag.to_i, info.redelivered, body] }
  3.times { say(seen.pop) }
  channel.ack(2, true)
  channel.nack(3, false, true)
  say(seen.pop)
  consumer.cancel
end

scenario("consume.prefetch", mirrored: true) do
  q, seen = queue("q"), []
  6.times { |i| publish(q.name, "m#{i}") }
  ch = connection.create_channel
  ch.prefetch(2)
  ch.queue(q.name, passive: true).subscribe(manual_ack: true) { |_, _, body| seen << body }
  wait("two") { seen.size == 2 }
  depth(q.name, 4)
  ch.ack(1)
  wait("three") { seen.size == 3 }
  say(seen)
end

scenario("consume.exclusive") do
  q = queue("q")
  q.subscribe(exclusive: true) {}
  attempt("second") { |ch| ch.queue(q.name, passive: true).subscribe {} }
end

scenario("consume.cancel-notification", mirrored: true) do
  q, cancelled = queue("q"), Queue.new
  q.subscribe_with(Bunny::Consumer.new(channel, q, "tag").tap { |c| c.on_cancellation { |m| cancelled << m.consumer_tag } })
  connection.create_channel.queue_delete(q.name)
  say(cancelled.pop)
end

scenario("consume.priority") do
  q, seen = queue("q"), []
  low, high = connection.create_channel, connection.create_channel
  [low, high].each { |ch| ch.prefetch(1) }
  low.queue(q.name, passive: true).subscribe(manual_ack: true, arguments: { "x-priority" => 1 }) { |_, _, body| seen << ["low", body] }
  high.queue(q.name, passive: true).subscribe(manual_ack: true, arguments: { "x-priority" => 9 }) { |_, _, body| seen << ["high", body] }
  publish(q.name, "a")
  wait("a") { seen.size == 1 }
  publish(q.name, "b")
  wait("b") { seen.size == 2 }
  say(seen)
end

scenario("get", mirrored: true) do
  q = queue("q")
  say(channel.basic_get(q.name).compact)
  2.times { |i| publish(q.name, "m#{i}") }
  info, _, body = channel.basic_get(q.name, manual_ack: true)
  say(body, { tag: info.delivery_tag.to_i, left: info.message_count, redelivered: info.redelivered })
  channel.reject(info.delivery_tag, true)
  depth(q.name, 2)
  drain(q.name, 2, details: true)
end

scenario("ack.unknown") do
  attempt("ack") do |ch|
    ch.basic_ack(42, false)
    ch.queue(name("q"), passive: true)
  end
end

scenario("recover", mirrored: true) do
  q, seen = queue("q"), []
  publish(q.name, "a")
  q.subscribe(manual_ack: true) { |info, _, body| seen << [body, info.redelivered] }
  wait("once") { seen.size == 1 }
  channel.recover
  wait("twice") { seen.size == 2 }
  say(seen)
end

scenario("dead-letter", mirrored: true) do
  x, dead = exchange("dlx", :fanout), queue("dead")
  dead.bind(x)
  q = queue("q", arguments: { "x-dead-letter-exchange" => x.name, "x-dead-letter-routing-key" => "key", "x-max-length" => 2 })
  publish(q.name, "rejected")
  info, = channel.basic_get(q.name, manual_ack: true)
  channel.reject(info.delivery_tag, false)
  drain(dead.name, 1, details: true)
  publish(q.name, "expires", expiration: "20")
  drain(dead.name, 1, details: true)
  3.times { |i| publish(q.name, "m#{i}") }
  drain(dead.name, 1, details: true)
end

scenario("max-length.reject-publish", mirrored: true) do
  q = queue("q", arguments: { "x-max-length" => 1, "x-overflow" => "reject-publish" })
  publish(q.name, "taken")
  publish(q.name, "refused")
  drain(q.name, 1)
end

scenario("priority", mirrored: true) do
  q = queue("q", arguments: { "x-max-priority" => 5 })
  { "low" => 1, "high" => 5, "none" => nil, "over" => 200 }.each { |body, p| publish(q.name, body, **(p ? { priority: p } : {})) }
  drain(q.name, 4)
end

scenario("ttl", mirrored: true) do
  q = queue("q", arguments: { "x-message-ttl" => 50 })
  publish(q.name, "m")
  depth(q.name, 0)
  attempt("invalid expiration") do |ch|
    ch.confirm_select
    ch.basic_publish("x", "", q.name, expiration: "soon")
    ch.queue(q.name, passive: true)
  end
end

scenario("expires", mirrored: true) do
  q = queue("q", arguments: { "x-expires" => 300 })
  say("there", there?(q.name))
  sleep 0.9
  say("gone", wait("gone") { !there?(q.name) })
end

scenario("tx", mirrored: true) do
  q = queue("q")
  ch = connection.create_channel
  ch.tx_select
  ch.basic_publish("rolled back", "", q.name)
  ch.tx_rollback
  ch.basic_publish("committed", "", q.name)
  say("before", count(q.name))
  ch.tx_commit
  drain(q.name, 1)
  attempt("confirm in tx") { |c| c.tx_select; c.confirm_select }
end

scenario("auto-delete", mirrored: true) do
  q = queue("q", auto_delete: true)
  consumer = q.subscribe {}
  say("there", there?(q.name))
  consumer.cancel
  say("gone", wait("gone") { !there?(q.name) })
end

scenario("single-active", mirrored: true) do
  q, seen = queue("q", arguments: { "x-single-active-consumer" => true }), Queue.new
  first = q.subscribe(consumer_tag: "first") { |_, _, body| seen << ["first", body] }
  connection.create_channel.queue(q.name, passive: true).subscribe(consumer_tag: "second") { |_, _, body| seen << ["second", body] }
  publish(q.name, "a")
  say(seen.pop)
  first.cancel
  publish(q.name, "b")
  say(seen.pop)
end

scenario("consistent-hash") do
  x = exchange("x", "x-consistent-hash")
  queues = %w[a b].map { |short| queue(short).bind(x, routing_key: "1") }
  40.times { |i| publish("key#{i}", "m", exchange: x.name) }
  say("all", queues.sum { |q| count(q.name) })
end

scenario("reply-to", mirrored: true) do
  requests, answers = queue("requests"), Queue.new
  client = connection.create_channel
  client.basic_consume("amq.rabbitmq.reply-to", "tag", true) { |_, properties, body| answers << [properties.correlation_id, body] }
  client.basic_publish("ask", "", requests.name, reply_to: "amq.rabbitmq.reply-to", correlation_id: "7")
  server = connect(node: 3).create_channel
  got = nil
  wait("a request") { (got = server.basic_get(requests.name, manual_ack: false))[0] }
  server.basic_publish("answer to " + got[2], "", got[1][:reply_to], correlation_id: got[1][:correlation_id])
  say(answers.pop)
end

scenario("channel.errors-leave-others") do
  other = connection.create_channel
  attempt("error") { |ch| ch.queue(name("unknown"), passive: true) }
  say("open", other.open?, connection.open?)
  say(other.queue("", exclusive: true).name)
end

main
