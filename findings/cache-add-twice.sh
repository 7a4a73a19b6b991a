#!/bin/bash
# `add` of the file caches of Django 5.2.19 and Flask-Caching 2.5.1 (cachelib 0.17.0), and `write` with `unless_exist` of Rails'
# FileStore (activesupport 6.1.7.10), look for the key first and write it then: of several threads or processes that add one
# key at once, more than one gets True. PyPI's pymemcache 4.0.0 does not wait for memcached's answer by default, and returns
# True for each key, also if it exists. Caches in the memory of a process, in a database or in Redis give True once.
# Hurt: receivers of webhooks that add each `webhook-id` to the cache and process the event if the result is true: two
# deliveries of one event at once, or with pymemcache all duplicates, are processed twice.
# Source: https://pymemcache.readthedocs.io/en/latest/apidoc/pymemcache.client.base.html
# Usage: findings/cache-add-twice.sh. Needs apt-get of Debian 12, Ruby 3.1, Python 3.11 with pip, and PyPI. Fails if the behavior
# changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet libevent-2.1-7=2.1.12-stable-8+deb12u1 libsasl2-2=2.1.28+dfsg-10 \
  memcached=1.6.18-1+deb12u1 ruby-activesupport=2:6.1.7.10+dfsg-1~deb12u4 ruby-concurrent=1.1.6+dfsg-5 ruby-i18n=1.10.0-2 \
  ruby-minitest=5.17.0-1 ruby-tzinfo=2.0.5-1 ruby-zeitwerk=2.6.1-1
for package in *.deb; do dpkg --extract "$package" .; done
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check cachelib==0.17.0 django==5.2.19 flask-caching==2.5.1 pymemcache==4.0.0
port=$((20000 + $$ % 12000))
LD_LIBRARY_PATH=$folder/usr/lib/x86_64-linux-gnu usr/bin/memcached --user=root --listen=127.0.0.1 --port="$port" &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.1; done
cat > add.py <<'PYTHON'
import sys, threading
import django, flask, flask_caching, pymemcache
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "database"}},
    CACHES={
        "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
        "file": {"BACKEND": "django.core.cache.backends.filebased.FileBasedCache", "LOCATION": "django"},
        "database": {"BACKEND": "django.core.cache.backends.db.DatabaseCache", "LOCATION": "cache"},
    },
)
django.setup()
from django.core.cache import caches
from django.core.management import call_command

call_command("createcachetable", verbosity=0)
app = flask.Flask(__name__)
of_flask = flask_caching.Cache(app, config={"CACHE_TYPE": "FileSystemCache", "CACHE_DIR": "flask"})


def add_in_flask(key):
    with app.app_context():
        return of_flask.add(key, 1, timeout=60)


def repeated(add):
    """Whether more than one of eight threads adds one key, in up to 300 tries."""
    for number in range(300):
        start, added = threading.Barrier(8), []

        def one():
            start.wait()
            added.append(add(f"msg_{number}"))

        threads = [threading.Thread(target=one) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert True in added
        if added.count(True) > 1:
            return "more than once"
    return "once"


def of_django(name):
    return lambda key: caches[name].add(key, 1, timeout=60)


print(f"Django's FileBasedCache: {repeated(of_django('file'))}")
print(f"Django's LocMemCache: {repeated(of_django('default'))}")
print(f"Django's DatabaseCache: {repeated(of_django('database'))}")
print(f"Flask-Caching's FileSystemCache: {repeated(add_in_flask)}")
memcached = pymemcache.Client(f"127.0.0.1:{sys.argv[1]}")
one_by_one = [memcached.add("msg_1", 1, expire=60) for _ in range(3)]
print(f"pymemcache, one by one: {one_by_one}, with noreply=False: {memcached.add('msg_1', 1, expire=60, noreply=False)}")
PYTHON
cat > add.rb <<'RUBY'
require "logger"
require "active_support"
require "active_support/cache"

store = ActiveSupport::Cache::FileStore.new("rails")
twice = (1..300).any? do |number|
  threads = (1..8).map { Thread.new { store.write("msg_#{number}", 1, unless_exist: true) } }
  threads.map(&:value).count(true) > 1
end
puts "Rails' FileStore: #{twice ? "more than once" : "once"}"
RUBY
seen=$(
  python/bin/python add.py "$port"
  GEM_PATH=$folder/usr/share/rubygems-integration/all ruby add.rb
)
echo "$seen"
[ "$seen" = "Django's FileBasedCache: more than once
Django's LocMemCache: once
Django's DatabaseCache: once
Flask-Caching's FileSystemCache: more than once
pymemcache, one by one: [True, True, True], with noreply=False: False
Rails' FileStore: more than once" ]
