<?php
// Calls sepu from PHP 8.1 or later with its curl extension. Keep one Sepu for all calls.

declare(strict_types=1);

final class SepuError extends RuntimeException
{
    /**
     * status is 0 without a response, -1 with an unusable one; error is null if a proxy answered; usage comes with
     * quota_exceeded. pointer leads to the fault in an input: /colors/2/g
     */
    public function __construct(
        string $message,
        public readonly ?string $key,
        public readonly int $status = 0,
        public readonly ?string $error = null,
        public readonly ?string $requestId = null,
        public readonly int $retryAfter = 0,
        public readonly ?array $usage = null,
        public readonly ?string $pointer = null,
    ) {
        parent::__construct($message);
    }

    public function retryable(): bool
    {
        return $this->status === 0 || $this->status === 408 || $this->status >= 500
            || $this->error === 'request_in_progress' || ($this->status === 429 && $this->error !== 'quota_exceeded');
    }
}

final class Sepu
{
    private const LONGEST = 1 << 20; // bytes of an answer

    private CurlHandle $curl;

    /** $timeout is for one attempt, $deadline for all attempts of a call and their pauses, in seconds. */
    public function __construct(
        private string $url,
        #[SensitiveParameter] private string $apiKey,
        private float $timeout = 10,
        private float $deadline = 60,
    ) {
        if (!preg_match('#^https?://#', $url)) {
            throw new InvalidArgumentException('the URL must begin with http:// or https://');
        }
        $this->url = rtrim($url, '/');
        $this->apiKey = trim($apiKey);
        $this->curl = curl_init();
    }

    /** Keeps the API key out of var_dump and print_r. */
    public function __debugInfo(): array
    {
        return ['url' => $this->url];
    }

    /** Makes an idempotency key. If the intent outlives this process, store the key with it. */
    public static function newKey(): string
    {
        return bin2hex(random_bytes(16));
    }

    /** $colors: one to five [r, g, b], each from 0 to 255. */
    public function match(array $colors, int $top = 1, ?string $key = null): array
    {
        $named = array_map(fn (array $rgb): array => array_combine(['r', 'g', 'b'], $rgb), $colors);
        $body = json_encode(['colors' => $named, 'top' => $top], JSON_THROW_ON_ERROR);
        return $this->call('/v1/match', $key ?? self::newKey(), $body);
    }

    public function search(string $q, int $limit = 10, ?string $key = null): array
    {
        return $this->call('/v1/search?' . http_build_query(['q' => $q, 'limit' => $limit]), $key ?? self::newKey());
    }

    public function usage(): array
    {
        return $this->call('/v1/usage');
    }

    /** Sends the same request with the same key until there is an answer or the deadline is near. */
    private function call(string $path, ?string $key = null, ?string $body = null): array
    {
        if (preg_match('/[^!-~]/', $this->apiKey . $key)) {
            throw new InvalidArgumentException('a key has characters that no header may have');
        }
        $end = self::now() + $this->deadline;
        for ($most = 0.25;; $most = min(2 * $most, 8)) {
            try {
                return $this->attempt($path, $key, $body, min($this->timeout, $end - self::now()));
            } catch (SepuError $error) {
                $pause = $error->retryAfter + $most * random_int(0, 1000) / 1000;
                if (!$error->retryable() || self::now() + $pause >= $end) {
                    throw $error;
                }
                usleep((int) (1e6 * $pause));
            }
        }
    }

    private static function now(): float
    {
        return hrtime(true) / 1e9; // not the wall clock, which may be set
    }

    private function attempt(string $path, ?string $key, ?string $body, float $seconds): array
    {
        $headers = [];
        $text = '';
        $length = 0;
        curl_reset($this->curl); // keeps its connection
        curl_setopt_array($this->curl, [
            CURLOPT_URL => $this->url . $path,
            CURLOPT_HTTPHEADER => array_merge(
                ["Authorization: Bearer $this->apiKey"],
                $key === null ? [] : ["Idempotency-Key: $key"],
                $body === null ? [] : ['Content-Type: application/json'],
            ),
            CURLOPT_HEADERFUNCTION => function (CurlHandle $curl, string $line) use (&$headers, &$length): int {
                $length += strlen($line);
                [$name, $value] = explode(':', $line, 2) + [1 => ''];
                $headers[strtolower($name)] = trim($value);
                return $length > self::LONGEST ? 0 : strlen($line); // 0 aborts it
            },
            CURLOPT_WRITEFUNCTION => function (CurlHandle $curl, string $part) use (&$text, &$length): int {
                $length += strlen($part);
                $text .= $part;
                return $length > self::LONGEST ? 0 : strlen($part);
            },
            CURLOPT_TIMEOUT_MS => max(1, (int) (1000 * $seconds)),
        ]);
        if ($body !== null) {
            curl_setopt($this->curl, CURLOPT_POSTFIELDS, $body);
        }
        $whole = curl_exec($this->curl);
        if ($length > self::LONGEST || isset($headers['content-encoding'])) {
            throw new SepuError('the answer is compressed or too long', $key, -1);
        }
        if (!$whole) {
            throw new SepuError('no answer (' . curl_error($this->curl) . ')', $key);
        }
        $status = curl_getinfo($this->curl, CURLINFO_RESPONSE_CODE);
        $json = json_decode($text, true);
        $usage = isset($headers['x-usage-meter']) ? self::usageOf($headers) : null;
        if ($status === 200 && is_array($json)) {
            $replayed = ($headers['idempotency-replayed'] ?? '') === 'true';
            return ['body' => $json, 'key' => $key, 'replayed' => $replayed, 'usage' => $usage];
        }
        $told = is_array($json) && is_string($json['error'] ?? null) ? $json['error'] : '';
        $error = preg_match('/^[a-z_]+$/D', $told) ? $told : null;
        $requestId = preg_match('/^[0-9a-f-]+$/D', $headers['x-request-id'] ?? '') ? $headers['x-request-id'] : null;
        $after = $headers['retry-after'] ?? '';
        $after = preg_match('/^\d{1,9}$/D', $after) ? (int) $after : 0;
        $pointer = $headers['x-error-pointer'] ?? '';
        $pointer = preg_match('#^/[a-z0-9/]+$#D', $pointer) ? $pointer : null;
        $message = "$status $error" . ($pointer === null ? '' : " at $pointer") . " (request id $requestId)";
        throw new SepuError($message, $key, $status, $error, $requestId, $after, $usage, $pointer);
    }

    private static function usageOf(array $headers): array
    {
        $usage = ['period' => $headers['x-usage-period'], 'meter' => $headers['x-usage-meter']];
        foreach (['limit', 'committed', 'remaining'] as $name) {
            $usage[$name] = (int) $headers["x-usage-$name"];
        }
        return $usage;
    }
}

// An example, to be left out of a copy.
if (!getenv('SEPU_URL') || !getenv('SEPU_API_KEY') || $argc !== (['match' => 5, 'search' => 3][$argv[1] ?? ''] ?? 0)) {
    fwrite(STDERR, "SEPU_URL=… SEPU_API_KEY=… [SEPU_IDEMPOTENCY_KEY=…] php sepu.php match R G B | search Q\n");
    exit(2);
}
$timeout = (float) (getenv('SEPU_TIMEOUT') ?: 10);
$deadline = (float) (getenv('SEPU_DEADLINE') ?: 60);
$sepu = new Sepu(getenv('SEPU_URL'), getenv('SEPU_API_KEY'), $timeout, $deadline);
[, $operation] = $argv;
$given = array_slice($argv, 2);
try {
    fwrite(STDERR, json_encode($sepu->usage()['body']['usage']) . "\n");
    $own = getenv('SEPU_IDEMPOTENCY_KEY') ?: null;
    $answer = $operation === 'match'
        ? $sepu->match([array_map(floatval(...), $given)], key: $own)
        : $sepu->search($given[0], key: $own);
    echo json_encode($answer['body'], JSON_UNESCAPED_UNICODE), "\n";
    ['key' => $key, 'usage' => $usage] = $answer;
    $done = $answer['replayed'] ? 'replayed' : 'charged';
    fwrite(STDERR, "$done $key: {$usage['remaining']} of {$usage['limit']} {$usage['meter']} remain\n");
} catch (SepuError $error) {
    fwrite(STDERR, $error->getMessage() . ($error->key === null ? '' : "; its key was $error->key") . "\n");
    exit(1);
}
