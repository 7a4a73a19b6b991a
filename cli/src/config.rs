//! The credentials file: the service of the latest login and, for each service or profile, its API key and endpoint
//! secrets.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use api::{CliLoginId, EndpointId, KeyId, Secret};
use serde::{Deserialize, Serialize};
use url::Url;
use zeroize::Zeroizing;

use crate::failure::Failure;

/// The file, in the platform's configuration folder. Other users of the machine cannot read the file.
pub(crate) struct Config {
    folder: Option<PathBuf>,
    kept: ConfigFile,
    /// The selected profile. Without one, credentials are found by the service's address.
    profile: Option<String>,
}

const FILE: &str = "credentials.json";
/// The maximum length of a lock file's name, in characters. Longer names with the same beginning share a lock.
const MAX_LOCK_NAME_LENGTH: usize = 200;

#[derive(Default, Deserialize, Serialize)]
struct ConfigFile {
    /// The origin of the latest login.
    #[serde(default)]
    latest: Option<String>,
    /// The credentials by origin, so a key for one service is never sent to another.
    #[serde(default)]
    services: BTreeMap<String, Service>,
    /// The profiles by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    profiles: BTreeMap<String, Profile>,
}

/// Named credentials, for using several services or several organizations of one service.
#[derive(Clone, Default, Deserialize, Serialize)]
struct Profile {
    /// The service's origin.
    api: String,
    #[serde(flatten)]
    service: Service,
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
    /// The pending login, which `login --complete` completes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) waiting: Option<PendingLogin>,
}

/// A login that is waiting for a person's approval.
#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct PendingLogin {
    pub(crate) request_id: CliLoginId,
    pub(crate) secret: Secret,
}

/// Credentials in the list of `fanfare profiles`.
pub(crate) struct ListedCredentials<'a> {
    pub(crate) profile: Option<&'a str>,
    pub(crate) api: &'a str,
    pub(crate) is_signed_in: bool,
    /// Whether these credentials are used without `--profile` and `--api`.
    pub(crate) is_default: bool,
}

impl Config {
    /// Reads the file. One that cannot be opened is only a failure if it `is_needed`.
    pub(crate) fn load(profile: Option<String>, is_needed: bool) -> Result<Self, Failure> {
        let unreadable =
            |path: &Path, why: String| Failure::local(format!("Could not read {}: {why}.", path.display()));
        // Without a configuration folder, as in some scripts, the key comes from the environment.
        let Some(folder) = folder() else { return Ok(Self { folder: None, kept: ConfigFile::default(), profile }) };
        let folder = folder.join("fanfare");
        let path = folder.join(FILE);
        let kept = match fs::read(&path).map(Zeroizing::new) {
            // The parser's message may quote a key.
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
                let failure = unreadable(&path, format!("unexpected content in line {}", error.line()));
                failure.hint("Delete it, and run `fanfare login`.")
            })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => ConfigFile::default(),
            Err(_) if !is_needed => return Ok(Self { folder: None, kept: ConfigFile::default(), profile }),
            Err(error) => {
                let failure = unreadable(&path, error.to_string());
                return Err(failure.hint("Correct its permissions or HOME, or set FANFARE_API and FANFARE_API_KEY."));
            }
        };
        Ok(Self { folder: Some(folder), kept, profile })
    }

    /// Reads the file again.
    pub(crate) fn reloaded(&self) -> Result<Self, Failure> {
        Self::load(self.profile.clone(), true)
    }

    /// The file's path.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(FILE))
    }

    /// Whether other users of the machine can read the file.
    pub(crate) fn is_open_to_others(&self) -> bool {
        #[cfg(unix)]
        if let Some(found) = self.path().and_then(|path| fs::metadata(path).ok()) {
            return std::os::unix::fs::MetadataExt::mode(&found) & 0o077 != 0;
        }
        false
    }

    /// Returns all credentials, those without a profile first.
    pub(crate) fn known(&self) -> impl Iterator<Item = ListedCredentials<'_>> {
        let services = self.kept.services.iter().map(|(api, service)| ListedCredentials {
            profile: None,
            api,
            is_signed_in: service.key.is_some(),
            is_default: self.kept.latest.as_ref() == Some(api),
        });
        services.chain(self.kept.profiles.iter().map(|(name, Profile { api, service })| ListedCredentials {
            profile: Some(name),
            api,
            is_signed_in: service.key.is_some(),
            is_default: false,
        }))
    }

    /// Creates the folder, so that only its owner can open it.
    fn private_folder(&self) -> Result<&Path, Failure> {
        let missing = || Failure::local("There is no configuration folder that can be opened.").hint("Set HOME.");
        let folder = self.folder.as_deref().ok_or_else(missing)?;
        make_private(folder).map_err(|error| Failure::of_file(folder, &error))?;
        Ok(folder)
    }

    fn lock_file(&self, name: &str) -> Result<fs::File, Failure> {
        let path = self.private_folder()?.join(name);
        let file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        file.map_err(|error| Failure::of_file(&path, &error))
    }

    /// Returns the service of the profile or, without a profile, of the latest login.
    pub(crate) fn latest(&self) -> Option<Url> {
        match &self.profile {
            Some(name) => self.kept.profiles.get(name)?.api.parse().ok(),
            None => self.kept.latest.as_ref()?.parse().ok(),
        }
    }

    /// Returns the name of the selected profile if there is no such profile.
    pub(crate) fn lacks_profile(&self) -> Option<&str> {
        self.profile.as_deref().filter(|name| !self.kept.profiles.contains_key(*name))
    }

    /// Returns the credentials for a service. A profile contains credentials for only one service.
    pub(crate) fn service(&self, origin: &str) -> Service {
        match &self.profile {
            Some(name) => self.kept.profiles.get(name).filter(|profile| profile.api == origin).map(|one| &one.service),
            None => self.kept.services.get(origin),
        }
        .cloned()
        .unwrap_or_default()
    }

    /// Changes the credentials for a service. Reads the file again first, because another process may have changed it.
    pub(crate) fn change(&mut self, origin: &str, change: impl FnOnce(&mut Service)) -> Result<(), Failure> {
        let lock = self.lock_file("lock")?;
        lock.lock()?;
        *self = self.reloaded()?;
        match &self.profile {
            Some(name) => {
                let profile = self.kept.profiles.entry(name.clone()).or_default();
                if profile.api != origin {
                    *profile = Profile { api: origin.to_owned(), service: Service::default() };
                }
                change(&mut profile.service);
            }
            None => change(self.kept.services.entry(origin.to_owned()).or_default()),
        }
        self.store()
    }

    /// Checks that changes can be stored.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let lock = self.lock_file("lock")?;
        lock.lock()?;
        self.reloaded()?.store()
    }

    /// Records whether the latest login was to this service. Logins with a profile do not count.
    pub(crate) fn prefer(&mut self, origin: &str, is_latest: bool) -> Result<(), Failure> {
        if self.profile.is_some() {
            return Ok(());
        }
        let lock = self.lock_file("lock")?;
        lock.lock()?;
        *self = self.reloaded()?;
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

    /// Takes the lock that `listen` holds while it finds or creates its endpoint. The lock does not block a `listen`
    /// for another endpoint.
    pub(crate) fn alone(&self, origin: &str, wanted: &str) -> Result<fs::File, Failure> {
        let lock = self.lock_of(&format!("listen{origin}{wanted}"))?;
        lock.lock()?;
        Ok(lock)
    }

    /// Opens the lock file that a `listen` locks while it receives from an endpoint.
    pub(crate) fn lock_of(&self, endpoint: &str) -> Result<fs::File, Failure> {
        let name: String = endpoint.chars().filter(char::is_ascii_alphanumeric).take(MAX_LOCK_NAME_LENGTH).collect();
        self.lock_file(&format!("{name}.lock"))
    }
}

/// Returns the configuration folder, by the platform's conventions.
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

/// Creates a file that only its owner can read. Replaces a file that a killed process left behind.
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
