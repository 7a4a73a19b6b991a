//! What this machine remembers: which service, an API key for each, and the secrets of its endpoints.

use std::{collections::BTreeMap, env, fs, io::Write, path::PathBuf};

use serde::{Deserialize, Serialize};
use url::Url;
use zeroize::Zeroizing;

use crate::failure::Failure;

/// The file in the platform's folder for configuration. Nobody else on the machine can read it.
pub(crate) struct Config {
    path: PathBuf,
    kept: Kept,
}

#[derive(Default, Deserialize, Serialize)]
struct Kept {
    /// The origin of the latest login.
    #[serde(default)]
    latest: Option<String>,
    /// By origin: a key for one service is never sent to another.
    #[serde(default)]
    services: BTreeMap<String, Service>,
}

/// What is kept for a service.
#[derive(Clone, Default, Deserialize, Serialize)]
pub(crate) struct Service {
    /// The API key.
    pub(crate) key: Option<Zeroizing<String>>,
    /// The id of the key, if `login` made it.
    pub(crate) key_id: Option<String>,
    /// The signing secrets of endpoints that `listen` made.
    #[serde(default)]
    pub(crate) secrets: BTreeMap<String, Zeroizing<String>>,
}

impl Config {
    pub(crate) fn load() -> Result<Self, Failure> {
        let path = folder().ok_or_else(|| Failure::Local("There is no folder for configuration.".to_owned()))?;
        let path = path.join("fanfare").join("credentials.json");
        let kept = match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| Failure::Local(format!("{} cannot be read: {error}.", path.display())))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Kept::default(),
            Err(error) => return Err(Failure::Local(format!("{} cannot be read: {error}.", path.display()))),
        };
        Ok(Self { path, kept })
    }

    /// The service of the latest login.
    pub(crate) fn latest(&self) -> Option<Url> {
        self.kept.latest.as_ref()?.parse().ok()
    }

    pub(crate) fn service(&self, origin: &str) -> Service {
        self.kept.services.get(origin).cloned().unwrap_or_default()
    }

    /// Changes what is kept for a service. Another process may have changed the file meanwhile, so it is read again.
    pub(crate) fn change(&mut self, origin: &str, change: impl FnOnce(&mut Service)) -> Result<(), Failure> {
        let folder = self.path.parent().unwrap_or(&self.path).to_owned();
        make_private_folder(&folder)?;
        let lock = fs::OpenOptions::new().create(true).truncate(false).write(true).open(folder.join("lock"))?;
        lock.lock()?;
        *self = Self::load()?;
        let service = self.kept.services.entry(origin.to_owned()).or_default();
        change(service);
        if service.key.is_some() {
            self.kept.latest = Some(origin.to_owned());
        }
        let text = serde_json::to_vec_pretty(&self.kept).map_err(|error| Failure::Local(error.to_string()))?;
        let new = self.path.with_extension("new");
        private_file(&new)?.write_all(&text)?;
        Ok(fs::rename(&new, &self.path)?)
    }

    /// The file that a `listen` holds while it takes from an endpoint.
    pub(crate) fn lock_of(&self, endpoint: &str) -> Result<fs::File, Failure> {
        let folder = self.path.parent().unwrap_or(&self.path);
        make_private_folder(folder)?;
        let name: String = endpoint.chars().filter(char::is_ascii_alphanumeric).collect();
        Ok(fs::OpenOptions::new().create(true).truncate(false).write(true).open(folder.join(format!("{name}.lock")))?)
    }
}

/// The folder for configuration, by the rules of the platform.
fn folder() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = set("HOME");
    match env::consts::OS {
        "windows" => set("APPDATA"),
        "macos" => set("XDG_CONFIG_HOME").or(home.map(|home| home.join("Library/Application Support"))),
        _ => set("XDG_CONFIG_HOME").filter(|path| path.is_absolute()).or(home.map(|home| home.join(".config"))),
    }
}

#[cfg(unix)]
fn make_private_folder(folder: &std::path::Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt;
    Ok(fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?)
}

#[cfg(not(unix))]
fn make_private_folder(folder: &std::path::Path) -> Result<(), Failure> {
    Ok(fs::create_dir_all(folder)?)
}

/// A new file that nobody else can read, in the place of what a process may have left when it died.
fn private_file(path: &std::path::Path) -> Result<fs::File, Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    Ok(options.create_new(true).write(true).open(path)?)
}
