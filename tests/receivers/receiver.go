// Receivers in Go that verify wrongly, each with the standard library. A receiver answers with what its code saw.
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
)

type seen struct {
	Error    string      `json:"error"`
	Headers  http.Header `json:"headers"`
	Body     []byte      `json:"body"`
	Computed string      `json:"computed,omitempty"`
}

func key() []byte {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("SECRET"), "whsec_"))
	if err != nil {
		log.Fatal(err)
	}
	return key
}

func tag(id, timestamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, key())
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return mac.Sum(nil)
}

func compare(w http.ResponseWriter, r *http.Request, body []byte, computed string, answer seen) {
	for _, one := range strings.Split(r.Header.Get("webhook-signature"), " ") {
		if one == computed {
			log.Fatal("verified: ", r.URL)
		}
	}
	answer.Error, answer.Headers, answer.Body = "not equal", r.Header, body
	w.Header().Set("content-type", "application/json")
	json.NewEncoder(w).Encode(answer)
}

func main() {
	// The body is decoded into a map, and written again: keys are sorted, numbers are doubles, `<` is escaped.
	http.HandleFunc("/go/marshal", func(w http.ResponseWriter, r *http.Request) {
		var event map[string]any
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
			log.Fatal(err)
		}
		body, _ := json.Marshal(event)
		id, timestamp := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
		compare(w, r, body, "v1,"+base64.StdEncoding.EncodeToString(tag(id, timestamp, body)), seen{})
	})
	// An encoder ends each value with a line feed.
	http.HandleFunc("/go/encoder", func(w http.ResponseWriter, r *http.Request) {
		var event json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&event); err != nil {
			log.Fatal(err)
		}
		var written strings.Builder
		encoder := json.NewEncoder(&written)
		encoder.SetEscapeHTML(false)
		encoder.Encode(event)
		compare(w, r, []byte(written.String()), "", seen{})
	})
	// The map of headers has names in another case than the code looks for.
	http.HandleFunc("/go/header-map", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id, timestamp := strings.Join(r.Header["webhook-id"], ""), strings.Join(r.Header["webhook-timestamp"], "")
		computed := "v1," + base64.StdEncoding.EncodeToString(tag(id, timestamp, body))
		compare(w, r, body, computed, seen{Computed: computed})
	})
	// A limit on the size cuts the body off.
	http.HandleFunc("/go/limit", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(r.Body, 200))
		compare(w, r, body, "", seen{})
	})
	http.HandleFunc("/go/url-base64", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id, timestamp := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
		computed := "v1," + base64.RawURLEncoding.EncodeToString(tag(id, timestamp, body))
		compare(w, r, body, computed, seen{Computed: computed})
	})
	// The parts are in the order of other services.
	http.HandleFunc("/go/order", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		id, timestamp := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
		computed := "v1," + base64.StdEncoding.EncodeToString(tag(timestamp, id, body))
		compare(w, r, body, computed, seen{Computed: computed})
	})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}
