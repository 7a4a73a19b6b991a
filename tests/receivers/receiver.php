<?php
// Receivers in PHP that verify wrongly. A receiver answers with what its code saw.

$body = file_get_contents("php://input");
$secret = getenv("SECRET");
$key = base64_decode(substr($secret, strlen("whsec_")));
$headers = array_change_key_case(getallheaders());
$head = ($headers["webhook-id"] ?? "") . "." . ($headers["webhook-timestamp"] ?? "") . ".";
$computed = null;

switch (parse_url($_SERVER["REQUEST_URI"], PHP_URL_PATH)) {
    // The body is decoded, and encoded again: PHP escapes slashes and characters beyond ASCII.
    case "/php/encode":
        $body = json_encode(json_decode($body));
        break;
    // `base64_decode` skips what it does not know, such as the underscore of the prefix.
    case "/php/prefix-decoded":
        $computed = "v1," . base64_encode(hash_hmac("sha256", $head . $body, base64_decode($secret), true));
        break;
    // Without the last argument, `hash_hmac` gives hex, which is then encoded in base64.
    case "/php/hex-in-base64":
        $computed = "v1," . base64_encode(hash_hmac("sha256", $head . $body, $key));
        break;
    // The variables of the server instead of the headers.
    case "/php/server":
        $headers = array_filter($_SERVER, fn ($name) => str_starts_with($name, "HTTP_"), ARRAY_FILTER_USE_KEY);
        break;
    // The hash of the secret and the body is no HMAC.
    case "/php/hash":
        $computed = hash("sha256", $secret . $body);
        break;
    // `utf8_decode` gives ISO 8859-1.
    case "/php/latin1":
        $body = @utf8_decode($body);
        break;
}
header("content-type: application/json");
echo json_encode(array_filter(
    ["error" => "not equal", "headers" => $headers, "body" => base64_encode($body), "computed" => $computed],
    fn ($value) => $value !== null,
));
