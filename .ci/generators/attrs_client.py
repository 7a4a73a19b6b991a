"""Calls the service with the client of openapi-python-client, whose classes are made with attrs."""

import os, time
from uuid import UUID

from generated.attrs import AuthenticatedClient
from generated.attrs.api.deliveries import deliveries_list
from generated.attrs.api.webhooks import webhooks_create, webhooks_delete, webhooks_list, webhooks_test, webhooks_update
from generated.attrs.models.deliveries_list_body import DeliveriesListBody
from generated.attrs.models.deliveries_list_body_json_type_0 import DeliveriesListBodyJsonType0
from generated.attrs.models.delivery import Delivery
from generated.attrs.models.envelope_error import EnvelopeError
from generated.attrs.models.webhooks_create_body import WebhooksCreateBody
from generated.attrs.models.webhooks_create_body_push_endpoint import WebhooksCreateBodyPushEndpoint
from generated.attrs.models.webhooks_create_response_200 import WebhooksCreateResponse200
from generated.attrs.models.webhooks_delete_body import WebhooksDeleteBody
from generated.attrs.models.webhooks_delete_body_json import WebhooksDeleteBodyJson
from generated.attrs.models.webhooks_delete_response_200 import WebhooksDeleteResponse200
from generated.attrs.models.webhooks_list_response_200 import WebhooksListResponse200
from generated.attrs.models.webhooks_test_body import WebhooksTestBody
from generated.attrs.models.webhooks_test_body_json import WebhooksTestBodyJson
from generated.attrs.models.webhooks_test_response_200 import WebhooksTestResponse200
from generated.attrs.models.webhooks_update_body import WebhooksUpdateBody
from generated.attrs.models.webhooks_update_body_json import WebhooksUpdateBodyJson
from generated.attrs.models.webhooks_update_response_200 import WebhooksUpdateResponse200

# Without the last two settings, the client would send the key as a bearer token.
client = AuthenticatedClient(
    os.environ["SERVICE"], os.environ["KEY"], raise_on_unexpected_status=True, prefix="", auth_header_name="x-api-key"
)


def deliveries(endpoint: UUID) -> list[Delivery]:
    body = DeliveriesListBody(json=DeliveriesListBodyJsonType0(webhook_endpoint_id=endpoint))
    listed = deliveries_list.sync(client=client, body=body)
    assert listed and not isinstance(listed, EnvelopeError), listed
    return listed.json.deliveries


push = WebhooksCreateBodyPushEndpoint(url=os.environ["RECEIVER"], description="attrs")
created = webhooks_create.sync(client=client, body=WebhooksCreateBody(json=push))
assert isinstance(created, WebhooksCreateResponse200), created
endpoint = created.json.webhook_endpoint_id
changes = WebhooksUpdateBodyJson(id=endpoint, description=None, max_concurrent=2)
updated = webhooks_update.sync(client=client, body=WebhooksUpdateBody(json=changes))
assert isinstance(updated, WebhooksUpdateResponse200), updated
listed = webhooks_list.sync(client=client)
assert isinstance(listed, WebhooksListResponse200), listed
[only] = listed.json.webhook_endpoints
assert (only.webhook_endpoint_id, only.max_concurrent) == (endpoint, 2) and not only.description, only

tested = webhooks_test.sync(client=client, body=WebhooksTestBody(json=WebhooksTestBodyJson(id=endpoint)))
assert isinstance(tested, WebhooksTestResponse200), tested
end = time.monotonic() + 30
while [one.status for one in deliveries(endpoint)] != ["delivered"]:
    assert time.monotonic() < end, deliveries(endpoint)
[delivery] = deliveries(endpoint)
assert delivery.delivery_id == tested.json.delivery_id and delivery.last_attempt, delivery
assert delivery.last_attempt.status_code == 204, delivery

delete = WebhooksDeleteBody(json=WebhooksDeleteBodyJson(id=endpoint))
assert isinstance(webhooks_delete.sync(client=client, body=delete), WebhooksDeleteResponse200)
again = webhooks_delete.sync(client=client, body=delete)
assert isinstance(again, EnvelopeError) and again.json.code == "NOT_FOUND", again
