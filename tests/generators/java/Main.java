import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import sepu.ApiClient;
import sepu.ApiException;
import sepu.ApiResponse;
import sepu.api.AccountApi;
import sepu.api.ColorsApi;
import sepu.model.*;

/** Calls the generated client: reads a JSON request per line, and prints its answer on one. */
public class Main {
    static final ObjectMapper JSON = ApiClient.createDefaultObjectMapper();

    static class Request {
        public String url, key, operation, idempotencyKey, q;
        public List<RGB> colors;
        public Integer top, limit;
    }

    static ApiResponse<?> call(Request given) throws ApiException {
        ApiClient client = new ApiClient();
        client.updateBaseUri(given.url);
        client.setRequestInterceptor(request -> request.header("Authorization", "Bearer " + given.key));
        ColorsApi colors = new ColorsApi(client);
        switch (given.operation) {
            case "matchColors":
                MatchRequest body = new MatchRequest().colors(given.colors).top(given.top);
                return colors.matchColorsWithHttpInfo(given.idempotencyKey, body);
            case "searchColors":
                return colors.searchColorsWithHttpInfo(given.idempotencyKey, given.q, given.limit);
            case "getLibrary":
                return colors.getLibraryWithHttpInfo();
            default:
                return new AccountApi(client).getUsageWithHttpInfo();
        }
    }

    /** With this library of the generator, the caller must read an error's body. */
    static Object error(Request given, ApiException refused) throws Exception {
        boolean match = given.operation.equals("matchColors");
        boolean metered = match || given.operation.equals("searchColors");
        Class<?> model = switch (refused.getCode()) {
            case 401 -> UnauthorizedError.class;
            case 409 -> IdempotencyConflictError.class;
            case 422 -> match ? MatchInputError.class : SearchInputError.class;
            case 429 -> metered ? RateLimitedOrQuotaExceededError.class : RateLimitedError.class;
            default -> OtherError.class;
        };
        return JSON.readValue(refused.getResponseBody(), model);
    }

    static String code(Object model) {
        if (model instanceof UnauthorizedError found) return found.getError().getValue();
        if (model instanceof IdempotencyConflictError found) return found.getError().getValue();
        if (model instanceof MatchInputError found) return found.getError().getValue();
        if (model instanceof SearchInputError found) return found.getError().getValue();
        if (model instanceof RateLimitedError found) return found.getError().getValue();
        if (model instanceof RateLimitedOrQuotaExceededError found) return found.getError().getValue();
        if (model instanceof OtherError found) return found.getError();
        return "";
    }

    static Map<String, Object> answer(Request given) throws Exception {
        int status;
        Map<String, List<String>> headers;
        Object body;
        try {
            ApiResponse<?> response = call(given);
            status = response.getStatusCode();
            headers = response.getHeaders();
            body = response.getData();
        } catch (ApiException refused) {
            if (refused.getCode() == 0) throw refused;
            status = refused.getCode();
            headers = refused.getResponseHeaders().map();
            body = error(given, refused);
        }
        Map<String, String> first = new LinkedHashMap<>();
        headers.forEach((name, values) -> first.put(name.toLowerCase(), values.get(0)));
        return Map.of("status", status, "headers", first, "type", body.getClass().getSimpleName(), "code", code(body),
                "body", body);
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream output = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line; (line = input.readLine()) != null; ) {
            output.println(JSON.writeValueAsString(answer(JSON.readValue(line, Request.class))));
        }
    }
}
