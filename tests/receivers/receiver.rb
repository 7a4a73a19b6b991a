# Receivers in Ruby that verify wrongly, with Rack. A receiver answers with what its code saw.

require "base64"
require "json"
require "openssl"
require "rack"
require "stringio"

SECRET = ENV.fetch("SECRET")

run lambda { |env|
  headers = env.select { |name, _| name.start_with?("HTTP_") }.to_h { |name, value| [name[5..].downcase.tr("_", "-"), value] }
  body = env["rack.input"].read
  head = "#{headers["webhook-id"]}.#{headers["webhook-timestamp"]}."
  hmac = ->(key, content) { OpenSSL::HMAC.digest("SHA256", key, content) }
  answer = { error: "not equal", headers: headers, body: body }
  case env["PATH_INFO"]
  # The body is parsed, and written again.
  when "/ruby/to-json" then answer[:body] = JSON.parse(body).to_json
  when "/ruby/pretty" then answer[:body] = JSON.pretty_generate(JSON.parse(body))
  # `strict_decode64` would have refused the prefix.
  when "/ruby/prefix-decoded"
    answer[:computed] = "v1,#{Base64.strict_encode64(hmac.(Base64.decode64(SECRET), head + body))}"
  # `encode64` breaks lines after 60 characters, and ends with a line feed.
  when "/ruby/encode64"
    answer[:computed] = "v1,#{Base64.encode64(hmac.(Base64.decode64(SECRET.delete_prefix("whsec_")), head + body))}"
  # The environment of Rack instead of the headers.
  when "/ruby/environment" then answer[:headers] = env.select { |name, _| name.start_with?("HTTP_") }
  # A middleware has read the input, and the code reads it again.
  when "/ruby/read-twice" then answer[:body] = env["rack.input"].read.to_s
  # The result of `inspect` instead of JSON.
  when "/ruby/interpolated"
    answer[:computed] = "v1,#{Base64.strict_encode64(hmac.(SECRET, "#{head}#{JSON.parse(body)}"))}"
  end
  answer[:body] = Base64.strict_encode64(answer[:body])
  [200, { "content-type" => "application/json" }, [answer.to_json]]
}
