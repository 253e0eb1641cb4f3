# The frame for scenarios in Ruby: each runs in a process of its own with a time limit.
require "bunny"
require "json"
require "logger"

LIMIT = 20 # seconds
URI_ONE = ENV.fetch("AMQP_URI", "amqp://guest:guest@127.0.0.1:5672/")
URIS = ENV.fetch("AMQP_URIS", URI_ONE).split.map { |uri| uri.chomp("/") } # with a slash the name of the virtual host would be empty
SCENARIOS = []

def scenario(name, mirrored: false, &block)
  SCENARIOS << [name, "bunny.#{name}", block]
  SCENARIOS << ["ha.#{name}", "ha.bunny.#{name}", block] if mirrored
end

def plain(value)
  case value
  when Hash then value.map { |k, v| [k.to_s, plain(v)] }.sort.to_h
  when Array then value.map { |v| plain(v) }
  when Time then "TIME"
  when Symbol then value.to_s
  when Float, Integer, true, false, nil then value
  else
    text = value.to_s.dup.force_encoding("UTF-8")
    text.valid_encoding? ? text : "0x" + value.unpack1("H*")
  end
end

def say(*parts)
  puts parts.map { |p| p.is_a?(String) ? p : JSON.generate(plain(p)) }.join(" ").gsub("\n", "\\n")
  $stdout.flush
end

# What a scenario has: a connection, a channel, a channel in confirm mode, and what it declared.
class Case
  attr_reader :connection, :prefix

  def initialize(prefix)
    @prefix = prefix
    @connections, @queues, @exchanges = [], [], []
    @connection = connect
  end

  def connect(node: 1, **options)
    given = { automatically_recover: false, logger: Logger.new(IO::NULL), log_level: Logger::FATAL, continuation_timeout: 4_000 }
    c = Bunny.new(URIS[(node - 1) % URIS.size], **given.merge(options))
    c.start
    @connections << c
    c
  end

  def channel
    @connection = connect unless @connection.open?
    @channel = @connection.create_channel unless @channel&.open?
    @channel
  end

  def publisher
    unless @publisher&.open?
      @publisher = (@connection.open? ? @connection : connect).create_channel
      @publisher.confirm_select
    end
    @publisher
  end

  def name(short) = "#{@prefix}.#{short}"

  def queue(short = "q", **options)
    @queues << name(short)
    channel.queue(name(short), **options)
  end

  def exchange(short, type, **options)
    @exchanges << name(short)
    Bunny::Exchange.new(channel, type, name(short), options)
  end

  def publish(key, body, exchange: "", **options)
    publisher.basic_publish(body, exchange, key, options)
    ok = publisher.wait_for_confirms
    say("nacked", body) unless ok
  end

  # Does something on a channel of its own and says how it ended.
  def attempt(what, connection: nil)
    connection ||= (channel; @connection)
    ch = connection.create_channel
    result = yield(ch)
    say(what + ":", result.is_a?(AMQ::Protocol::Method) ? result.class.name : "ok")
  rescue Bunny::ChannelLevelException, Bunny::ConnectionLevelException => e
    say(what + ":", e.class.name, e.message)
  rescue Timeout::Error # bunny learns of some errors by waiting for an answer
    say(what + ":", "no answer")
  ensure
    begin
      ch.close if ch&.open?
    rescue StandardError
      nil
    end
  end

  def wait(what, limit: 8)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + limit
    until (found = yield)
      return say("never:", what) if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
      sleep 0.02
    end
    found
  end

  def depth(name, wanted)
    wait("#{name} has #{wanted}") { count(name) == wanted }
    say("depth", name, count(name))
  end

  def count(name) = channel.queue(name, passive: true).message_count

  def there?(name)
    @connection.create_channel.tap { |ch| ch.queue(name, passive: true) }.close
    true
  rescue Bunny::NotFound
    false
  end

  def drain(name, wanted, details: false)
    found = []
    wait("#{wanted} messages in #{name}") do
      info, properties, body = channel.basic_get(name, manual_ack: false)
      if info
        found << body
        tell(info, properties, body) if details
      end
      found.size >= wanted
    end
    say("drained", name, found)
  end

  def tell(info, properties, body)
    say("message", body, { exchange: info.exchange, routing_key: info.routing_key, redelivered: info.redelivered, delivery_tag: info.delivery_tag.to_i },
        properties.to_h)
  end

  def finish
    c = connect
    @queues.each { |q| forget(c) { |ch| ch.queue_delete(q) } }
    @exchanges.each { |x| forget(c) { |ch| ch.exchange_delete(x) } }
    @connections.each { |each| each.close if each.open? }
  rescue StandardError
    nil
  end

  def forget(connection)
    ch = connection.create_channel
    yield(ch)
    ch.close
  rescue StandardError
    nil
  end
end

def child(prefix, block, out)
  Process.setsid
  $stdout.reopen(out)
  $stderr.reopen(IO::NULL)
  Thread.report_on_exception = false
  c = nil
  begin
    c = Case.new(prefix)
    c.instance_exec(&block)
  rescue Exception => e # whatever a client throws is part of what it saw
    say("raised", e.class.name + ":", e.message)
  end
  c&.finish
  $stdout.flush
  exit!(0)
end

def play(name, prefix, block)
  puts "== #{name}"
  $stdout.flush
  reader, writer = IO.pipe
  pid = fork { reader.close; child(prefix, block, writer) }
  writer.close
  deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + LIMIT
  seen = +""
  loop do
    left = deadline - Process.clock_gettime(Process::CLOCK_MONOTONIC)
    unless left.positive? && IO.select([reader], nil, nil, left)
      seen << "TIMEOUT\n"
      break
    end
    seen << reader.readpartial(65_536)
  rescue EOFError
    break
  end
  begin
    Process.kill(:KILL, pid)
  rescue Errno::ESRCH
    nil
  end
  Process.wait(pid)
  print seen
  puts "== end"
  $stdout.flush
end

def main
  unknown = ARGV - SCENARIOS.map(&:first)
  abort "no such scenarios: #{unknown.join(' ')}" unless unknown.empty?
  SCENARIOS.each { |name, prefix, block| play(name, prefix, block) if ARGV.empty? || ARGV.include?(name) }
end
