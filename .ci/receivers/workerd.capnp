using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [(name = "receiver", worker = .receiver)],
  sockets = [(name = "http", http = (), service = "receiver")]
);

const receiver :Workerd.Worker = (
  modules = [(name = "worker.mjs", esModule = embed "worker.mjs"), (name = "verify.mjs", esModule = embed "verify.mjs")],
  bindings = [(name = "SECRET", fromEnvironment = "SECRET"), (name = "PORT", fromEnvironment = "PORT")],
  compatibilityDate = "2026-01-01",
  compatibilityFlags = ["nodejs_compat", "nodejs_compat_populate_process_env"]
);
