//! AWS for the SDK's clients: the embedded DynamoDB in this process, and simulations of SQS and SES. The simulated
//! network between the clients and the services delays calls, loses calls, or makes them fail.

use std::{fmt, sync::Arc, time::Duration};

use aws_smithy_runtime_api::{
    client::{
        http::{HttpConnector, HttpConnectorFuture, SharedHttpClient, SharedHttpConnector, http_client_fn},
        orchestrator::{HttpRequest, HttpResponse},
        result::ConnectorError,
    },
    http::StatusCode,
};
use aws_smithy_types::body::SdkBody;
use dynoxide::{Database, DynoxideError};
use local::SentEmail;
use serde_json::{Value, json};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout_at},
};

use crate::{
    queue::Sent,
    script::{DeclaredError, Service},
    world::{EmailMessage, World},
};

/// The time until an unanswered call ends, which is longer than any client's timeout.
const FOREVER: Duration = Duration::from_hours(1);

/// An HTTP client that calls this world's AWS for the process `who`. Without `who`, calls never fail and take no time.
pub(crate) fn client(world: &Arc<World>, who: Option<String>) -> SharedHttpClient {
    let connector = SharedHttpConnector::new(Connector { world: Arc::clone(world), who });
    http_client_fn(move |_, _| connector.clone())
}

struct Connector {
    world: Arc<World>,
    who: Option<String>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

struct Request {
    service: Service,
    operation: String,
    body: Vec<u8>,
}

type Answer = (u16, String);

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default().to_owned();
        let (service, operation) = match target.split_once('.') {
            Some(("AmazonSQS", operation)) => (Service::Sqs, operation),
            Some((_, operation)) => (Service::DynamoDb, operation),
            None => (Service::Ses, "SendRawEmail"),
        };
        let body = request.body().bytes().unwrap_or_default().to_vec();
        let request = Request { service, operation: operation.to_owned(), body };
        let (world, who) = (Arc::clone(&self.world), self.who.clone());
        HttpConnectorFuture::new(async move {
            let (status, body) = match who {
                None => world.serve(&request, None),
                Some(who) => travel(&world, &who, request).await?,
            };
            let status = StatusCode::try_from(status).expect("a status");
            let mut response = HttpResponse::new(status, SdkBody::from(body));
            response.headers_mut().insert("content-type", "application/x-amz-json-1.0");
            Ok(response)
        })
    }
}

/// Passes a request to its service, and returns the response. A sent request takes effect even if its sender dies or
/// stops waiting.
async fn travel(world: &Arc<World>, who: &str, request: Request) -> Result<Answer, ConnectorError> {
    let (number, fault) = world.next_call(request.service, &request.operation);
    let (there, back) = (world.draw(8), world.draw(8));
    let operation = request.operation.clone();
    if let Some(fault) = fault {
        world.note(who, format_args!("call {number}, {operation}: {fault:?}"));
    }
    let (answer, answered) = oneshot::channel();
    let lost = || ConnectorError::io("the connection was reset".into());
    let wait = match fault {
        Some(DeclaredError::Refused(_)) => {
            sleep(Duration::from_millis(there)).await;
            return Err(lost());
        }
        Some(DeclaredError::Outage(..) | DeclaredError::OutageFrom(..)) => {
            sleep(Duration::from_millis(there)).await;
            return Ok((503, r#"{"__type":"com.amazonaws#ServiceUnavailable"}"#.to_owned()));
        }
        Some(DeclaredError::Late(_, ms)) => ms,
        _ => there,
    };
    let service = Arc::clone(world);
    tokio::spawn(async move {
        sleep(Duration::from_millis(wait)).await;
        // The sender may have stopped waiting.
        drop(answer.send(service.serve(&request, fault)));
    });
    if matches!(fault, Some(DeclaredError::Dies(_))) {
        world.state().dying.insert(who.to_owned());
    }
    // The service always responds.
    let Ok(Ok(answer)) = timeout_at(Instant::now() + FOREVER, answered).await else { return Err(lost()) };
    sleep(Duration::from_millis(back)).await;
    if matches!(fault, Some(DeclaredError::Lost(_))) { Err(lost()) } else { Ok(answer) }
}

/// Whether a batch of statements updates rows instead of adding them.
fn updates(body: &[u8]) -> bool {
    str::from_utf8(body).is_ok_and(|text| text.contains("\"UPDATE "))
}

/// The number of rows that a request writes.
fn writes(operation: &str, body: &[u8]) -> usize {
    let text = str::from_utf8(body).unwrap_or_default();
    let has = |what| text.matches(what).count();
    match operation {
        "BatchWriteItem" => has("\"PutRequest\"") + has("\"DeleteRequest\""),
        "BatchExecuteStatement" => has("\"Statement\""),
        "TransactWriteItems" => has("\"TableName\""),
        _ => 1,
    }
}

/// The keys of the deliveries for which a request writes the first state.
fn new_states(operation: &str, body: &[u8]) -> Vec<[String; 2]> {
    let request = || serde_json::from_slice::<Value>(body).expect("JSON");
    let key_of = |value: &dyn Fn(&str) -> Option<String>| {
        value("job_id")?;
        Some([value("destination")?, value("delivery")?])
    };
    let key_in = |item: &Value| key_of(&|name| item[name]["S"].as_str().map(str::to_owned));
    match operation {
        "PutItem" => {
            let request = request();
            let item = (request["TableName"] == "deliveries").then(|| key_in(&request["Item"]));
            item.flatten().into_iter().collect()
        }
        "BatchWriteItem" => {
            let request = request();
            let puts = request["RequestItems"]["deliveries"].as_array().into_iter().flatten();
            puts.filter_map(|put| key_in(&put["PutRequest"]["Item"])).collect()
        }
        "BatchExecuteStatement" => {
            let request = request();
            let statements = request["Statements"].as_array().into_iter().flatten();
            let keys = statements.filter_map(|statement| {
                let text = statement["Statement"].as_str()?;
                // The names are in single quotes, in the order of the parameters.
                let names: Vec<_> = text.split('\'').skip(1).step_by(2).collect();
                let parameter = |name: &str| {
                    let at = names.iter().position(|other| *other == name)?;
                    statement["Parameters"][at]["S"].as_str().map(str::to_owned)
                };
                key_of(&parameter)
            });
            keys.collect()
        }
        _ => Vec::new(),
    }
}

/// The approximate write units of an item, whose binary values are base64.
fn units(item: &Value) -> f64 {
    (item.to_string().len() as f64 * 0.75 / 1024.0).ceil()
}

/// The part of a batch that is executed.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    None,
    Half,
    /// The first entries, as far as there are write units for them.
    Affordable,
}

/// An error response from a service.
fn refusal(code: &str) -> Answer {
    (400, json!({"__type": format!("com.amazonaws#{code}"), "message": code}).to_string())
}

impl World {
    fn serve(&self, request: &Request, fault: Option<DeclaredError>) -> Answer {
        if matches!(fault, Some(DeclaredError::Throttled(_))) {
            return refusal("ThrottlingException");
        }
        match request.service {
            Service::DynamoDb => self.dynamodb(&request.operation, &request.body, fault),
            Service::Sqs if request.operation == "ChangeMessageVisibilityBatch" => {
                self.change_visibility(&request.body)
            }
            Service::Sqs => self.send_batch(&request.body, fault),
            Service::Ses => self.mail(&request.body),
        }
    }

    fn dynamodb(&self, operation: &str, body: &[u8], fault: Option<DeclaredError>) -> Answer {
        let states = State::all_of(operation, body);
        let read = || states.iter().map(|state| state.read(&self.database)).collect::<Vec<_>>();
        let before = read();
        let answer = self.execute(operation, body, fault);
        for (before, after) in before.into_iter().zip(read()).filter_map(|(before, after)| before.zip(after)) {
            self.goes_on(&before, &after);
        }
        answer
    }

    fn execute(&self, operation: &str, body: &[u8], fault: Option<DeclaredError>) -> Answer {
        if !["GetItem", "BatchGetItem", "Query"].contains(&operation) {
            let mut state = self.state();
            state.stored = None;
            state.writes += writes(operation, body);
        }
        let conflict = "TransactionConflictException";
        let is_known_to_be_empty = self.is_known_to_be_empty(operation, body);
        if let Some(answer) = self.throttled(operation, body) {
            return answer;
        }
        match (fault, operation) {
            (Some(DeclaredError::Conflict(_)), "PutItem" | "UpdateItem" | "DeleteItem") => return refusal(conflict),
            (Some(DeclaredError::Conflict(_)), "TransactWriteItems") => return cancelled(body, "TransactionConflict"),
            (Some(DeclaredError::Partial(_)), "BatchWriteItem" | "BatchGetItem" | "BatchExecuteStatement") => {
                // A state that a batch did not update is updated alone, so this excuses no late or repeated attempt.
                if updates(body) {
                    self.state().faults -= 1;
                }
                return self.in_part(operation, body, Part::Half);
            }
            (_, "BatchWriteItem") if self.is_hot() => {
                self.state().faults += 1;
                return self.in_part(operation, body, Part::None);
            }
            _ => {}
        }
        if is_known_to_be_empty {
            return (200, r#"{"Items":[],"Count":0,"ScannedCount":0}"#.to_owned());
        }
        match dispatch(&self.database, operation, body) {
            Ok(answer) => {
                self.note_states(operation, body);
                (200, answer)
            }
            Err(error) => (error.status_code(), error.to_json()),
        }
    }

    /// Notes when deliveries first appear in the log.
    fn note_states(&self, operation: &str, body: &[u8]) {
        let now = self.now();
        let mut state = self.state();
        for key in new_states(operation, body) {
            state.logged.entry(key).or_insert(now);
        }
    }

    /// Checks a write of a delivery's state: only a success may remove attempts, and only a resend or a recovery may
    /// revert a success or send a held delivery.
    fn goes_on(&self, before: &Value, after: &Value) {
        let number = |item: &Value, name: &str| item[name]["N"].as_str().and_then(|text| text.parse::<u64>().ok());
        let is_done = |item: &Value| item["status"]["S"] == "delivered";
        let forgets = number(before, "attempts") > number(after, "attempts") && !is_done(after);
        let is_taken_back = is_done(before) && !is_done(after) && number(after, "tries") != Some(0);
        if forgets || is_taken_back {
            self.state().misled.push(format!("{before} became {after}"));
        }
        let is_asked_for = ["resend", "recovery"].iter().any(|trigger| after["trigger"]["S"] == *trigger);
        if before["status"]["S"] == "held" && after["status"]["S"] == "pending" && !is_asked_for {
            self.state().unasked.push(format!("{before} became {after}"));
        }
    }

    /// Whether this call reads the due rows of a partition that never contained any. Nine out of ten calls are such
    /// reads by the sweep.
    fn is_known_to_be_empty(&self, operation: &str, body: &[u8]) -> bool {
        let text = str::from_utf8(body).unwrap_or_default();
        let mut partitions = text.split("\"due/").skip(1).filter_map(|rest| rest.split('"').next());
        let due = &mut self.state().due;
        if operation == "Query" {
            return partitions.next().is_some_and(|partition| !due.contains(partition));
        }
        due.extend(partitions.map(str::to_owned));
        false
    }

    fn is_hot(&self) -> bool {
        let now = self.now();
        self.script.faults.iter().any(|fault| match fault {
            DeclaredError::Hot(from, ms) => (*from..*from + Duration::from_millis(*ms)).contains(&now),
            _ => false,
        })
    }

    /// The response to a write for which a table has no units left, if it has a bound.
    fn throttled(&self, operation: &str, body: &[u8]) -> Option<Answer> {
        if self.script.units == 0 {
            return None;
        }
        let request = || serde_json::from_slice::<Value>(body).expect("JSON");
        match operation {
            "BatchWriteItem" | "BatchExecuteStatement" => Some(self.in_part(operation, body, Part::Affordable)),
            "PutItem" | "UpdateItem" | "DeleteItem" => {
                let request = request();
                let table = request["TableName"].as_str().expect("a table");
                (!self.affords(table, &request)).then(|| refusal("ThrottlingException"))
            }
            "TransactWriteItems" => {
                let request = request();
                let writes = request["TransactItems"].as_array().into_iter().flatten();
                let mut writes = writes.filter_map(|write| write.as_object()?.values().next());
                let affords = |write: &Value| self.affords(write["TableName"].as_str().expect("a table"), write);
                (!writes.all(affords)).then(|| cancelled(body, "ThrottlingError"))
            }
            _ => None,
        }
    }

    /// Takes the write units of an item. Like DynamoDB, a table accepts a write that exceeds what is left.
    fn affords(&self, table: &str, item: &Value) -> bool {
        let (now, rate) = (self.now(), f64::from(self.script.units));
        let mut state = self.state();
        let (left, at) = state.units.get(table).copied().unwrap_or((rate, now));
        let left = (left + (now - at).as_secs_f64() * rate).min(rate);
        let is_left = left > 0.0;
        state.units.insert(table.to_owned(), (if is_left { left - units(item) } else { left }, now));
        state.faults += usize::from(!is_left);
        is_left
    }

    /// Executes one part of a batch, and returns the rest as unprocessed.
    fn in_part(&self, operation: &str, body: &[u8], part: Part) -> Answer {
        let share = |table: &str, entries: &[Value]| match part {
            Part::None => 0,
            Part::Half => entries.len() / 2,
            Part::Affordable => entries.iter().take_while(|entry| self.affords(table, entry)).count(),
        };
        let mut request: Value = serde_json::from_slice(body).expect("JSON");
        let (pointer, left_over) = match operation {
            "BatchWriteItem" => ("/RequestItems", "UnprocessedItems"),
            "BatchGetItem" => ("/RequestItems", "UnprocessedKeys"),
            _ => ("", ""),
        };
        if pointer.is_empty() {
            let statements = request["Statements"].as_array_mut().expect("statements");
            let (all, done) = (statements.len(), share("deliveries", statements));
            statements.truncate(done);
            let mut answer = if done == 0 { json!({"Responses": []}) } else { self.whole(operation, &request) };
            let responses = answer["Responses"].as_array_mut().expect("responses");
            responses.resize(all, json!({"Error": {"Code": "ThrottlingError", "Message": "throttled"}}));
            return (200, answer.to_string());
        }
        let mut left = request[pointer.trim_start_matches('/')].clone();
        for (name, table) in left.as_object_mut().expect("tables") {
            let now = &mut request[pointer.trim_start_matches('/')][name];
            let (now, later) = match table.get_mut("Keys") {
                Some(later) => (now["Keys"].as_array_mut(), later.as_array_mut()),
                None => (now.as_array_mut(), table.as_array_mut()),
            };
            let (now, later) = now.zip(later).expect("lists");
            let done = share(name, later);
            // Otherwise, the parts are chosen at random.
            if part == Part::Affordable || self.draw(2) == 0 {
                now.truncate(done);
                later.drain(..done);
            } else {
                now.drain(..now.len() - done);
                later.truncate(later.len() - done);
            }
        }
        let is_empty = |table: &Value| table.get("Keys").unwrap_or(table).as_array().is_some_and(Vec::is_empty);
        let none = request["RequestItems"].as_object().expect("tables").values().all(is_empty);
        if none && part == Part::Affordable {
            return refusal("ThrottlingException");
        }
        let mut answer = if none { json!({"Responses": {}}) } else { self.whole(operation, &request) };
        answer[left_over] = left;
        (200, answer.to_string())
    }

    fn whole(&self, operation: &str, request: &Value) -> Value {
        let body = request.to_string();
        let done = dispatch(&self.database, operation, body.as_bytes());
        self.note_states(operation, body.as_bytes());
        serde_json::from_str(&done.unwrap_or_else(|error| panic!("{operation}: {error}"))).expect("JSON")
    }

    fn send_batch(&self, body: &[u8], fault: Option<DeclaredError>) -> Answer {
        self.state().sqs_requests += 1;
        let request: Value = serde_json::from_slice(body).expect("JSON");
        let queue = request["QueueUrl"].as_str().and_then(|url| url.rsplit('/').next()).expect("a queue");
        let entries = request["Entries"].as_array().expect("entries");
        let all = if matches!(fault, Some(DeclaredError::Partial(_))) { entries.len() / 2 } else { entries.len() };
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for (number, entry) in entries.iter().enumerate() {
            let text = entry["MessageBody"].as_str().expect("a body").to_owned();
            let delay = entry["DelaySeconds"].as_u64().unwrap_or(0);
            let group = entry["MessageGroupId"].as_str().map(str::to_owned);
            let message = Sent { body: text.clone(), delay, group };
            let sent = if number < all { self.send(queue, message) } else { Err("InternalError") };
            self.note(queue, format_args!("{} in {delay} s: {text}", sent.as_deref().unwrap_or("refused")));
            match sent {
                Ok(id) => done.push(json!({"Id": entry["Id"], "MessageId": id, "MD5OfMessageBody": ""})),
                Err(code) => failed.push(json!({"Id": entry["Id"], "Code": code, "SenderFault": false})),
            }
        }
        (200, json!({"Successful": done, "Failed": failed}).to_string())
    }

    fn change_visibility(&self, body: &[u8]) -> Answer {
        let request: Value = serde_json::from_slice(body).expect("JSON");
        let queue = request["QueueUrl"].as_str().and_then(|url| url.rsplit('/').next()).expect("a queue");
        let mut state = self.state();
        state.sqs_requests += 1;
        let queue = state.queues.get_mut(queue).expect("a queue");
        for entry in request["Entries"].as_array().expect("entries") {
            let receipt = entry["ReceiptHandle"].as_str().and_then(|text| text.parse().ok()).expect("a receipt");
            let seconds = entry["VisibilityTimeout"].as_u64().expect("seconds");
            queue.change_visibility(receipt, Instant::now() + Duration::from_secs(seconds));
        }
        (200, json!({"Successful": [], "Failed": []}).to_string())
    }

    fn mail(&self, body: &[u8]) -> Answer {
        let SentEmail { to, subject, text, .. } = SentEmail::read(body).expect("an email");
        let mail = EmailMessage { at: self.now(), to: to.concat(), subject, text };
        self.note("ses", format_args!("to {}: {}", mail.to, mail.subject));
        self.state().mails.push(mail);
        let answer = "<SendRawEmailResponse xmlns=\"http://ses.amazonaws.com/doc/2010-12-01/\"><SendRawEmailResult>\
                      <MessageId>1</MessageId></SendRawEmailResult></SendRawEmailResponse>";
        (200, answer.to_owned())
    }
}

/// The state of a delivery in the log, by its key.
struct State(Value);

impl State {
    /// The keys in a call's updates of the log.
    fn all_of(operation: &str, body: &[u8]) -> Vec<Self> {
        let request = || serde_json::from_slice::<Value>(body).expect("JSON");
        match operation {
            "UpdateItem" => {
                let mut request = request();
                let is_log = request["TableName"] == "deliveries";
                is_log.then(|| Self(request["Key"].take())).into_iter().collect()
            }
            "BatchExecuteStatement" => {
                let request = request();
                request["Statements"].as_array().into_iter().flatten().filter_map(Self::of).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The key in a statement, unless it inserts an item.
    fn of(statement: &Value) -> Option<Self> {
        let text = statement["Statement"].as_str().filter(|text| text.starts_with("UPDATE \"deliveries\""))?;
        let value = |name: &str| {
            let (before, _) = text.rsplit_once(&format!("\"{name}\" = ?"))?;
            Some(statement["Parameters"][before.matches('?').count()].clone())
        };
        Some(Self(json!({"destination": value("destination")?, "delivery": value("delivery")?})))
    }

    fn read(&self, database: &Database) -> Option<Value> {
        let request = json!({"TableName": "deliveries", "Key": self.0, "ConsistentRead": true});
        let answer = dispatch(database, "GetItem", request.to_string().as_bytes()).ok()?;
        let item = serde_json::from_str::<Value>(&answer).ok()?["Item"].clone();
        item.get("status").is_some().then_some(item)
    }
}

/// The response for a transaction whose first item was rejected with this code.
fn cancelled(body: &[u8], code: &str) -> Answer {
    let request: Value = serde_json::from_slice(body).expect("JSON");
    let writes = request["TransactItems"].as_array().map_or(0, Vec::len);
    let reasons: Vec<_> = (0..writes).map(|at| json!({"Code": if at == 0 { code } else { "None" }})).collect();
    let name = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException";
    (400, json!({"__type": name, "Message": "cancelled", "CancellationReasons": reasons}).to_string())
}

fn dispatch(database: &Database, operation: &str, body: &[u8]) -> Result<String, DynoxideError> {
    local::action(operation).unwrap_or_else(|| panic!("no function calls {operation}"))(database, body)
}
