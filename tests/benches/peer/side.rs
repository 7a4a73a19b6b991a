//! Either service, with two organizations (of the peer, applications): one has an endpoint, the other a hundred.

use std::path::Path;

use serde_json::json;

use crate::{
    Storage, processes,
    service::{Service, Tenant},
    svix::Svix,
};

/// The number of endpoints of the second organization.
pub(crate) const ENDPOINTS: usize = 100;

/// A running service.
pub(crate) struct Side {
    running: Running,
    /// The id of the organization with one endpoint.
    pub(crate) one: String,
    /// The id of the organization with a hundred endpoints.
    pub(crate) hundred: String,
    /// The number of the next job.
    pub(crate) next: usize,
    /// The number of deliveries so far.
    pub(crate) delivered: usize,
}

enum Running {
    Ours(Box<Service>, [Tenant; 2]),
    Peer(Box<Svix>),
}

impl Side {
    /// Starts `cargo local`.
    pub(crate) async fn ours(local: &Path, storage: Storage, folder: &Path, url: &str) -> Self {
        let folder = folder.join("ours");
        std::fs::create_dir(&folder).expect("a folder");
        let folder = (storage != Storage::Memory).then_some(folder.as_path());
        let (service, _output) = Service::start(local, &[("RUST_LOG", "error")], folder).await;
        let (one, hundred) = (service.tenant("one").await, service.tenant("hundred").await);
        service.endpoint(&one, url).await;
        for number in 0..ENDPOINTS {
            service.endpoint(&hundred, &format!("{url}{number}")).await;
        }
        let (first, second) = (one.id.clone(), hundred.id.clone());
        let running = Running::Ours(Box::new(service), [one, hundred]);
        Self { running, one: first, hundred: second, next: 0, delivered: 0 }
    }

    /// Starts the peer.
    pub(crate) async fn peer(server: &Path, storage: Storage, folder: &Path, url: &str) -> Self {
        let svix = Svix::start(server, storage, folder).await;
        let (one, hundred) = (svix.application().await, svix.application().await);
        svix.endpoint(&one, url).await;
        for number in 0..ENDPOINTS {
            svix.endpoint(&hundred, &format!("{url}{number}")).await;
        }
        Self { running: Running::Peer(Box::new(svix)), one, hundred, next: 0, delivered: 0 }
    }

    /// Sends events to this organization, and returns when they are accepted.
    pub(crate) async fn send(&self, to: &str, events: &[String]) {
        match &self.running {
            Running::Ours(service, _) => service.send(events).await,
            Running::Peer(svix) => svix.send(to, events).await,
        }
    }

    /// Whether a call can contain several events.
    pub(crate) fn has_batches(&self) -> bool {
        matches!(self.running, Running::Ours(..))
    }

    /// The CPU time that it has used, once it is idle.
    pub(crate) async fn cpu(&self) -> f64 {
        processes::cpu_when_idle(&self.processes()).await
    }

    /// Its memory.
    pub(crate) fn memory(&self) -> f64 {
        processes::memory(&self.processes())
    }

    fn processes(&self) -> Vec<u32> {
        match &self.running {
            Running::Ours(service, _) => vec![service.id()],
            Running::Peer(svix) => svix.processes(),
        }
    }

    /// Stops it, if its log contains all deliveries.
    pub(crate) async fn stop(self) {
        let mut logged = 0;
        match self.running {
            Running::Ours(service, tenants) => {
                for tenant in tenants {
                    let counted = service.rpc(&tenant, "deliveries/stats", json!({})).await;
                    logged += counted["total"]["delivered"].as_u64().expect("a count");
                }
            }
            Running::Peer(svix) => {
                logged += svix.delivered().await;
                svix.stop().await;
            }
        }
        assert_eq!(logged, u64::try_from(self.delivered).expect("a small number"), "each delivery is in the log");
    }
}
