#!/bin/bash
# The AWS CDK 2.276.0 (aws-cdk-lib) changes a template of SAM that CfnInclude includes: it splits a route with a dot in
# `RouteSettings` of AWS::Serverless::HttpApi, so "GET /favicon.ico" becomes the route "GET /favicon" with the setting "ico",
# without a warning. The same map in AWS::ApiGatewayV2::Stage is kept. It also rejects a template that refers to a resource
# which SAM generates, such as the role of a function. Hurt: operators who deploy a SAM application as a part of their CDK
# application, which is then not the application of the template.
# Source: https://docs.aws.amazon.com/cdk/v2/guide/use-cfn-template.html
# Usage: findings/cdk-include-routes.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts aws-cdk-lib@2.276.0 constructs@10.8.1
cat > include.cjs <<'NODE'
const { writeFileSync } = require("node:fs");
const { App, Stack } = require("aws-cdk-lib");
const { CfnInclude } = require("aws-cdk-lib/cloudformation-include");

const settings = { "GET /favicon.ico": { ThrottlingBurstLimit: 5 }, "GET /icon": { ThrottlingBurstLimit: 6 } };
const Hello = { Type: "AWS::Serverless::Function", Properties: { Runtime: "python3.12", Handler: "a.b", InlineCode: "" } };
const templates = {
  "AWS::Serverless::HttpApi": { Resources: { Api: { Type: "AWS::Serverless::HttpApi", Properties: { RouteSettings: settings } } } },
  "AWS::ApiGatewayV2::Stage": {
    Resources: { Api: { Type: "AWS::ApiGatewayV2::Stage", Properties: { ApiId: "a", StageName: "s", RouteSettings: settings } } },
  },
  "generated role": { Resources: { Hello }, Outputs: { Role: { Value: { Ref: "HelloRole" } } } },
};
const expected = {
  "AWS::Serverless::HttpApi": { "GET /favicon": { ico: { ThrottlingBurstLimit: 5 } }, "GET /icon": { ThrottlingBurstLimit: 6 } },
  "AWS::ApiGatewayV2::Stage": settings,
  "generated role": "Element used in Ref expression with logical ID: 'HelloRole' not found",
};
for (const [name, template] of Object.entries(templates)) {
  writeFileSync("template.json", JSON.stringify({ Transform: "AWS::Serverless-2016-10-31", ...template }));
  const app = new App({ outdir: "out" });
  const stack = new Stack(app, "Stack");
  let found;
  try {
    new CfnInclude(stack, "Included", { templateFile: "template.json" });
    found = app.synth().getStackByName("Stack").template.Resources.Api.Properties.RouteSettings;
  } catch (error) {
    found = error.message;
  }
  console.log(`${name}: ${JSON.stringify(found)}`);
  if (JSON.stringify(found) !== JSON.stringify(expected[name])) process.exit(1);
}
NODE
node include.cjs 2> log || { cat log; exit 1; }
