//! The deliveries queue and its dead-letter queue.

use std::time::Duration;

use aws_sdk_sqs::Client;
use tokio::sync::Semaphore;

use super::delivery::{Death, Delivery};
use crate::{
    aws::{clients::Aws, failure},
    config::{ConfigError, Env},
    error::{Error, Result},
    id::TenantId,
    timestamp::Timestamp,
};

/// How many messages are serialised and sent at once: a thousand simultaneous failures must neither open a thousand
/// connections nor hold a thousand messages in memory.
const MAX_CONCURRENT_SENDS: usize = 32;
/// The longest delay that SQS offers. A delivery that waits longer is sent again each time it arrives early.
const MAX_DELAY: Duration = Duration::from_secs(900);

/// Sends deliveries to the queue where they wait for their next attempt, and to the one where they end.
pub struct Queues {
    sqs: Client,
    deliveries: String,
    dead: String,
    sends: Semaphore,
}

impl Queues {
    /// The queues that `env` names.
    ///
    /// # Errors
    /// A variable is missing.
    pub fn from_env(env: &Env, aws: &Aws<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            sqs: aws.sqs(),
            deliveries: env.required("DELIVERIES_QUEUE_URL")?,
            dead: env.required("DELIVERIES_DEAD_QUEUE_URL")?,
            sends: Semaphore::new(MAX_CONCURRENT_SENDS),
        })
    }

    /// Whether the queue with this ARN is the deliveries queue.
    #[must_use]
    pub fn is_deliveries(&self, arn: &str) -> bool {
        arn.rsplit(':').next().is_some_and(|name| Some(name) == self.deliveries.rsplit('/').next())
    }

    /// Puts `delivery` into the deliveries queue until its `not_before`, or for SQS's longest delay if that is sooner.
    ///
    /// # Errors
    /// SQS did not accept the message.
    pub async fn wait(&self, delivery: &Delivery, now: Timestamp) -> Result<()> {
        let _permit = self.sends.acquire().await.map_err(Error::internal("waiting to send"))?;
        let message = delivery.to_message().map_err(Error::internal("writing a delivery"))?;
        self.send(&self.deliveries, &delivery.tenant, message, delay(delivery.not_before, now)).await
    }

    /// Puts `delivery` into the dead-letter queue.
    ///
    /// # Errors
    /// SQS did not accept the message.
    pub async fn bury(&self, delivery: &Delivery, death: &Death<'_>) -> Result<()> {
        let _permit = self.sends.acquire().await.map_err(Error::internal("waiting to send"))?;
        let message = delivery.to_dead_letter(death).map_err(Error::internal("writing a dead letter"))?;
        self.send(&self.dead, &delivery.tenant, message, 0).await
    }

    async fn send(&self, queue: &str, tenant: &TenantId, message: String, delay: i32) -> Result<()> {
        let send = self.sqs.send_message().queue_url(queue).message_body(message);
        let send = send.message_group_id(tenant.as_str()).delay_seconds(delay).send();
        // Boxed: the future takes thousands of bytes, and every attempt would reserve them though few fail.
        Box::pin(send).await.map_err(failure("sending a message"))?;
        Ok(())
    }
}

/// The delay to ask SQS for, in whole seconds, rounded up.
fn delay(not_before: Option<i64>, now: Timestamp) -> i32 {
    let wait = not_before.map_or(0, |time| time - now.as_millisecond()).max(0);
    let seconds = (wait.unsigned_abs()).div_ceil(1000).min(MAX_DELAY.as_secs());
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_rounded_up_and_at_most_15_minutes() {
        let now = Timestamp::from_second(1_000).expect("a time");
        let delay_in = |ms: i64| delay(Some(1_000_000 + ms), now);
        assert_eq!(delay(None, now), 0);
        assert_eq!(delay_in(-5), 0);
        assert_eq!(delay_in(0), 0);
        assert_eq!(delay_in(1), 1);
        assert_eq!(delay_in(5_000), 5);
        assert_eq!(delay_in(86_400_000), 900);
    }
}
