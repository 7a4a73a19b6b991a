#!/bin/bash
# fasthttp 1.31.0 of Debian 12 reads the next request of a connection into the memory of the previous body: a slice that
# `PostBody()` returned, and that waits in a channel, then contains the next event, or a mix of both. net/http of Go 1.19
# makes a new slice for each request. fasthttp's documentation forbids holding such a slice after the handler returns. Hurt:
# receivers of webhooks that queue the body and answer at once, as senders advise: the signature was right, and the worker
# later gets one event twice and the other one never, but only if the sender reuses connections.
# Source: https://pkg.go.dev/github.com/valyala/fasthttp#RequestHandler
# Usage: findings/fasthttp-bodies.sh. Needs apt-get of Debian 12, and Go 1.19. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet golang-github-andybalholm-brotli-dev=1.0.4-3 \
  golang-github-klauspost-compress-dev=1.15.12+ds1-3 golang-github-valyala-bytebufferpool-dev=1.0.0-3 \
  golang-github-valyala-fasthttp-dev=1:1.31.0-4
for package in *.deb; do dpkg --extract "$package" .; done
mkdir -p src/receiver
cat > src/receiver/main.go <<'GO'
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/valyala/fasthttp"
)

// Posts three events on one connection, and returns the jobs whose bodies the queue then contains.
func post(listener net.Listener, queue chan []byte) string {
	for _, event := range []string{`{"job_id":"job-1"}`, `{"job_id":"job-2"}`, `{"job_id":"job-3"}`} {
		response, err := http.Post("http://"+listener.Addr().String()+"/hook", "application/json", strings.NewReader(event))
		if err != nil {
			panic(err)
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
	}
	close(queue)
	jobs := []string{}
	for body := range queue {
		jobs = append(jobs, strings.Split(string(body), `"`)[3])
	}
	return strings.Join(jobs, ", ")
}

func seen(serve func(net.Listener, chan []byte)) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	queue := make(chan []byte, 3)
	go serve(listener, queue)
	return post(listener, queue)
}

func main() {
	asGiven := seen(func(listener net.Listener, queue chan []byte) {
		fasthttp.Serve(listener, func(ctx *fasthttp.RequestCtx) { queue <- ctx.PostBody() })
	})
	copied := seen(func(listener net.Listener, queue chan []byte) {
		fasthttp.Serve(listener, func(ctx *fasthttp.RequestCtx) { queue <- append([]byte(nil), ctx.PostBody()...) })
	})
	standard := seen(func(listener net.Listener, queue chan []byte) {
		http.Serve(listener, http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
			body, _ := io.ReadAll(request.Body)
			queue <- body
		}))
	})
	fmt.Printf("fasthttp: %s\nfasthttp, copied: %s\nnet/http: %s\n", asGiven, copied, standard)
	if asGiven == "job-1, job-2, job-3" || copied != "job-1, job-2, job-3" || standard != copied {
		os.Exit(1)
	}
}
GO
export GO111MODULE=off GOPATH=$folder:$folder/usr/share/gocode GOCACHE=$folder/cache GOFLAGS=
cd src/receiver
go run .
