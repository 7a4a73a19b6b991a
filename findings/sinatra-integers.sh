#!/bin/bash
# Debian 12's Sinatra 3.0.5-3+deb12u1 takes any integer that a route returns as the status of the response. Ruby returns the
# last value of a block: for `File.write`, the number of bytes that it wrote, and for a queue's `size` or Redis's `RPUSH`,
# the length of the queue. So a route that ends with storing the event answers 410 to an event of 410 bytes, 503 while 503
# events are in its queue, and "HTTP/1.1 1", which is no HTTP response, to the first one. Hurt: receivers of webhooks in
# Sinatra whose route does not end with a status: the sender repeats events that were stored, and takes a 410 for the end of
# the endpoint.
# Usage: findings/sinatra-integers.sh. Needs apt-get of Debian 12, and Ruby 3.1. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet ruby-sinatra=3.0.5-3+deb12u1 ruby-mustermann=3.0.0-2 \
  ruby-rack=2.2.22-0+deb12u2 ruby-rack-protection=3.0.5-3+deb12u1 ruby-ruby2-keywords=0.0.5-1 ruby-tilt=2.0.11-2 \
  ruby-webrick=1.8.1-1
for package in *.deb; do dpkg --extract "$package" .; done
cat > receiver.rb <<'RUBY'
require "net/http"
require "sinatra/base"

class Receiver < Sinatra::Base
  set environment: :production, logging: false, queue: []
  post("/file") { File.write("event.json", request.body.read) }
  post("/queue") do
    settings.queue << request.body.read
    settings.queue.size
  end
  post("/status") do
    File.write("event.json", request.body.read)
    204
  end
end

server = WEBrick::HTTPServer.new(
  BindAddress: "127.0.0.1", Port: 0, Logger: WEBrick::Log.new(File::NULL), AccessLog: []
)
server.mount("/", Rack::Handler::WEBrick, Receiver)
Thread.new { server.start }
# The status of the response to an event of this size, or nil if it is no HTTP response.
post = lambda do |path, size|
  body = %({"result":"#{"x" * (size - 13)}"})
  uri = URI("http://127.0.0.1:#{server.listeners[0].addr[1]}#{path}")
  Net::HTTP.post(uri, body, "content-type" => "application/json").code
rescue Net::HTTPBadResponse
  nil
end
sizes = [204, 410, 503, 700]
seen = {
  "File.write, events of #{sizes.join(", ")} bytes" => sizes.map { |size| post["/file", size] },
  "a queue's size, with 0, 409 and 502 events in it" => [0, 409, 502].map do |size|
    Receiver.queue.replace(Array.new(size))
    post["/queue", 20]
  end,
  "a status at the end" => sizes.map { |size| post["/status", size] }
}
seen.each { |name, statuses| puts "#{name}: #{statuses.map { |status| status || "no HTTP response" }.join(", ")}" }
exit seen.values == [%w[204 410 503 700], [nil, "410", "503"], %w[204 204 204 204]]
RUBY
export RUBYLIB=$folder/usr/lib/ruby/vendor_ruby
for directory in "$folder"/usr/share/rubygems-integration/all/gems/*/lib; do RUBYLIB+=:$directory; done
ruby -r rack/handler/webrick receiver.rb
