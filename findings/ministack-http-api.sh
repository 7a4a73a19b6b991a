#!/bin/bash
# MiniStack 1.5.33 deploys SAM's AWS::Serverless::HttpApi to CREATE_COMPLETE, with its stage and its function, but without a
# single route: SAM puts the routes into the API's `Body`, an OpenAPI document, which MiniStack ignores without a warning.
# Each call gets 404 "Not Found", as if the path were wrong. The same API with AWS::ApiGatewayV2::Route works. Hurt: developers
# who try a SAM application on the emulator.
# Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-apigatewayv2-api.html
# Usage: findings/ministack-http-api.sh. Needs Python 3.11 with pip, and PyPI. Fails if the behavior changes.
set -euo pipefail
folder=$(mktemp --directory)
trap 'kill "${server:-}" 2> /dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check ministack==1.5.33 boto3==1.43.106 aws-sam-translator==1.115.0
cat > deploy.py <<'PYTHON'
import http.client, json, sys, time, urllib.parse
import boto3

ADDRESS = sys.argv[1]
CODE = "def handler(event, context):\n    return {'statusCode': 200, 'body': 'hello'}\n"
FUNCTION = {"Runtime": "python3.11", "Handler": "index.handler", "InlineCode": CODE}
EVENT = {"Type": "HttpApi", "Properties": {"ApiId": {"Ref": "Api"}, "Method": "GET", "Path": "/hello"}}
BY_SAM = {
    "Transform": "AWS::Serverless-2016-10-31",
    "Resources": {
        "Api": {"Type": "AWS::Serverless::HttpApi"},
        "Hello": {"Type": "AWS::Serverless::Function", "Properties": {**FUNCTION, "Events": {"Hello": EVENT}}},
    },
}
INTEGRATION = {"ApiId": {"Ref": "Api"}, "IntegrationType": "AWS_PROXY", "PayloadFormatVersion": "2.0"}
BY_HAND = {
    "Transform": "AWS::Serverless-2016-10-31",
    "Resources": {
        "Api": {"Type": "AWS::ApiGatewayV2::Api", "Properties": {"Name": "by-hand", "ProtocolType": "HTTP"}},
        "Stage": {"Type": "AWS::ApiGatewayV2::Stage", "Properties": {"ApiId": {"Ref": "Api"}, "StageName": "$default"}},
        "Hello": {"Type": "AWS::Serverless::Function", "Properties": FUNCTION},
        "Integration": {
            "Type": "AWS::ApiGatewayV2::Integration",
            "Properties": {**INTEGRATION, "IntegrationUri": {"Fn::GetAtt": ["Hello", "Arn"]}},
        },
        "Route": {
            "Type": "AWS::ApiGatewayV2::Route",
            "Properties": {
                "ApiId": {"Ref": "Api"}, "RouteKey": "GET /hello",
                "Target": {"Fn::Join": ["/", ["integrations", {"Ref": "Integration"}]]},
            },
        },
    },
}


def client(service):
    credentials = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    return boto3.client(service, "us-east-1", endpoint_url=ADDRESS, **credentials)


def seen(name, template):
    """The stack's status, the number of the API's routes, and the response to GET /hello."""
    stacks = client("cloudformation")
    capabilities = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]
    stacks.create_stack(StackName=name, TemplateBody=json.dumps(template), Capabilities=capabilities)
    status = "CREATE_IN_PROGRESS"
    while status.endswith("_IN_PROGRESS"):
        time.sleep(0.2)
        status = stacks.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
    resources = stacks.list_stack_resources(StackName=name)["StackResourceSummaries"]
    [api] = [one["PhysicalResourceId"] for one in resources if one["ResourceType"] == "AWS::ApiGatewayV2::Api"]
    routes = len(client("apigatewayv2").get_routes(ApiId=api)["Items"])
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(ADDRESS).netloc, timeout=60)
    connection.request("GET", "/hello", headers={"host": f"{api}.execute-api.localhost"})
    answer = connection.getresponse()
    return status, routes, answer.status, answer.read().decode()


by_sam, by_hand = seen("by-sam", BY_SAM), seen("by-hand", BY_HAND)
print(f"AWS::Serverless::HttpApi: {by_sam}; AWS::ApiGatewayV2::Route: {by_hand}")
assert by_sam[:3] == ("CREATE_COMPLETE", 0, 404) and by_hand == ("CREATE_COMPLETE", 1, 200, "hello")
PYTHON
port=$((20000 + $$ % 12000))
BIND_HOST=127.0.0.1 GATEWAY_PORT=$port venv/bin/ministack > log 2>&1 &
server=$!
for _ in {1..100}; do (: < "/dev/tcp/127.0.0.1/$port") 2> /dev/null && break; sleep 0.2; done
NO_PROXY=127.0.0.1 venv/bin/python deploy.py "http://127.0.0.1:$port"
