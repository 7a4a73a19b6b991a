# The receiver in Ruby, for Puma.
require "openssl"

SECRET = ENV.fetch("SECRET")

run(lambda do |env|
  raise "the handler failed" if env["PATH_INFO"] == "/crash"

  signed = [env["HTTP_WEBHOOK_ID"], env["HTTP_WEBHOOK_TIMESTAMP"], env["rack.input"].read].join(".")
  expected = "v1," + [OpenSSL::HMAC.digest("SHA256", SECRET, signed)].pack("m0")
  valid = env["HTTP_WEBHOOK_SIGNATURE"].to_s.split.any? { |one| one.bytesize == expected.bytesize && OpenSSL.fixed_length_secure_compare(one, expected) }
  [valid ? 204 : 401, {}, []]
end)
