<?php
// The receiver in PHP, for its own server.
if ($_SERVER["REQUEST_URI"] === "/crash") {
    throw new RuntimeException("the handler failed");
}
$signed = $_SERVER["HTTP_WEBHOOK_ID"] . "." . $_SERVER["HTTP_WEBHOOK_TIMESTAMP"] . "." . file_get_contents("php://input");
$expected = "v1," . base64_encode(hash_hmac("sha256", $signed, getenv("SECRET"), true));
$matches = array_filter(explode(" ", $_SERVER["HTTP_WEBHOOK_SIGNATURE"]), fn($one) => hash_equals($expected, $one));
http_response_code($matches ? 204 : 401);
