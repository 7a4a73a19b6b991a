#!/bin/bash
# Debian 12's Hunchentoot 1.2.38-1.1 (Common Lisp) ends a 200 with its last chunk if a handler raises an error after
# `send-headers`, and keeps the connection open, so a client sees a complete response. With a `content-length`, it also keeps
# the connection open, and a client waits for the rest of the body. An error before `send-headers` is a 500. Hurt: receivers
# of webhooks that write a part of the response before the work is done: the sender sees a success, and the event is lost.
# Source: https://edicl.github.io/hunchentoot/#send-headers
# Usage: findings/hunchentoot-late-errors.sh. Needs apt-get of Debian 12, and Python 3. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null && wait || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet cl-alexandria=20211025.gita67c3a6-1 cl-base64=3.4.0-1 \
  cl-bordeaux-threads=0.8.8-5 cl-chunga=20220222.git7836609-1 cl-fad=20220110.git3f4d32d-1 \
  cl-flexi-streams=20210728.git41af5dc-1 cl-hunchentoot=1.2.38-1.1 cl-md5=1:20210622.git906593f-1 \
  cl-ppcre=20220126.gitb4056c5-1 cl-rfc2388=20130720+dfsg-1.1 cl-split-sequence=1:2.0.1-1 \
  cl-trivial-backtrace=20200511.git6eb65bd-1 cl-trivial-garbage=20211229.gitb3af9c0-1 \
  cl-trivial-gray-streams=20210117.git2b3823e-1 cl-usocket=0.8.3-2 sbcl=2:2.2.9-1
for package in *.deb; do dpkg --extract "$package" .; done
cat > receiver.lisp <<'LISP'
(require :asdf)
(push :hunchentoot-no-ssl *features*)
(asdf:initialize-source-registry
 `(:source-registry (:tree ,(truename "usr/share/common-lisp/source/")) :ignore-inherited-configuration))
(asdf:initialize-output-translations
 `(:output-translations (t ,(merge-pathnames "compiled/" (truename "./"))) :ignore-inherited-configuration))
(handler-bind ((warning #'muffle-warning)) (asdf:load-system :hunchentoot))

(defun store (event)
  (declare (ignore event))
  (error "The database is away"))

(defun store-after-headers ()
  (let ((event (hunchentoot:raw-post-data :force-binary t))
        (stream (flexi-streams:make-flexi-stream (hunchentoot:send-headers))))
    (format stream "storing the event~%")
    (finish-output stream)
    (sleep 0.2)
    (store event)))

(hunchentoot:define-easy-handler (stored :uri "/stored") () (hunchentoot:raw-post-data) "stored")
(hunchentoot:define-easy-handler (early :uri "/early") () (store (hunchentoot:raw-post-data :force-binary t)))
(hunchentoot:define-easy-handler (late :uri "/late") () (store-after-headers))
(hunchentoot:define-easy-handler (late-with-length :uri "/late-with-length") ()
  (setf (hunchentoot:content-length*) 30)
  (store-after-headers))

(hunchentoot:start (make-instance 'hunchentoot:easy-acceptor :address "127.0.0.1"
                                  :port (parse-integer (second sb-ext:*posix-argv*))))
(sleep 600)
LISP
port=$((20000 + $$ % 12000))
SBCL_HOME=$folder/usr/lib/sbcl usr/bin/sbcl --core usr/lib/sbcl/sbcl.core --script receiver.lisp "$port" > log 2>&1 &
server=$!
cat > client.py <<'PYTHON'
import http.client, sys, time

EXPECTED = {
    "/stored": "200, complete, then 200",
    "/early": "500, complete, then 200",
    "/late": "200, complete, then 200",
    "/late-with-length": "200, no end",
}


def post(connection, path):
    """The status of a response, and whether it is complete."""
    connection.request("POST", path, "{}", {"content-type": "application/json"})
    response = connection.getresponse()
    try:
        response.read()
        return f"{response.status}, complete"
    except http.client.IncompleteRead:
        return f"{response.status}, broken off"
    except TimeoutError:
        return f"{response.status}, no end"


def seen(path):
    """A response and, on the same connection, the status of the next one."""
    for _ in range(300):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=5)
            connection.connect()
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    first = post(connection, path)
    if not first.endswith("complete"):
        return first
    connection.auto_open = 0
    return f"{first}, then {post(connection, '/stored').removesuffix(', complete')}"


found = {path: seen(path) for path in EXPECTED}
for path, answer in found.items():
    print(f"{path}: {answer}")
sys.exit(found != EXPECTED)
PYTHON
python3 client.py "$port" || { tail --lines 20 log; exit 1; }
