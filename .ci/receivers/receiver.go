// The receiver in Go, with the function of docs/receiving.md next to it.
package main

import (
	"io"
	"net/http"
	"os"

	"receiver/verify"
)

func main() {
	http.HandleFunc("/hook", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && receiver.Verify(os.Getenv("SECRET"), r.Header, body) {
			w.WriteHeader(204)
		} else {
			w.WriteHeader(401)
		}
	})
	http.HandleFunc("/crash", func(http.ResponseWriter, *http.Request) { panic("the handler failed") })
	http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil)
}
