#!/bin/bash
# cdk-from-cfn 0.336.0, which `cdk migrate` uses, drops `UpdateReplacePolicy` when it turns a template of CloudFormation
# into an application of the AWS CDK in TypeScript or Python, and in C# `DeletionPolicy`, too. The application's
# template then says nothing about it, and CloudFormation deletes a queue or a table after a replacement, such as after
# a change of its name or key, or, from C#, with the stack. In Java, both policies remain. aws-cdk-lib 2.276.0 only
# warns at each synthesis that both are needed. Hurt: operators who migrate a stack with queues and tables that are to
# be retained: the first change that replaces a queue deletes it with its events.
# `applyRemovalPolicy(RemovalPolicy.RETAIN)` on each such resource sets both policies.
# Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-updatereplacepolicy.html
# Usage: findings/cdk-migrate-policies.sh. Needs Node.js 20 and npm's registry. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts aws-cdk-lib@2.276.0 cdk-from-cfn@0.336.0 constructs@10.8.1 \
  typescript@5.9.3
cat > migrate.mjs <<'NODE'
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { transmute } from "cdk-from-cfn";
import typescript from "typescript";

const require = createRequire(import.meta.url);
const { App, RemovalPolicy } = require("aws-cdk-lib");
const kept = { DeletionPolicy: "Retain", UpdateReplacePolicy: "Retain" };
const key = { AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" }] };
const schema = { BillingMode: "PAY_PER_REQUEST", KeySchema: [{ AttributeName: "id", KeyType: "HASH" }] };
const Resources = {
  Events: { Type: "AWS::SQS::Queue", ...kept, Properties: { QueueName: "events" } },
  Ids: { Type: "AWS::DynamoDB::Table", ...kept, Properties: { TableName: "ids", ...key, ...schema } },
};
const code = transmute(JSON.stringify({ Resources }), "typescript", "Hooks");
const compilerOptions = { module: typescript.ModuleKind.CommonJS, target: typescript.ScriptTarget.ES2022 };
writeFileSync("hooks.cjs", typescript.transpileModule(code, { compilerOptions }).outputText);
const { Hooks } = require("./hooks.cjs");
const policies = (change) => {
  const app = new App({ outdir: "out" });
  const stack = new Hooks(app, "Hooks");
  change(stack);
  const { Resources } = app.synth().getStackByName("Hooks").template;
  const shown = (resource) => `${resource.Type} ${resource.DeletionPolicy} ${resource.UpdateReplacePolicy}`;
  return Object.values(Resources).map(shown);
};
const retain = (stack) => {
  for (const name of Object.keys(Resources)) stack.node.findChild(name).applyRemovalPolicy(RemovalPolicy.RETAIN);
};
const print = (name, lines) => lines.sort().map((line) => `${name}: ${line}`).join("\n");
console.log(print("migrated", policies(() => {})));
console.log(print("with a removal policy", policies(retain)));
for (const language of ["typescript", "python", "java", "csharp"]) {
  const text = transmute(JSON.stringify({ Resources }), language, "Hooks");
  const [deletion, replacement] = [/deletion_?policy/i, /replace_?policy/i].map(
    (policy) => policy.test(text) || text.includes("applyRemovalPolicy(RemovalPolicy.RETAIN)"),
  );
  console.log(`${language}: deletion ${deletion}, replacement ${replacement}`);
}
NODE
seen=$(node migrate.mjs 2> log) || { cat log; exit 1; }
echo "$seen"
[ "$seen" = "migrated: AWS::DynamoDB::Table Retain undefined
migrated: AWS::SQS::Queue Retain undefined
with a removal policy: AWS::DynamoDB::Table Retain Retain
with a removal policy: AWS::SQS::Queue Retain Retain
typescript: deletion true, replacement false
python: deletion true, replacement false
java: deletion true, replacement true
csharp: deletion false, replacement false" ]
