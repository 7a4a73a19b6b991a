//! Writes the changes that attempts have revealed about receivers to the items of their endpoints.

use std::collections::BTreeMap;

use common::{
    timestamp::Timestamp,
    webhooks::{
        delivery::Queue,
        endpoints::{Endpoints, Health},
    },
};
use futures::future::join_all;

use crate::{
    observe,
    plan::{Due, Ended},
    standing::Shown,
};

/// A change to an endpoint's item.
enum News {
    Answered,
    Good { since: Timestamp },
    Unanswered { hangs: bool },
    HangsNoMore,
    Slow,
    Hangs,
}

fn news_of(ended: &Ended, health: &Health) -> Option<News> {
    match ended.shown? {
        Shown::Good { since } => Some(News::Good { since }),
        Shown::Success if health.is_impaired() => Some(News::Answered),
        Shown::NoAnswer { hangs } if health.unanswered_since.is_none() || health.hangs != hangs => {
            Some(News::Unanswered { hangs })
        }
        Shown::Success | Shown::Error if health.hangs && ended.queue != Queue::Hanging => Some(News::HangsNoMore),
        _ if ended.queue == Queue::Hanging && !health.hangs => Some(News::Hangs),
        _ => (ended.queue == Queue::Slow && health.slow_at.is_none()).then_some(News::Slow),
    }
}

/// Records in the items of endpoints that a receiver accepts deliveries again, no longer answers, or is slow or good
/// again. If a write fails, the next attempt notes the change.
pub(crate) async fn note<'a>(endpoints: &Endpoints, ended: impl Iterator<Item = &'a Ended>, now: Timestamp) {
    let mut news = BTreeMap::new();
    for ended in ended {
        let Ended { due: Due { tenant, delivery, .. }, health: Some(health), .. } = ended else { continue };
        let Some((id, new)) = delivery.webhook_endpoint_id.zip(news_of(ended, health)) else { continue };
        // If there are several attempts, a success takes precedence.
        if !matches!(news.get(&id), Some((_, News::Answered | News::Good { .. }))) {
            news.insert(id, (tenant, new));
        }
    }
    let noted = news.into_iter().map(async |(id, (tenant, new))| {
        let noted = match new {
            News::Answered => endpoints.note_answered(tenant, id, now).await,
            News::Good { since } => endpoints.note_good(tenant, id, since, now).await,
            News::Unanswered { hangs } => endpoints.note_unanswered(tenant, id, now, hangs).await,
            News::HangsNoMore => endpoints.note_hangs_no_more(tenant, id, now).await,
            News::Hangs => endpoints.note_hangs(tenant, id, now, None).await.map(drop),
            News::Slow => endpoints.note_slow(tenant, id, now).await,
        };
        if let Err(error) = noted {
            observe::not_noted(tenant, id, &error);
        }
    });
    join_all(noted).await;
}
