//! SQS error responses.

use axum::http::StatusCode;
use rustack_sqs_http::body::SqsResponseBody;
use rustack_sqs_model::{
    error::{SqsError, SqsErrorCode},
    types::BatchResultErrorEntry,
};
use serde_json::json;

pub(super) type Response = axum::http::Response<SqsResponseBody>;

/// An error for a request or for one entry in a batch.
pub(super) struct QueueError {
    /// The code from the query protocol, which the SDKs still use.
    code: &'static str,
    message: String,
    status: StatusCode,
}

impl QueueError {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), status: StatusCode::BAD_REQUEST }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new("InvalidParameterValue", message)
    }

    /// Returns the response to a request. Old SDKs read the error from a header; new ones read it from the body, by its
    /// name in the API model.
    pub(super) fn response(self) -> Response {
        let name = match self.code {
            "AWS.SimpleQueueService.NonExistentQueue" => "QueueDoesNotExist",
            "QueueAlreadyExists" => "QueueNameExists",
            code => code.rsplit('.').next().unwrap_or(code),
        };
        let fault = if self.status.is_server_error() { "Receiver" } else { "Sender" };
        let body = json!({ "__type": format!("com.amazonaws.sqs#{name}"), "message": self.message });
        let mut response = Response::new(SqsResponseBody::from_bytes(body.to_string()));
        *response.status_mut() = self.status;
        if let Ok(value) = format!("{};{fault}", self.code).try_into() {
            response.headers_mut().insert("x-amzn-query-error", value);
        }
        response
    }

    /// Returns the response for the batch entry `id`.
    pub(super) fn of_entry(self, id: &str) -> BatchResultErrorEntry {
        BatchResultErrorEntry {
            id: id.to_owned(),
            sender_fault: true,
            code: self.code.to_owned(),
            message: Some(self.message),
        }
    }
}

impl From<SqsError> for QueueError {
    fn from(error: SqsError) -> Self {
        let code = match error.code {
            SqsErrorCode::MessageNotInflight => "AWS.SimpleQueueService.MessageNotInflight",
            code => code.error_type(),
        };
        Self { code, message: error.message, status: error.code.status_code() }
    }
}
