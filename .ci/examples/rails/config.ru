# A Rails application with only the controller of the example.
require "rails"
require "action_controller/railtie"

class Application < Rails::Application
  config.eager_load = false
  config.secret_key_base = "x" * 64
  config.logger = Logger.new($stderr)
  config.hosts.clear
end

require_relative "webhooks_controller"
Application.initialize!
Application.routes.draw { post "/webhooks", to: "webhooks#receive" }
run Application
