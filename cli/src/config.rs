//! The credentials file: the latest service, an API key for each service, and the secrets of its endpoints.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use api::{EndpointId, KeyId, Secret};
use serde::{Deserialize, Serialize};
use url::Url;
use zeroize::Zeroizing;

use crate::failure::Failure;

/// The file in the platform's configuration folder. Other users of the machine cannot read it.
pub(crate) struct Config {
    folder: Option<PathBuf>,
    kept: Kept,
}

const FILE: &str = "credentials.json";
/// The longest name of a lock file, in characters. Longer names that begin alike share a lock.
const LONGEST_NAME: usize = 200;

#[derive(Default, Deserialize, Serialize)]
struct Kept {
    /// The origin of the latest login.
    #[serde(default)]
    latest: Option<String>,
    /// By origin, so that a key for one service is never sent to another.
    #[serde(default)]
    services: BTreeMap<String, Service>,
}

/// The credentials for one service.
#[derive(Clone, Default, Deserialize, Serialize)]
pub(crate) struct Service {
    /// The API key.
    pub(crate) key: Option<Secret>,
    /// The id of the key, if `login` created it.
    pub(crate) key_id: Option<KeyId>,
    /// The signing secrets of endpoints that `listen` created.
    #[serde(default)]
    pub(crate) secrets: BTreeMap<EndpointId, Secret>,
}

impl Config {
    pub(crate) fn load() -> Result<Self, Failure> {
        // Scripts without a configuration folder have their key in the environment.
        let Some(folder) = folder() else { return Ok(Self { folder: None, kept: Kept::default() }) };
        let folder = folder.join("fanfare");
        let path = folder.join(FILE);
        let unreadable = |why: String| {
            Failure::local(format!("Could not read {}: {why}.", path.display()))
                .hint("Delete it, and run `fanfare login`.")
        };
        let kept = match fs::read(&path).map(Zeroizing::new) {
            // The parser's message may quote a key.
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| unreadable(format!("unexpected content in line {}", error.line())))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kept::default(),
            Err(error) => return Err(unreadable(error.to_string())),
        };
        Ok(Self { folder: Some(folder), kept })
    }

    /// The folder, which only its owner can open.
    fn private_folder(&self) -> Result<&Path, Failure> {
        let missing = || Failure::local("No configuration folder is known.").hint("Set HOME.");
        let folder = self.folder.as_deref().ok_or_else(missing)?;
        make_private(folder).map_err(|error| Failure::of_file(folder, &error))?;
        Ok(folder)
    }

    fn lock_file(&self, name: &str) -> Result<fs::File, Failure> {
        let path = self.private_folder()?.join(name);
        let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        file.map_err(|error| Failure::of_file(&path, &error))
    }

    /// The service of the latest login.
    pub(crate) fn latest(&self) -> Option<Url> {
        self.kept.latest.as_ref()?.parse().ok()
    }

    pub(crate) fn service(&self, origin: &str) -> Service {
        self.kept.services.get(origin).cloned().unwrap_or_default()
    }

    /// Changes the credentials for a service. Another process may have changed the file meanwhile, so it is read again.
    pub(crate) fn change(&mut self, origin: &str, change: impl FnOnce(&mut Service)) -> Result<(), Failure> {
        let lock = self.lock_file("lock")?;
        lock.lock()?;
        *self = Self::load()?;
        change(self.kept.services.entry(origin.to_owned()).or_default());
        self.store()
    }

    /// Records whether this service is the one of the latest login.
    pub(crate) fn prefer(&mut self, origin: &str, is_latest: bool) -> Result<(), Failure> {
        let lock = self.lock_file("lock")?;
        lock.lock()?;
        *self = Self::load()?;
        match is_latest {
            true => self.kept.latest = Some(origin.to_owned()),
            false if self.kept.latest.as_deref() == Some(origin) => self.kept.latest = None,
            false => return Ok(()),
        }
        self.store()
    }

    /// Replaces the file atomically.
    fn store(&self) -> Result<(), Failure> {
        let folder = self.private_folder()?;
        let text = serde_json::to_vec_pretty(&self.kept).map_err(|error| Failure::local(error.to_string()))?;
        let new = folder.join("credentials.new");
        let write = || {
            let mut file = private_file(&new)?;
            file.write_all(&Zeroizing::new(text))?;
            file.sync_all()?;
            fs::rename(&new, folder.join(FILE))
        };
        write().map_err(|error| Failure::of_file(&new, &error))
    }

    /// The lock that a `listen` holds while it finds or creates its endpoint. It does not block a `listen` of another endpoint.
    pub(crate) fn alone(&self, origin: &str, wanted: &str) -> Result<fs::File, Failure> {
        let lock = self.lock_of(&format!("listen{origin}{wanted}"))?;
        lock.lock()?;
        Ok(lock)
    }

    /// The lock file that a `listen` holds while it receives from an endpoint.
    pub(crate) fn lock_of(&self, endpoint: &str) -> Result<fs::File, Failure> {
        let name: String = endpoint.chars().filter(char::is_ascii_alphanumeric).take(LONGEST_NAME).collect();
        self.lock_file(&format!("{name}.lock"))
    }
}

/// The configuration folder, by the rules of the platform.
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
fn make_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // An existing folder may be open to other users.
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn make_private(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

/// Creates a file that only its owner can read. Replaces one that a killed process has left.
fn private_file(path: &Path) -> io::Result<fs::File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.create_new(true).write(true).open(path)
}
