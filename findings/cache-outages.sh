#!/bin/bash
# Five caches answer "not added" if they cannot be reached or are locked, as for a key that exists, and raise no error: Rails'
# MemCacheStore and RedisCacheStore (`write` with `unless_exist`, activesupport 6.1.7.10) and PyPI's python-memcached 1.62 if the
# server is away, Django's DatabaseCache (`add`, Django 5.2.19) if the database is locked, and diskcache 5.6.3's FanoutCache
# (`add`) if another process writes for more than 10 ms. Dalli, with which Rails speaks to memcached, and Django's RedisCache
# raise an error; Rails logs one if it has a logger. Hurt: receivers of webhooks that add each `webhook-id` to the cache and
# answer 200 to one that is there: during an outage of the cache, every event looks like a duplicate and is lost.
# Source: https://grantjenks.com/docs/diskcache/api.html#diskcache.FanoutCache.add and
# https://api.rubyonrails.org/v6.1/classes/ActiveSupport/Cache/RedisCacheStore.html
# Usage: findings/cache-outages.sh. Needs apt-get of Debian 12, Ruby 3.1, Python 3.11 with pip, and PyPI. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet ruby-activesupport=2:6.1.7.10+dfsg-1~deb12u4 \
  ruby-concurrent=1.1.6+dfsg-5 ruby-connection-pool=2.2.5-1 ruby-dalli=3.0.6-1.1 ruby-i18n=1.10.0-2 ruby-minitest=5.17.0-1 \
  ruby-redis=4.8.0-1 ruby-tzinfo=2.0.5-1 ruby-zeitwerk=2.6.1-1
for package in *.deb; do dpkg --extract "$package" .; done
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check diskcache==5.6.3 django==5.2.19 python-memcached==1.62 redis==8.1.0
cat > add.rb <<'RUBY'
require "logger"
require "active_support"
require "active_support/cache"
require "active_support/core_ext/numeric/time"
require "dalli"

Dalli.logger = Logger.new("log")
Away = "127.0.0.1:1"
def show(name)
  puts "#{name}: #{yield.inspect}"
rescue Dalli::RingError => error
  puts "#{name}: #{error.class}"
end
stores = {
  "Rails' MemCacheStore" => ActiveSupport::Cache::MemCacheStore.new(Away),
  "Rails' RedisCacheStore" => ActiveSupport::Cache::RedisCacheStore.new(url: "redis://#{Away}"),
}
stores.each { |name, store| show(name) { store.write("msg_1", 1, unless_exist: true, expires_in: 1.hour) } }
show("Dalli") { Dalli::Client.new(Away).add("msg_1", 1) }
RUBY
cat > add.py <<'PYTHON'
import sqlite3, threading
import diskcache, django, memcache
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "database", "OPTIONS": {"timeout": 1}}},
    CACHES={
        "default": {"BACKEND": "django.core.cache.backends.db.DatabaseCache", "LOCATION": "cache"},
        "redis": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": "redis://127.0.0.1:1"},
    },
)
django.setup()
from django.core.cache import caches
from django.core.management import call_command

call_command("createcachetable", verbosity=0)
other = sqlite3.connect("database", isolation_level=None)
other.execute("BEGIN IMMEDIATE")
print(f"Django's DatabaseCache: {caches['default'].add('msg_1', 1)}")
other.execute("ROLLBACK")
try:
    print(caches["redis"].add("msg_1", 1))
except Exception as error:
    print(f"Django's RedisCache: {type(error).__name__}")
files, added = diskcache.FanoutCache("files"), []
with diskcache.FanoutCache("files").transact():
    thread = threading.Thread(target=lambda: added.append(files.add("msg_1", 1)))
    thread.start()
    thread.join()
    print(f"diskcache's FanoutCache: {added[0]}")
print(f"python-memcached: {memcache.Client(['127.0.0.1:1']).add('msg_1', 1)}")
stored = [caches["default"].get("msg_1"), files.get("msg_1")]
print(f"stored by Django and diskcache: {stored}")
PYTHON
seen=$(
  GEM_PATH=$folder/usr/share/rubygems-integration/all ruby add.rb
  python/bin/python add.py
)
echo "$seen"
[ "$seen" = "Rails' MemCacheStore: false
Rails' RedisCacheStore: false
Dalli: Dalli::RingError
Django's DatabaseCache: False
Django's RedisCache: ConnectionError
diskcache's FanoutCache: False
python-memcached: 0
stored by Django and diskcache: [None, None]" ]
