#!/bin/bash
# A receiver's tracer that records each request records none of the events whose `traceparent` ends with 00: the sender
# did not record its own trace, and the tracers of OpenTelemetry (JavaScript 2.12.1, Python 1.45.1), Elastic APM 4.18.0
# and Datadog 5.132.0 for Node.js follow the sender's decision, whatever sender it is. With 01, they record each event,
# even with a ratio of 0. Hurt: receivers of webhooks that pass on the trace of a job: where the sender records one job
# in a hundred, 99 of 100 events are missing in the receiver's traces, rates and alarms, or all are paid for. Setting
# the sampler `AlwaysOnSampler`, Elastic's `traceContinuationStrategy: "restart_external"` or Datadog's
# `DD_TRACE_PROPAGATION_BEHAVIOR_EXTRACT=restart` makes the decision the receiver's own again.
# Source: https://opentelemetry.io/docs/specs/otel/trace/sdk/#parentbased
# Usage: findings/unsampled-traces.sh. Needs Node.js 20, npm's registry, Python 3.11 with pip, and PyPI. Fails if the
# behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts @opentelemetry/sdk-trace-node@2.12.1 dd-trace@5.132.0 \
  @opentelemetry/instrumentation-http@0.223.0 @opentelemetry/instrumentation@0.223.0 elastic-apm-node@4.18.0
python3 -m venv python
python/bin/pip install --quiet --disable-pip-version-check Flask==3.1.3 opentelemetry-sdk==1.45.1 \
  opentelemetry-instrumentation-flask==0.66b1
cat > receiver.cjs <<'NODE'
// Prints the number of recorded requests of three each: without a trace, with one that is recorded, and with one that
// is not.
const [tracer, setting] = process.argv.slice(2);

const tracers = {
  async opentelemetry() {
    const sdk = require("@opentelemetry/sdk-trace-node");
    const { registerInstrumentations } = require("@opentelemetry/instrumentation");
    const { HttpInstrumentation } = require("@opentelemetry/instrumentation-http");
    const samplers = {
      default: undefined,
      "ratio 0": new sdk.ParentBasedSampler({ root: new sdk.TraceIdRatioBasedSampler(0) }),
      own: new sdk.AlwaysOnSampler(),
    };
    const exporter = new sdk.InMemorySpanExporter();
    const spanProcessors = [new sdk.SimpleSpanProcessor(exporter)];
    new sdk.NodeTracerProvider({ sampler: samplers[setting], spanProcessors }).register();
    registerInstrumentations({ instrumentations: [new HttpInstrumentation()] });
    return { count: () => exporter.getFinishedSpans().length };
  },
  async elastic() {
    const options = {
      default: {},
      "ratio 0": { transactionSampleRate: 0 },
      own: { traceContinuationStrategy: "restart_external" },
    };
    const apm = require("elastic-apm-node").start({
      serviceName: "receiver",
      disableSend: true,
      metricsInterval: "0s",
      centralConfig: false,
      cloudProvider: "none",
      logLevel: "off",
      ...options[setting],
    });
    return { isRecorded: () => apm.currentTransaction.sampled };
  },
  async datadog() {
    process.env.DD_REMOTE_CONFIGURATION_ENABLED = process.env.DD_INSTRUMENTATION_TELEMETRY_ENABLED = "false";
    process.env.DD_TRACE_STARTUP_LOGS = "false";
    if (setting === "ratio 0") process.env.DD_TRACE_SAMPLE_RATE = "0";
    if (setting === "own") process.env.DD_TRACE_PROPAGATION_BEHAVIOR_EXTRACT = "restart";
    const tracer = require("dd-trace").init({ url: "http://127.0.0.1:9" });
    // The last two digits are the decision, which Datadog's agent follows.
    return { isRecorded: () => tracer.scope().active().context().toTraceparent().endsWith("01") };
  },
};

async function main() {
  let recorded = 0;
  const { count = () => recorded, isRecorded = () => false } = await tracers[tracer]();
  const http = require("node:http");
  const { connect } = require("node:net");
  const receiver = http.createServer((request, response) => {
    recorded += isRecorded() ? 1 : 0;
    request.resume().on("end", () => response.writeHead(204).end());
  });
  await new Promise((done) => receiver.listen(0, "127.0.0.1", done));
  // A socket instead of a client, which the tracers would trace as well.
  const post = (trace) =>
    new Promise((done, fail) => {
      const socket = connect(receiver.address().port, "127.0.0.1");
      socket.on("error", fail).on("close", done).resume();
      socket.write(`POST /hook HTTP/1.1\r\nhost: receiver\r\nconnection: close\r\n${trace}content-length: 2\r\n\r\n{}`);
    });
  const found = [];
  for (const flags of ["", "01", "00"]) {
    const before = count();
    const trace = flags && `traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-${flags}\r\n`;
    for (let i = 0; i < 3; i++) await post(trace);
    found.push(`${flags || "none"} ${count() - before}`);
  }
  console.log(`${tracer}, ${setting}: ${found.join(", ")}`);
  process.exit();
}

main();
NODE
cat > receiver.py <<'PYTHON'
from flask import Flask
from opentelemetry.instrumentation.flask import FlaskInstrumentor
from opentelemetry.sdk.trace import TracerProvider, sampling
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

samplers = {"default": None, "ratio 0": sampling.ParentBasedTraceIdRatio(0), "own": sampling.ALWAYS_ON}
for setting, sampler in samplers.items():
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=sampler)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app = Flask(setting)
    app.add_url_rule("/hook", view_func=lambda: ("", 204), methods=["POST"])
    FlaskInstrumentor().instrument_app(app, tracer_provider=provider)
    found = []
    for flags in ["none", "01", "00"]:
        exporter.clear()
        trace = {"traceparent": f"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}"}
        for _ in range(3):
            app.test_client().post("/hook", json={}, headers={} if flags == "none" else trace)
        found.append(f"{flags} {len(exporter.get_finished_spans())}")
    print(f"opentelemetry-python, {setting}: {', '.join(found)}")
PYTHON
for tracer in opentelemetry elastic datadog; do
  for setting in default "ratio 0" own; do node receiver.cjs "$tracer" "$setting"; done
done | tee seen
python/bin/python receiver.py | tee --append seen
for tracer in opentelemetry elastic datadog opentelemetry-python; do
  grep --quiet --line-regexp "$tracer, default: none 3, 01 3, 00 0" seen
  grep --quiet --line-regexp "$tracer, ratio 0: none 0, 01 3, 00 0" seen
  grep --quiet --line-regexp "$tracer, own: none 3, 01 3, 00 3" seen
done
