//! Checks the requests that reached receivers: their ids, times and signatures, and whether each was permitted.

use std::{collections::BTreeMap, time::Duration};

use base64::{Engine, prelude::BASE64_STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;

use super::Check;
use crate::{
    receivers::Post,
    run::{Endpoint, Within, callback_secret},
    script::Time,
    world::stamp,
};

impl Check<'_> {
    /// 6. Stable ids.
    pub(super) fn stable_ids(&mut self) {
        let mut wrong = Vec::new();
        let (mut ids, mut times) = (BTreeMap::new(), BTreeMap::new());
        for post in &self.posts {
            let body: Value = serde_json::from_str(&post.body).unwrap_or_default();
            if body["job_id"] != "test" {
                let known = ids.entry((post.to, body["job_id"].to_string())).or_insert_with(|| post.id.clone());
                if *known != post.id {
                    wrong.push(format!("{} and {} are the same delivery", known, post.id));
                }
            }
            let known = times.entry(&post.id).or_insert_with(|| post.event_time.clone());
            if *known != post.event_time {
                wrong.push(format!("{} has the times {known} and {}", post.id, post.event_time));
            }
            let logged = self.logged.iter().find(|logged| logged.text("webhook_id") == post.id);
            if logged.is_some_and(|logged| logged.text("created_at") != post.event_time) {
                wrong.push(format!("{} has a different time in the log than {}", post.id, post.event_time));
            }
            let right = i64::try_from((crate::world::BEGINNING + post.at).as_secs()).unwrap_or(0);
            let off = post.timestamp.abs_diff(right);
            if off > self.allowance.signing + self.allowance.skew.as_secs() {
                wrong.push(format!("{}: its signature is {off} s off", post.id));
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("ids and times are the same for every attempt", wrong));
    }

    /// 7. Valid signatures.
    pub(super) fn valid_signatures(&mut self) {
        let mut wrong = Vec::new();
        for post in &self.posts {
            let start = Within { from: Time::ZERO, to: Time::ZERO };
            let callback = [(callback_secret(post.to.0), start)];
            let secrets = match post.to.1 {
                Some(endpoint) => self.known.tenants[post.to.0].endpoints[endpoint].secrets.as_slice(),
                None => &callback,
            };
            if let Err(problem) = self.verify(post, secrets) {
                wrong.push(format!("{} at {}: {problem}", post.id, stamp(post.at)));
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("signatures verify", wrong));
    }

    fn verify(&self, post: &Post, secrets: &[(String, Within)]) -> Result<(), String> {
        let signed = format!("{}.{}.{}", post.id, post.timestamp, post.body);
        let by = |signature: &str| {
            secrets.iter().position(|(secret, _)| {
                format!("v1,{}", BASE64_STANDARD.encode(hmac(secret, signed.as_bytes()))) == signature
            })
        };
        let found: Vec<_> = post.signatures.split(' ').map(by).collect();
        let Some(current) = found.first().copied().flatten() else { return Err("the secret is unknown".to_owned()) };
        let (secret, since) = &secrets[current];
        if hex::encode(hmac(secret, post.body.as_bytes())) != post.body_signature {
            return Err("the body is signed with another secret".to_owned());
        }
        if self.allowance.has_late_writes && secrets.len() > 2 {
            // The first of two rotations may have taken effect again after the second.
            return if found.iter().all(Option::is_some) { Ok(()) } else { Err("a secret is unknown".to_owned()) };
        }
        let slack = self.allowance.stale;
        // If a rotation's response is missing, the time of the rotation is unknown.
        let replaced = secrets.get(current + 1).map(|(_, when)| when.to);
        if since.from > post.at + self.allowance.skew || replaced.is_some_and(|replaced| replaced + slack < post.at) {
            return Err(format!("secret {current} is not current"));
        }
        if found.len() > 2 {
            return Err("there are too many signatures".to_owned());
        }
        let overlap = Duration::from_secs(self.world.script.overlap);
        let ends = (since.from + overlap, since.to + overlap);
        match found.get(1) {
            Some(Some(previous)) if *previous + 1 == current && post.at <= ends.1 + slack => Ok(()),
            Some(_) => Err("a signature was made with an expired secret".to_owned()),
            None if current > 0 && post.at + slack < ends.0 => Err("the previous secret does not sign".to_owned()),
            None => Ok(()),
        }
    }

    /// 8. Permitted destinations.
    pub(super) fn permitted_destinations(&mut self) {
        self.tenants_never_meet();
        self.held_deliveries_stay();
        let mut wrong = Vec::new();
        for post in &self.posts {
            let (tenant, Some(index)) = post.to else { continue };
            let endpoint = &self.known.tenants[tenant].endpoints[index];
            let is_test = post.body.contains("\"webhook.test\"");
            // The first of two `active` calls may have taken effect again after the second.
            let is_certain = endpoint.switches.len() < 2 || !self.allowance.has_late_writes;
            let is_deleted = endpoint.deleted.is_some();
            if (is_certain || is_deleted) && self.is_off(endpoint, post.at, is_test || !is_certain) {
                wrong.push(format!("{} went to endpoint {index} of {tenant} at {}", post.id, stamp(post.at)));
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("inactive endpoints receive nothing", wrong));
    }

    fn tenants_never_meet(&mut self) {
        let mut wrong = Vec::new();
        for post in &self.posts {
            let body: Value = serde_json::from_str(&post.body).unwrap_or_default();
            let job = body["job_id"].as_str().unwrap_or_default();
            if job != "test" && !job.starts_with(&format!("t{}-", post.to.0)) {
                wrong.push(format!("{job} went to {:?}", post.to));
            }
        }
        for logged in &self.logged {
            let job = logged.text("job_id");
            if !logged.is_test() && !job.starts_with(&format!("t{}-", logged.tenant)) {
                wrong.push(format!("{job} is in the log of {}", logged.tenant));
            }
        }
        wrong.into_iter().for_each(|wrong| self.fail("tenants never meet", wrong));
    }

    /// Whether an endpoint has certainly been inactive long enough that it must not get deliveries.
    fn is_off(&self, endpoint: &Endpoint, at: Time, is_test: bool) -> bool {
        let read = self.allowance.read;
        if endpoint.deleted.is_some_and(|when| when.to + read < at) {
            return true;
        }
        let next = |index: usize| endpoint.switches.get(index + 1).map(|(_, when)| when.from);
        !is_test
            && endpoint.switches.iter().enumerate().any(|(index, (active, when))| {
                !active && when.to + read < at && next(index).is_none_or(|next| at < next)
            })
    }
}

fn hmac(secret: &str, bytes: &[u8]) -> Vec<u8> {
    let mut hmac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key of any length");
    hmac.update(bytes);
    hmac.finalize().into_bytes().to_vec()
}
