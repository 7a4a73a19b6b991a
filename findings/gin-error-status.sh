#!/bin/bash
# gin 1.8.1 of Debian 12 answers 200 to a handler that reports a failure with `c.Error(err)`, and to a middleware that stops a
# request with `c.Abort()`: the one only adds to a list, the other only skips the following handlers. A middleware that
# answers 401 and returns stops nothing: the handler runs, and its status is ignored. Hurt: receivers of webhooks in gin: an
# event that failed counts as delivered, or one with a wrong signature is processed, although its sender sees a 401. One
# call does all: `c.AbortWithStatus(401)`, also in a handler.
# Usage: findings/gin-error-status.sh. Needs apt-get of Debian 12, and Go 1.19. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -o APT::Sandbox::User=root download --quiet --quiet golang-github-gin-contrib-sse-dev=0.1.0-2 \
  golang-github-gin-gonic-gin-dev=1.8.1-1 golang-github-go-playground-locales-dev=0.14.0-3 \
  golang-github-go-playground-universal-translator-dev=0.17.0-2 golang-github-go-playground-validator-v10-dev=10.4.1-4 \
  golang-github-leodido-go-urn-dev=1.2.1-3 golang-github-mattn-go-isatty-dev=0.0.17-1 \
  golang-github-pelletier-go-toml.v2-dev=2.0.6-1 golang-github-ugorji-go-codec-dev=1.2.8-1 \
  golang-golang-x-crypto-dev=1:0.4.0-1 golang-golang-x-net-dev=1:0.7.0+dfsg-1 golang-golang-x-sys-dev=0.3.0-1 \
  golang-golang-x-text-dev=0.7.0-1 golang-google-protobuf-dev=1.28.1-3 golang-gopkg-yaml.v2-dev=2.4.0-4
for package in *.deb; do dpkg --extract "$package" .; done
mkdir -p src/receiver
cat > src/receiver/main.go <<'GO'
package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/gin-gonic/gin"
)

func main() {
	gin.SetMode(gin.ReleaseMode)
	server := gin.New()
	runs := 0
	process := func(c *gin.Context) {
		runs++
		c.Status(http.StatusNoContent)
	}
	server.POST("/error", func(c *gin.Context) { c.Error(errors.New("the database is away")) })
	server.POST("/abort", func(c *gin.Context) { c.Abort() }, process)
	server.POST("/json-and-return", func(c *gin.Context) { c.JSON(401, gin.H{"error": "signature"}) }, process)
	server.POST("/abort-with-status", func(c *gin.Context) { c.AbortWithStatus(401) }, process)
	receiver := httptest.NewServer(server)
	found := []string{}
	for _, path := range []string{"/error", "/abort", "/json-and-return", "/abort-with-status"} {
		runs = 0
		response, err := http.Post(receiver.URL+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			panic(err)
		}
		response.Body.Close()
		found = append(found, fmt.Sprintf("%s: %d, %d processed", path, response.StatusCode, runs))
	}
	fmt.Println(strings.Join(found, "\n"))
	expected := "/error: 200, 0 processed; /abort: 200, 0 processed; /json-and-return: 401, 1 processed; " +
		"/abort-with-status: 401, 0 processed"
	if strings.Join(found, "; ") != expected {
		os.Exit(1)
	}
}
GO
export GO111MODULE=off GOPATH=$folder:$folder/usr/share/gocode GOCACHE=$folder/cache GOFLAGS=
cd src/receiver
go run .
