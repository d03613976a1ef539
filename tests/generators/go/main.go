// Calls the generated client: reads a JSON request per line, and prints its answer on one.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"sepu/colors"
)

type request struct {
	URL, Key, Operation, IdempotencyKey, Q string
	Colors                                 []colors.RGB
	Top, Limit                             *int32
}

type answer struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Type    string            `json:"type"`
	Code    string            `json:"code"`
	Body    any               `json:"body"`
}

func call(given request) (any, *http.Response, error) {
	settings := colors.NewConfiguration()
	settings.Servers = colors.ServerConfigurations{{URL: given.URL}}
	client := colors.NewAPIClient(settings)
	ctx := context.WithValue(context.Background(), colors.ContextAccessToken, given.Key)
	switch given.Operation {
	case "matchColors":
		body := colors.NewMatchRequest(given.Colors)
		body.Top = given.Top
		return client.ColorsAPI.MatchColors(ctx).IdempotencyKey(given.IdempotencyKey).MatchRequest(*body).Execute()
	case "searchColors":
		search := client.ColorsAPI.SearchColors(ctx).IdempotencyKey(given.IdempotencyKey).Q(given.Q)
		if given.Limit != nil {
			search = search.Limit(*given.Limit)
		}
		return search.Execute()
	case "getLibrary":
		return client.ColorsAPI.GetLibrary(ctx).Execute()
	default:
		return client.AccountAPI.GetUsage(ctx).Execute()
	}
}

// The code of a typed error.
func code(model any) string {
	switch found := model.(type) {
	case colors.UnauthorizedError:
		return found.Error
	case colors.IdempotencyConflictError:
		return found.Error
	case colors.MatchInputError:
		return found.Error
	case colors.SearchInputError:
		return found.Error
	case colors.RateLimitedError:
		return found.Error
	case colors.RateLimitedOrQuotaExceededError:
		return found.Error
	case colors.OtherError:
		return found.Error
	default:
		return ""
	}
}

func main() {
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 1<<20)
	output := json.NewEncoder(os.Stdout)
	for input.Scan() {
		var given request
		if err := json.Unmarshal(input.Bytes(), &given); err != nil {
			panic(err)
		}
		body, response, err := call(given)
		if response == nil {
			panic(err)
		}
		told := answer{Status: response.StatusCode, Headers: map[string]string{}, Body: body}
		for name, values := range response.Header {
			told.Headers[strings.ToLower(name)] = values[0]
		}
		var refused *colors.GenericOpenAPIError
		if errors.As(err, &refused) && refused.Model() != nil {
			told.Body, told.Code = refused.Model(), code(refused.Model())
		} else if err != nil {
			panic(err)
		}
		_, told.Type, _ = strings.Cut(fmt.Sprintf("%T", told.Body), "colors.")
		if err := output.Encode(told); err != nil {
			panic(err)
		}
	}
}
