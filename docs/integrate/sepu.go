// Calls sepu from Go 1.18 or later, with the standard library only. Keep one Client for all calls.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const longest = 1 << 20 // bytes of an answer

// Client makes calls. Timeout is for one attempt, Deadline for all attempts of a call and their pauses.
type Client struct {
	url, apiKey       string
	Timeout, Deadline time.Duration
	HTTP              http.Client
}

// NewClient returns a Client that reuses connections, and does not follow redirects. The URL begins with http:// or
// https://.
func NewClient(url, apiKey string) *Client {
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	url, apiKey = strings.TrimRight(url, "/"), strings.TrimSpace(apiKey)
	client := http.Client{CheckRedirect: stay}
	if standard, ok := http.DefaultTransport.(*http.Transport); ok { // otherwise the program has its own
		transport := standard.Clone()
		transport.MaxIdleConnsPerHost = 32           // with the default of 2, simultaneous calls open new connections
		transport.IdleConnTimeout = 30 * time.Second // the service closes after 75, and may have a proxy in front of it
		client.Transport = transport
	}
	return &Client{url, apiKey, 10 * time.Second, time.Minute, client}
}

// Format prints a Client without its API key.
func (c Client) Format(state fmt.State, _ rune) { fmt.Fprint(state, "Client of ", c.url) }

// RGB is a colour. Its channels are from 0 to 255.
type RGB struct {
	R float64 `json:"r"`
	G float64 `json:"g"`
	B float64 `json:"b"`
}

// Usage is the state of the meter after a call, from the X-Usage headers.
type Usage struct {
	Period, Meter               string
	Limit, Committed, Remaining int
}

// Answer holds the JSON of an answer. Replayed says that an earlier attempt or call was charged.
type Answer struct {
	Body     json.RawMessage
	Key      string
	Replayed bool
	Usage    *Usage
}

var errUnusable = errors.New("the answer is compressed or too long")

// Error says why there is no answer. Without any response, Status is 0; with an unusable one, -1. Repeat a call with its
// Key.
type Error struct {
	Status               int
	Code, RequestID, Key string
	Pointer              string // to the fault in an input: /colors/2/g
	RetryAfter           time.Duration
	Usage                *Usage // with quota_exceeded
	Cause                error
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("no answer (%v)", e.Cause)
	}
	place := ""
	if e.Pointer != "" {
		place = " at " + e.Pointer
	}
	return fmt.Sprintf("%d %s%s (request id %s)", e.Status, e.Code, place, e.RequestID)
}

func (e *Error) Unwrap() error { return e.Cause }

func (e *Error) retryable() bool {
	return e.Cause != nil && e.Status == 0 || e.Status == 408 || e.Status >= 500 || e.Code == "request_in_progress" ||
		e.Status == 429 && e.Code != "quota_exceeded"
}

// NewKey returns an idempotency key. If the intent outlives this process, store the key with it.
func NewKey() string {
	random := make([]byte, 16)
	if _, err := rand.Read(random); err != nil {
		panic(err)
	}
	return hex.EncodeToString(random)
}

// Match finds the colours nearest to each of the one to five given.
func (c *Client) Match(ctx context.Context, key string, top int, colors ...RGB) (*Answer, error) {
	body, err := json.Marshal(map[string]any{"colors": colors, "top": top})
	if err != nil {
		return nil, err
	}
	return c.call(ctx, http.MethodPost, "/v1/match", key, body)
}

// Search finds colours by name.
func (c *Client) Search(ctx context.Context, key, q string, limit int) (*Answer, error) {
	query := url.Values{"q": {q}, "limit": {strconv.Itoa(limit)}}
	return c.call(ctx, http.MethodGet, "/v1/search?"+query.Encode(), key, nil)
}

// Usage reads all meters. It is free.
func (c *Client) Usage(ctx context.Context) (*Answer, error) {
	return c.call(ctx, http.MethodGet, "/v1/usage", "", nil)
}

// call sends the same request with the same key until there is an answer or the deadline is near.
func (c *Client) call(ctx context.Context, method, path, key string, body []byte) (*Answer, error) {
	if !strings.HasPrefix(c.url, "http://") && !strings.HasPrefix(c.url, "https://") {
		return nil, errors.New("the URL must begin with http:// or https://")
	}
	if strings.IndexFunc(c.apiKey+key, func(r rune) bool { return r < '!' || r > '~' }) >= 0 {
		return nil, errors.New("a key has characters that no header may have")
	}
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.apiKey)
	request.Header.Set("Accept-Encoding", "identity")
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	end := time.Now().Add(c.Deadline)
	for most := 250 * time.Millisecond; ; most = shorter(2*most, 8*time.Second) {
		attempt, cancel := context.WithTimeout(ctx, shorter(c.Timeout, time.Until(end)))
		answer, failure := c.attempt(request.Clone(attempt), key)
		cancel()
		if failure == nil {
			return answer, nil
		}
		pause := failure.RetryAfter + random(most)
		if !failure.retryable() || time.Now().Add(pause).After(end) {
			return nil, failure
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, failure
		}
	}
}

func (c *Client) attempt(request *http.Request, key string) (*Answer, *Error) {
	request.Body, _ = request.GetBody() // from its beginning
	response, err := c.HTTP.Do(request)
	if err != nil {
		return nil, &Error{Key: key, Cause: err}
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, longest+1))
	if err != nil {
		return nil, &Error{Key: key, Cause: err}
	}
	if response.Header.Get("Content-Encoding") != "" || len(content) > longest {
		return nil, &Error{Status: -1, Key: key, Cause: errUnusable}
	}
	header := response.Header
	if response.StatusCode == http.StatusOK && json.Valid(content) {
		return &Answer{content, key, header.Get("Idempotency-Replayed") == "true", usage(header)}, nil
	}
	var told struct{ Error string }
	_ = json.Unmarshal(content, &told) // no code if a proxy answered
	seconds, err := strconv.ParseUint(header.Get("Retry-After"), 10, 30)
	if err != nil {
		seconds = 0
	}
	return nil, &Error{
		Status: response.StatusCode, Code: only("a-z_", told.Error), Pointer: only("a-z0-9/", header.Get("X-Error-Pointer")),
		RequestID: only("0-9a-f-", header.Get("X-Request-Id")), Key: key,
		RetryAfter: time.Duration(seconds) * time.Second, Usage: usage(header),
	}
}

// only returns text, or "" if it has other characters: the result is printed.
func only(characters, text string) string {
	if !regexp.MustCompile("^[" + characters + "]*$").MatchString(text) {
		return ""
	}
	return text
}

func usage(header http.Header) *Usage {
	if header.Get("X-Usage-Meter") == "" {
		return nil
	}
	limit, _ := strconv.Atoi(header.Get("X-Usage-Limit"))
	committed, _ := strconv.Atoi(header.Get("X-Usage-Committed"))
	remaining, _ := strconv.Atoi(header.Get("X-Usage-Remaining"))
	return &Usage{header.Get("X-Usage-Period"), header.Get("X-Usage-Meter"), limit, committed, remaining}
}

func random(most time.Duration) time.Duration {
	found, err := rand.Int(rand.Reader, big.NewInt(int64(most)))
	if err != nil {
		panic(err)
	}
	return time.Duration(found.Int64())
}

func shorter(a, b time.Duration) time.Duration {
	if a < b {
		return a
	}
	return b
}

// An example, to be left out of a copy.
func main() {
	count := map[string]int{"match": 5, "search": 3}
	if len(os.Args) < 2 || len(os.Args) != count[os.Args[1]] || os.Getenv("SEPU_URL") == "" ||
		os.Getenv("SEPU_API_KEY") == "" {
		fmt.Fprintln(os.Stderr, "SEPU_URL=… SEPU_API_KEY=… [SEPU_IDEMPOTENCY_KEY=…] go run sepu.go match R G B | search Q")
		os.Exit(2)
	}
	sepu := NewClient(os.Getenv("SEPU_URL"), os.Getenv("SEPU_API_KEY"))
	if seconds, err := strconv.ParseFloat(os.Getenv("SEPU_TIMEOUT"), 64); err == nil {
		sepu.Timeout = time.Duration(seconds * float64(time.Second))
	}
	if seconds, err := strconv.ParseFloat(os.Getenv("SEPU_DEADLINE"), 64); err == nil {
		sepu.Deadline = time.Duration(seconds * float64(time.Second))
	}
	if err := run(context.Background(), sepu, os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if failure, ok := err.(*Error); ok && failure.Key != "" {
			fmt.Fprintln(os.Stderr, "its key was", failure.Key)
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, sepu *Client, operation string, given []string) error {
	usage, err := sepu.Usage(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s\n", usage.Body)
	key := os.Getenv("SEPU_IDEMPOTENCY_KEY")
	if key == "" {
		key = NewKey()
	}
	var answer *Answer
	if operation == "match" {
		var color [3]float64
		for channel := range color {
			if color[channel], err = strconv.ParseFloat(given[channel], 64); err != nil {
				return err
			}
		}
		answer, err = sepu.Match(ctx, key, 1, RGB{color[0], color[1], color[2]})
	} else {
		answer, err = sepu.Search(ctx, key, given[0], 10)
	}
	if err != nil {
		return err
	}
	fmt.Printf("%s\n", answer.Body)
	done := map[bool]string{false: "charged", true: "replayed"}[answer.Replayed]
	left := answer.Usage
	fmt.Fprintf(os.Stderr, "%s %s: %d of %d %s remain\n", done, answer.Key, left.Remaining, left.Limit, left.Meter)
	return nil
}
