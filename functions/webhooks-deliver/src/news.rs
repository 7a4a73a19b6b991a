//! Writes changes in receivers' health, as revealed by attempts, to their endpoints' items.

use std::collections::BTreeMap;

use common::{
    id::TenantId,
    timestamp::Timestamp,
    webhooks::{
        delivery::{Delivery, Queue},
        endpoints::{Endpoints, Health, LastError, News},
    },
};
use futures::future::join_all;

use crate::{
    observe,
    outgoing::{Due, Ended},
    standing::Shown,
};

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
        let Due { tenant, delivery, .. } = &ended.due;
        let Some((id, health)) = delivery.webhook_endpoint_id.zip(ended.due.health()) else { continue };
        // If there are several attempts, a success takes precedence.
        if let Some(new) = news_of(ended, &health)
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
        observe::noted(tenant, id, endpoints.note(tenant, id, new, now).await);
    });
    join_all(noted).await;
    let noted = errors.into_iter().map(async |(id, (_, tenant, after, erred_at))| {
        observe::noted(tenant, id, endpoints.note_error(tenant, after, erred_at).await);
    });
    join_all(noted).await;
}
