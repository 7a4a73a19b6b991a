"""Calls the service with the models of datamodel-code-generator, which are made with Pydantic, and with HTTPX."""

import os, time
from typing import TypeVar
from uuid import UUID

import httpx
from pydantic import AnyUrl, BaseModel

from generated import models

service = httpx.Client(base_url=os.environ["SERVICE"], headers={"x-api-key": os.environ["KEY"]}, trust_env=False)
Output = TypeVar("Output", bound=BaseModel)


def call(path: str, body: BaseModel, output: type[Output], status: int = 200) -> Output:
    # Without `exclude_unset`, fields that are not set would be sent as null.
    json = body.model_dump(mode="json", by_alias=True, exclude_unset=True)
    answer = service.post(f"/v1/{path}", json=json)
    assert answer.status_code == status, answer.text
    return output.model_validate_json(answer.content)


def deliveries(endpoint: UUID) -> list[models.Delivery]:
    body = models.DeliveriesListRequest(json_=models.DeliveriesListRequestJson(webhook_endpoint_id=endpoint))
    return call("deliveries/list", body, models.DeliveriesListResponse).json_.deliveries


push = models.WebhooksCreateRequestJson(url=AnyUrl(os.environ["RECEIVER"]), description="pydantic")
created = call("webhooks/create", models.WebhooksCreateRequest(json_=push), models.WebhooksCreateResponse)
endpoint = created.json_.webhook_endpoint_id
changes = models.WebhooksUpdateRequestJson(id=endpoint, description=None, max_concurrent=2)
call("webhooks/update", models.WebhooksUpdateRequest(json_=changes), models.WebhooksUpdateResponse)
[only] = call("webhooks/list", models.WebhooksListRequest(), models.WebhooksListResponse).json_.webhook_endpoints
assert (only.webhook_endpoint_id, only.max_concurrent, only.description) == (endpoint, 2, None), only

test = models.WebhooksTestRequest(json_=models.WebhooksTestRequestJson(id=endpoint))
tested = call("webhooks/test", test, models.WebhooksTestResponse)
end = time.monotonic() + 30
while [one.status for one in deliveries(endpoint)] != [models.Status.delivered]:
    assert time.monotonic() < end, deliveries(endpoint)
[delivery] = deliveries(endpoint)
assert delivery.delivery_id == tested.json_.delivery_id and delivery.last_attempt, delivery
assert delivery.last_attempt.status_code == 204, delivery
event = models.WebhookTestRequest.model_validate_json(httpx.get(os.environ["RECEIVER"], trust_env=False).content)
assert (event.job_id, event.result) == ("test", None), event

delete = models.WebhooksDeleteRequest(json_=models.WebhooksDeleteRequestJson(id=endpoint))
call("webhooks/delete", delete, models.WebhooksDeleteResponse)
assert call("webhooks/delete", delete, models.EnvelopeError, 404).json_.code == "NOT_FOUND"
