//! Writes changes in receivers' health, as revealed by attempts, to their endpoints' items.

use std::collections::BTreeMap;

use common::{
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, Queue},
        endpoints::{Endpoints, Health, LastError},
    },
};
use futures::future::join_all;

use crate::{
    observe,
    outgoing::{Due, Ended},
    standing::Shown,
};

/// A change in a receiver's health.
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

/// Updates the items of endpoints: whether their receivers have become responsive, silent, slow, hanging or good, and
/// the latest error of each, for the console and `deliveries/stats`. `ended` pairs each completed attempt with the
/// resulting state of its delivery. If a write fails, the next attempt repeats it.
pub(crate) async fn note<'a>(
    endpoints: &Endpoints,
    ended: impl Iterator<Item = (&'a Ended, &'a Delivery)>,
    now: Timestamp,
) {
    let mut news = BTreeMap::new();
    let mut errors = BTreeMap::<_, (Timestamp, &TenantId, &Delivery, Option<Timestamp>)>::new();
    for (ended, after) in ended {
        let Ended { due: Due { tenant, delivery, .. }, health: Some(health), .. } = ended else { continue };
        let Some(id) = delivery.webhook_endpoint_id else { continue };
        // If there are several attempts, a success takes precedence.
        if let Some(new) = news_of(ended, health)
            && !matches!(news.get(&id), Some((_, News::Answered | News::Good { .. })))
        {
            news.insert(id, (tenant, new));
        }
        let error = LastError::of(after).filter(|_| after.last_attempt != delivery.last_attempt);
        if let Some(LastError { at, .. }) = error
            && errors.get(&id).is_none_or(|(latest, ..)| *latest < at)
        {
            errors.insert(id, (at, tenant, after, health.erred_at));
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
        noted.unwrap_or_else(|error| observe::not_noted(tenant, id, &error));
    });
    join_all(noted).await;
    let noted = errors.into_iter().map(async |(id, (_, tenant, after, erred_at))| {
        let noted = endpoints.note_error(tenant, after, erred_at).await;
        noted.unwrap_or_else(|error| observe::not_noted(tenant, id, &error));
    });
    join_all(noted).await;
}
