// Calls sepu from Java 17 or later, with the standard library only. Keep one Sepu for all calls; threads can share it.

import java.io.ByteArrayOutputStream;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Flow;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

public final class Sepu {
    /** The meter after a call. */
    public record Usage(String period, String meter, int limit, int committed, int remaining) {}

    /** The JSON of an answer. It is replayed if an earlier attempt or call was charged. */
    public record Answer(String body, String key, boolean replayed, Usage usage) {}

    /** Why there is no answer. To repeat a call, use its key. status is 0 without a response, -1 if it is unusable. */
    public static final class Failure extends Exception {
        public final int status;
        public final String code; // null if a proxy answered
        public final String pointer; // to the fault in an input, or null: /colors/2/g
        public final String requestId;
        public final String key;
        public final Usage usage; // with quota_exceeded
        final Duration retryAfter;

        Failure(
                String message, int status, String code, String pointer, String requestId, String key,
                Duration retryAfter, Usage usage) {
            super(message);
            this.status = status;
            this.code = code;
            this.pointer = pointer;
            this.requestId = requestId;
            this.key = key;
            this.retryAfter = retryAfter;
            this.usage = usage;
        }

        boolean retryable() {
            return status == 0 || status == 408 || status >= 500 || "request_in_progress".equals(code)
                    || (status == 429 && !"quota_exceeded".equals(code));
        }
    }

    private static final int LONGEST = 1 << 20; // bytes of an answer

    private static final Pattern CODE = Pattern.compile("\"error\":\"(\\w+)\"");

    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final String url;
    private final String apiKey;
    private final Duration timeout;
    private final Duration deadline;

    /** The timeout is for one attempt, the deadline for all attempts of a call and their pauses. */
    public Sepu(String url, String apiKey, Duration timeout, Duration deadline) {
        if (!url.matches("https?://.+")) {
            throw new IllegalArgumentException("the URL must begin with http:// or https://");
        }
        this.url = url.replaceAll("/+$", "");
        this.apiKey = apiKey.strip();
        this.timeout = timeout;
        this.deadline = deadline;
    }

    /** Makes an idempotency key. If the intent outlives this process, store the key with it. */
    public static String newKey() {
        return UUID.randomUUID().toString();
    }

    /** Finds the colours nearest to each of the one to five {r, g, b} given, with channels from 0 to 255. */
    public Answer match(String key, int top, double[]... colors) throws Failure, InterruptedException {
        String list = Arrays.stream(colors)
                .map(rgb -> "{\"r\":" + rgb[0] + ",\"g\":" + rgb[1] + ",\"b\":" + rgb[2] + "}")
                .collect(Collectors.joining(","));
        return call("POST", "/v1/match", key, "{\"colors\":[" + list + "],\"top\":" + top + "}");
    }

    /** Finds colours by name. */
    public Answer search(String key, String q, int limit) throws Failure, InterruptedException {
        String query = "?limit=" + limit + "&q=" + URLEncoder.encode(q, StandardCharsets.UTF_8);
        return call("GET", "/v1/search" + query, key, "");
    }

    /** Reads all meters. It is free. */
    public Answer usage() throws Failure, InterruptedException {
        return call("GET", "/v1/usage", null, "");
    }

    /** Sends the same request with the same key until there is an answer or the deadline is near. */
    private Answer call(String method, String path, String key, String body) throws Failure, InterruptedException {
        if (!(apiKey + (key == null ? "" : key)).matches("[!-~]*")) { // HttpRequest's error would show the key
            throw new IllegalArgumentException("a key has characters that no header may have");
        }
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path))
                .header("Authorization", "Bearer " + apiKey)
                .header("Accept-Encoding", "identity")
                .method(method, HttpRequest.BodyPublishers.ofString(body));
        if (key != null) {
            request.header("Idempotency-Key", key);
        }
        if (!body.isEmpty()) {
            request.header("Content-Type", "application/json");
        }
        long end = System.nanoTime() + deadline.toNanos();
        for (long most = 250; ; most = Math.min(2 * most, 8000)) {
            try {
                return attempt(request.build(), key, Math.min(timeout.toNanos(), end - System.nanoTime()));
            } catch (Failure failure) {
                long pause = failure.retryAfter.toMillis() + ThreadLocalRandom.current().nextLong(most);
                if (!failure.retryable() || System.nanoTime() + pause * 1_000_000 >= end) {
                    throw failure;
                }
                Thread.sleep(pause);
            }
        }
    }

    private Answer attempt(HttpRequest request, String key, long nanoseconds) throws Failure, InterruptedException {
        var sent = http.sendAsync(request, response -> new Limited());
        HttpResponse<String> response;
        try {
            response = sent.get(nanoseconds, TimeUnit.NANOSECONDS); // HttpRequest.timeout would not cover the body
        } catch (ExecutionException | TimeoutException error) {
            Throwable reason = error.getCause() == null ? error : error.getCause();
            throw new Failure("no answer (" + reason + ")", 0, null, null, null, key, Duration.ZERO, null);
        } finally {
            sent.cancel(true); // the next attempt must be the only one
        }
        HttpHeaders headers = response.headers();
        if (response.body() == null || headers.firstValue("Content-Encoding").isPresent()) {
            throw new Failure("the answer is compressed or too long", -1, null, null, null, key, Duration.ZERO, null);
        }
        int status = response.statusCode();
        if (status == 200 && response.body().startsWith("{")) {
            boolean replayed = headers.firstValue("Idempotency-Replayed").isPresent();
            return new Answer(response.body(), key, replayed, usage(headers));
        }
        Matcher found = CODE.matcher(response.body());
        String code = found.find() ? found.group(1) : null;
        String pointer = headers.firstValue("X-Error-Pointer").filter(at -> at.matches("/[a-z0-9/]+")).orElse(null);
        String requestId = headers.firstValue("X-Request-Id").filter(id -> id.matches("[0-9a-f-]+")).orElse(null);
        Duration retryAfter = Duration.ofSeconds(number(headers, "Retry-After"));
        String place = pointer == null ? "" : " at " + pointer;
        String message = status + " " + code + place + " (request id " + requestId + ")";
        throw new Failure(message, status, code, pointer, requestId, key, retryAfter, usage(headers));
    }

    /** Reads a body, or null in place of one that is too long. */
    private static final class Limited implements HttpResponse.BodySubscriber<String> {
        private final CompletableFuture<String> whole = new CompletableFuture<>();
        private final ByteArrayOutputStream read = new ByteArrayOutputStream();
        private Flow.Subscription subscription;

        public CompletionStage<String> getBody() {
            return whole;
        }

        public void onSubscribe(Flow.Subscription given) {
            subscription = given;
            given.request(Long.MAX_VALUE);
        }

        public void onNext(List<ByteBuffer> parts) {
            for (ByteBuffer part : parts) {
                if (read.size() + part.remaining() > LONGEST) {
                    subscription.cancel();
                    whole.complete(null);
                    return;
                }
                byte[] bytes = new byte[part.remaining()];
                part.get(bytes);
                read.write(bytes, 0, bytes.length);
            }
        }

        public void onError(Throwable error) {
            whole.completeExceptionally(error);
        }

        public void onComplete() {
            whole.complete(read.toString(StandardCharsets.UTF_8));
        }
    }

    private static Usage usage(HttpHeaders headers) {
        String meter = headers.firstValue("X-Usage-Meter").orElse(null);
        return meter == null ? null : new Usage(
                headers.firstValue("X-Usage-Period").orElse(null), meter, number(headers, "X-Usage-Limit"),
                number(headers, "X-Usage-Committed"), number(headers, "X-Usage-Remaining"));
    }

    private static int number(HttpHeaders headers, String name) {
        return headers.firstValue(name).filter(value -> value.matches("\\d{1,10}"))
                .map(value -> (int) Math.min(Long.parseLong(value), Integer.MAX_VALUE)).orElse(0);
    }

    /** An example, to be left out of a copy. */
    public static void main(String[] given) throws InterruptedException {
        Map<String, String> settings = System.getenv();
        boolean match = given.length > 0 && given[0].equals("match");
        boolean search = given.length > 0 && given[0].equals("search");
        if (!(match && given.length == 4 || search && given.length == 2)
                || !settings.keySet().containsAll(List.of("SEPU_URL", "SEPU_API_KEY"))) {
            System.err.println(
                    "SEPU_URL=... SEPU_API_KEY=... [SEPU_IDEMPOTENCY_KEY=...] java Sepu.java match R G B | search Q");
            System.exit(2);
        }
        Sepu sepu = new Sepu(
                settings.get("SEPU_URL"), settings.get("SEPU_API_KEY"),
                Duration.ofMillis((long) (1000 * Double.parseDouble(settings.getOrDefault("SEPU_TIMEOUT", "10")))),
                Duration.ofMillis((long) (1000 * Double.parseDouble(settings.getOrDefault("SEPU_DEADLINE", "60")))));
        String key = settings.getOrDefault("SEPU_IDEMPOTENCY_KEY", newKey());
        try {
            System.err.println(sepu.usage().body());
            double[] color = match ? Arrays.stream(given, 1, 4).mapToDouble(Double::parseDouble).toArray() : null;
            Answer answer = match ? sepu.match(key, 1, color) : sepu.search(key, given[1], 10);
            System.out.println(answer.body());
            Usage usage = answer.usage();
            System.err.printf("%s %s: %d of %d %s remain%n", answer.replayed() ? "replayed" : "charged", key,
                    usage.remaining(), usage.limit(), usage.meter());
        } catch (Failure failure) {
            System.err.println(failure.getMessage() + (failure.key == null ? "" : "; its key was " + failure.key));
            System.exit(1);
        }
    }
}
