//! The network between a machine and the service: a relay that can be interrupted.

use std::time::SystemTime;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy, copy_bidirectional},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
};

/// A relay for TCP connections.
pub(super) struct NetworkSettings {
    address: String,
    is_cut: watch::Sender<bool>,
}

impl NetworkSettings {
    /// Starts a relay to `api`, a URL without a path.
    pub(super) async fn to(api: &str) -> Self {
        Self::with_date(api, None).await
    }

    /// Starts a relay whose responses all have this date, so that the machine's clock looks wrong.
    pub(super) async fn at(api: &str, date: SystemTime) -> Self {
        Self::with_date(api, Some(date)).await
    }

    async fn with_date(api: &str, date: Option<SystemTime>) -> Self {
        let service = api.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let (is_cut, cut) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(pass_on(near, service.clone(), cut.clone(), date));
            }
        });
        Self { address, is_cut }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Stops all data. Connections stay open, without errors.
    pub(super) fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    /// Lets new connections work again. Earlier ones are closed, as after an address change.
    pub(super) fn mend(&self) {
        self.is_cut.send_replace(false);
    }
}

async fn pass_on(mut near: TcpStream, service: String, mut cut: watch::Receiver<bool>, date: Option<SystemTime>) {
    let exchange = async {
        let Ok(mut far) = TcpStream::connect(service).await else { return };
        let Some(date) = date else {
            let _may_be_broken = copy_bidirectional(&mut near, &mut far).await;
            return;
        };
        let ((mut asks, answers), (responses, mut requests)) = (near.into_split(), far.into_split());
        tokio::select! {
            _ = copy(&mut asks, &mut requests) => {}
            () = redate(responses, answers, date) => {}
        }
    };
    let mut seen = cut.clone();
    tokio::select! {
        biased;
        Ok(_) = seen.wait_for(|is_cut| *is_cut) => {}
        () = exchange => return,
    }
    let _mended = cut.wait_for(|is_cut| !*is_cut).await;
}

/// Copies responses, with another date in each.
async fn redate(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, date: SystemTime) {
    const HEADER: &[u8] = b"\r\ndate: ";
    let date = httpdate::fmt_http_date(date);
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let data = &mut bytes[..count];
        if let Some(at) = data.windows(HEADER.len()).position(|part| part == HEADER) {
            let value = at + HEADER.len();
            data[value..value + date.len()].copy_from_slice(date.as_bytes());
        }
        if to.write_all(data).await.is_err() {
            return;
        }
    }
}
