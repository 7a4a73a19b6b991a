export default {
  input: "openapi.json",
  output: "generated/hey-api",
  logs: { file: false, level: "warn" },
  plugins: ["@hey-api/client-fetch", "@hey-api/typescript", { name: "@hey-api/sdk", validator: true }, "zod"],
};
