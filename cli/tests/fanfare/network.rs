//! The network between a machine and the service: a relay that can be interrupted.

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
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
        let service = api.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let (is_cut, cut) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(pass_on(near, service.clone(), cut.clone()));
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

async fn pass_on(mut near: TcpStream, service: String, mut cut: watch::Receiver<bool>) {
    let exchange = async {
        let Ok(mut far) = TcpStream::connect(service).await else { return };
        let _may_be_broken = copy_bidirectional(&mut near, &mut far).await;
    };
    let mut seen = cut.clone();
    tokio::select! {
        biased;
        Ok(_) = seen.wait_for(|is_cut| *is_cut) => {}
        () = exchange => return,
    }
    let _mended = cut.wait_for(|is_cut| !*is_cut).await;
}
