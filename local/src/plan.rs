//! What the template says, for those who run the functions in another way than [`Stack`](crate::Stack).

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use anyhow::Result;
use serde_json::Value;

use crate::{
    stack::{lambda_variables, parameters, place},
    template::{Mapping, Template},
};

/// The contents of the template.
pub struct Plan {
    /// The properties of each table, by name.
    pub tables: BTreeMap<String, Value>,
    /// The properties of each queue, by name.
    pub queues: BTreeMap<String, Value>,
    /// The functions, by name.
    pub functions: BTreeMap<String, Planned>,
}

/// A function.
pub struct Planned {
    /// Its environment: the variables from the template, and those that Lambda itself sets.
    pub variables: HashMap<String, String>,
    /// After this time Lambda ends an invocation.
    pub timeout: Duration,
    /// The most records of a batch, for each queue that it reads, by name.
    pub batches: BTreeMap<String, i32>,
}

impl Plan {
    /// The template, deployed where DynamoDB, SQS and SES have the addresses `http://dynamodb`, `http://sqs` and
    /// `http://ses`.
    ///
    /// # Errors
    /// The template cannot be read.
    pub fn new() -> Result<Self> {
        let template = Template::load(&parameters("http://api", ""), place("http://api", "http://sqs"))?;
        let lambda = lambda_variables("http://dynamodb", "http://sqs", "http://ses");
        let functions = template.functions.iter().map(|(name, function)| {
            let mut variables = lambda.clone();
            variables.extend(function.variables());
            let batches =
                function.mappings().map(|mapping: &Mapping| (mapping.queue_name().to_owned(), mapping.batch_size));
            (name.clone(), Planned { variables, timeout: function.timeout(), batches: batches.collect() })
        });
        let functions = functions.collect();
        Ok(Self { tables: template.tables, queues: template.queues, functions })
    }
}
