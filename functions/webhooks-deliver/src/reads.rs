//! Reads of endpoints, shared by concurrent callers: the records of a batch or, in the local runner, of many batches.

use std::sync::Arc;

use common::{
    aws::gathered_reads::Gathered,
    error::{Error, Result},
    id::{EndpointId, TenantId},
    webhooks::{
        delivery::Origin,
        endpoints::{Endpoint, Endpoints, Gate},
    },
};

/// This process's reads. A read begins after the call that it serves, so it sees all earlier writes.
pub(crate) struct Reads {
    endpoints: Endpoints,
    all: Gathered<TenantId, Arc<[Arc<Endpoint>]>>,
    one: Gathered<(TenantId, EndpointId), Arc<Endpoint>>,
    gates: Gathered<(TenantId, Origin), Gate>,
}

impl Reads {
    pub(crate) fn new(endpoints: Endpoints) -> Self {
        Self { endpoints, all: Gathered::default(), one: Gathered::default(), gates: Gathered::default() }
    }

    /// Reads a tenant's endpoints, including inactive ones.
    pub(crate) async fn all(&self, tenant: &TenantId) -> Result<Arc<[Arc<Endpoint>]>> {
        let read = async |tenant: TenantId| {
            // Boxed, because the SDK's futures take thousands of bytes, which every record of a batch would reserve.
            let all = Box::pin(self.endpoints.all(&tenant)).await;
            all.map(|all| Some(all.into_iter().map(Arc::new).collect())).inspect_err(|error| unread(&tenant, error))
        };
        Ok(self.all.get_one(tenant.clone(), read).await?.unwrap_or_default())
    }

    /// Reads an endpoint. Returns `None` if it does not exist.
    pub(crate) async fn one(&self, tenant: &TenantId, id: EndpointId) -> Result<Option<Arc<Endpoint>>> {
        let read = async |(tenant, id): (TenantId, EndpointId)| {
            let found = Box::pin(self.endpoints.find(&tenant, id)).await;
            found.map(|found| found.map(Arc::new)).inspect_err(|error| unread(&tenant, error))
        };
        self.one.get_one((tenant.clone(), id), read).await
    }

    /// Reads the gate of a callback origin.
    pub(crate) async fn gate(&self, tenant: &TenantId, origin: Origin) -> Result<Gate> {
        let read = async |(tenant, origin): (TenantId, Origin)| {
            let gate = Box::pin(self.endpoints.gate_of_origin(&tenant, origin)).await;
            gate.map(Some).inspect_err(|error| unread(&tenant, error))
        };
        Ok(self.gates.get_one((tenant.clone(), origin), read).await?.unwrap_or_default())
    }
}

fn unread(tenant: &TenantId, error: &Error) {
    common::log!("endpoints.unread", %tenant, ?error);
}
