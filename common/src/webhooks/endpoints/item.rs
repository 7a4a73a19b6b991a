//! The attributes of items in the endpoints table.

use crate::aws::dynamo::attributes;

attributes! { pub(crate)
    TENANT_ID = "tenant_id", WEBHOOK_ENDPOINT_ID = "webhook_endpoint_id", DELETE_AT = "delete_at",
}

attributes! { pub(super)
    URL = "url", KIND = "kind", HEADERS = "headers", HEADER_NAMES = "header_names", SIGNING_SECRET = "signing_secret",
    PREVIOUS_SECRET = "previous_secret", PREVIOUS_SECRET_EXPIRES_AT = "previous_secret_expires_at", CREATED_AT = "created_at", UPDATED_AT = "updated_at",
    // The number of changes, to distinguish changes within the same millisecond.
    REVISION = "revision",
    LOG_SHARDS = "log_shards", TESTED_AT = "tested_at", ASKED_AT = "asked_at", TAKEN_AT = "taken_at",
}

attributes! { pub(super)
    ACTIVE = "active",
    // When an endpoint became inactive. Removed when a user enables it.
    INACTIVE_SINCE = "inactive_since",
    DISABLED_AT = "disabled_at", DISABLED_REASON = "disabled_reason",
    // The first failed attempts since the last success, which removes them.
    STREAK = "streak",
    // When a delivery first failed permanently. Removed by a success. The name is that of version 0.1.0.
    FIRST_FAILED_AT = "failing_since",
    HEALTHY_AT = "healthy_at",
    // The standing of the receiver. Removed by a new URL, and when a user enables the endpoint, at `renewed_at`.
    GATE = "gate", RENEWED_AT = "renewed_at",
    // The latest failed attempt.
    ERRED_AT = "erred_at", ERRED_WITH = "erred_with", ERRED_CODE = "erred_code", ERRED_BECAUSE = "erred_because",
}

attributes! { pub(in crate::webhooks)
    NOTICE = "notice", NOTICE_AT = "notice_at", NOTICE_TRIES = "notice_tries", MAILED_AT = "mailed_at",
    // Identifies the latest try to send the notice.
    NOTICE_TRY = "notice_try",
    // The start of the failure that the tenant was last notified of. Removed when the email about the recovery is sent.
    TOLD_SINCE = "told_since",
}
