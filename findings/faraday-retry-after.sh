#!/bin/bash
# The retry middleware of Debian 12's Faraday 1.1.0, set to repeat a 429 or 503, raises "uninitialized constant
# Faraday::Request::Retry::DateTime" at the first of them, with or without `Retry-After`: it reads the header with DateTime,
# and loads no library that defines it. If the program has loaded `date` or `time`, as Rails does, it works. Hurt: developers
# who call an API with Faraday: instead of waiting, the program ends with a NameError, which is no error of Faraday, so a
# `rescue Faraday::Error` does not catch it; tests pass in which no call is limited, or which have loaded `date`.
# Source: https://github.com/lostisland/faraday/blob/v1.1.0/lib/faraday/request/retry.rb
# Usage: findings/faraday-retry-after.sh. Needs apt-get of Debian 12, and Ruby 3.1. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet ruby-faraday=1.1.0-7 ruby-multipart-post=2.0.0-2 \
  ruby-ruby2-keywords=0.0.5-1
for package in *.deb; do dpkg --extract "$package" .; done
cat > client.rb <<'RUBY'
require "faraday"
require "socket"
require ARGV[0] if ARGV[0]

# Answers 429 to every first request of a call, and 200 to the second one.
server = TCPServer.new("127.0.0.1", 0)
count = 0
wait = ""
Thread.new do
  loop do
    client = server.accept
    length = 0
    while (line = client.gets) != "\r\n"
      length = line[/\d+/].to_i if line.downcase.start_with?("content-length:")
    end
    client.read(length)
    status = (count += 1).odd? ? "429 Too Many Requests\r\n#{wait}" : "200 OK\r\n"
    client.write("HTTP/1.1 #{status}content-length: 0\r\nconnection: close\r\n\r\n")
    client.close
  end
end

connection = Faraday.new("http://127.0.0.1:#{server.addr[1]}") do |builder|
  builder.request :retry, max: 2, methods: [:post], retry_statuses: [429, 503]
  builder.adapter :net_http
end
["", "retry-after: 1\r\n"].each do |header|
  wait = header
  count = 0
  result = begin
    connection.post("/keys", '{"name":"ci"}', "content-type" => "application/json").status
  rescue Faraday::Error => error
    "Faraday::Error: #{error.message}"
  rescue NameError => error
    "NameError: #{error.message.lines.first.strip}"
  end
  puts "#{ARGV[0] || "nothing"} loaded, #{header.empty? ? "no retry-after" : header.strip}: #{result}, #{count} requests"
end
RUBY
include=()
for library in usr/share/rubygems-integration/all/gems/*/lib; do include+=(-I "$library"); done
seen=$(timeout 30 ruby "${include[@]}" client.rb; timeout 30 ruby "${include[@]}" client.rb time)
echo "$seen"
[ "$seen" = 'nothing loaded, no retry-after: NameError: uninitialized constant Faraday::Request::Retry::DateTime, 1 requests
nothing loaded, retry-after: 1: NameError: uninitialized constant Faraday::Request::Retry::DateTime, 1 requests
time loaded, no retry-after: 200, 2 requests
time loaded, retry-after: 1: 200, 2 requests' ]
