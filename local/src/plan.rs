//! The template's contents, for programs that run the functions without a [`Stack`](crate::Stack).

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use anyhow::Result;
use serde_json::Value;

use crate::{
    stack::{lambda_variables, parameters},
    template::{LocalAddresses, Mapping, Template},
};

/// The template's contents.
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
    /// The environment: the variables from the template, and those that Lambda itself sets.
    pub variables: HashMap<String, String>,
    /// The time after which Lambda ends an invocation.
    pub timeout: Duration,
    /// The queues that Lambda polls for the function, by name.
    pub queues: BTreeMap<String, Polled>,
}

/// Lambda's settings for polling a queue.
#[derive(Clone, Copy, Debug)]
pub struct Polled {
    /// The maximum number of records in a batch.
    pub batch_size: usize,
    /// The maximum number of concurrent invocations.
    pub maximum_concurrency: usize,
}

impl Plan {
    /// Reads the template as if it were deployed with DynamoDB, SQS and SES at `http://dynamodb`, `http://sqs` and
    /// `http://ses`.
    ///
    /// # Errors
    /// The template cannot be read.
    pub fn new() -> Result<Self> {
        let template = Template::load(&parameters("http://api", ""), LocalAddresses::new("http://api", "http://sqs"))?;
        let lambda = lambda_variables("http://dynamodb", "http://sqs", "http://ses");
        let functions = template.functions.iter().map(|(name, function)| {
            let mut variables = lambda.clone();
            variables.extend(function.variables());
            let queues = function.mappings().map(|mapping| (mapping.queue_name().to_owned(), Polled::by(mapping)));
            (name.clone(), Planned { variables, timeout: function.timeout(), queues: queues.collect() })
        });
        let functions = functions.collect();
        Ok(Self { tables: template.tables, queues: template.queues, functions })
    }
}

impl Polled {
    fn by(mapping: &Mapping) -> Self {
        let batch_size = usize::try_from(mapping.batch_size).unwrap_or(1);
        Self { batch_size, maximum_concurrency: mapping.scaling_config.maximum_concurrency }
    }
}
